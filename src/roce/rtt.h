/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_RTT_H
#define USRDMA_ROCE_RTT_H

#include <stdint.h>

/*
 * Round-trip times of one connection: the estimator of RFC 6298 §2 for the retransmission timer, a
 * filtered minimum as in RFC 9002 §5.2, and a fast average for pacing. No I/O. Owned by struct
 * recovery.
 */
struct rtt {
	uint64_t srtt_ns; /* 0: no sample yet */
	uint64_t rttvar_ns;
	uint64_t recent_ns; /* moving average; the latest sample has weight 1/2; 0: no sample yet */
	uint64_t min_ns;    /* minimum of the current period; 0: no sample in it */
	uint64_t previous_min_ns; /* minimum of the preceding period; 0: no sample in it */
	uint64_t period_start_ns;
	uint64_t bound_ns; /* minimum of the upper bounds since the last sample */
	uint8_t bounds;	   /* their number, at most RTT_BOUNDS_MAX; then bound_ns counts */
};

/*
 * If the round-trip time exceeds the RTO, each packet is retransmitted before it is acknowledged,
 * and Karn's algorithm never finds a sample. The time from the first copy of a retransmitted packet
 * is an upper bound of the round-trip time. It may also contain the backoff of lost copies, or an
 * outage. So a single bound does not count, and the minimum of several ones does.
 */
#define RTT_BOUNDS_MAX 2
/* A longer bound contains an outage of the path or of the peer. */
#define RTT_BOUND_MAX_NS 1000000000u

/* Adds an unambiguous sample: its packet was sent once (Karn's algorithm, RFC 6298 §3). */
void rtt_add_sample(struct rtt *rtt, uint64_t now_ns, uint64_t sample_ns);

/*
 * Adds a sample of a retransmitted packet, measured from the retransmission. It updates recent_ns
 * only, because with frequent losses each round trip has a retransmission. Returns the sample; 0:
 * the sample is below the minimum, so the first copy was acknowledged, and the sample is ignored.
 */
uint64_t rtt_add_ambiguous_sample(struct rtt *rtt, uint64_t sample_ns);

/*
 * Adds the time from the first copy of a retransmitted packet, which is an upper bound. After
 * RTT_BOUNDS_MAX bounds without a sample, their minimum counts for rtt_srtt_ns() and rtt_rto_ns(),
 * and for nothing else. The next sample initializes srtt_ns and rttvar_ns again, as RFC 6298 §5
 * permits after repeated backoff.
 */
void rtt_add_upper_bound(struct rtt *rtt, uint64_t bound_ns);

/* The smoothed round-trip time, at least the upper bound if it counts; 0: neither is known. */
uint64_t rtt_srtt_ns(const struct rtt *rtt);

/* The minimum of the current and the previous period; 0: no sample. */
uint64_t rtt_min_ns(const struct rtt *rtt);

/*
 * The retransmission timeout of RFC 6298 §2, at least 2 ms, doubled `backoff` times (§5.5). There
 * is no upper limit.
 */
uint64_t rtt_rto_ns(const struct rtt *rtt, unsigned int backoff);

#endif
