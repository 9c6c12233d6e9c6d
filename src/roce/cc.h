/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_CC_H
#define USRDMA_ROCE_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/rtt.h"

/*
 * Congestion control of one connection: limits how many packets may be in flight. No I/O. The
 * inputs of an algorithm are acknowledgments, losses, congestion marks and round-trip times; its
 * output is cwnd_pkts. recovery.c detects losses and retransmits. Each algorithm is one file with
 * one struct cc_ops. docs/loss-recovery.md describes the algorithms.
 */

/*
 * The limit of the congestion window while no round-trip time is measured, or on a path with a
 * queue if each loss costs a window. rxe limits its packets in flight to the same number.
 */
#define CC_LIMIT_PKTS 120u
/* The limit in all other cases; also the size of a peer's reorder buffer. */
#define CC_MAX_PKTS	512u
#define CC_INITIAL_PKTS 30u
#define CC_MIN_PKTS	4u
/*
 * The minimum after congestion marks. Many senders to one receiver fill its switch port with
 * CC_MIN_PKTS packets each: 64 senders with 4 KiB packets fill 1 MiB.
 */
#define CC_MIN_MARKED_PKTS 1u

/*
 * Number of latest round-trip times. Their minimum shows whether the path has a queue
 * (cc_westwood.c).
 */
#define CC_WESTWOOD_RTTS 4u

struct cc;

/* The connection's state at an event, as input of an algorithm. */
struct cc_conn {
	uint32_t una_psn; /* [una_psn, max_psn) was sent and is not acknowledged */
	uint32_t max_psn;
	/* packets that fit into the socket's receive buffer, up to CC_MAX_PKTS */
	uint32_t max_cwnd_pkts;
	bool is_selective; /* the peer was found to buffer out-of-order packets */
	/* each loss costs a window: it was found not to buffer them, or READs are in flight */
	bool is_go_back_n;
	const struct rtt *rtt;
};

struct cc_ops {
	const char *name;
	/*
	 * acked_pkts packets were acknowledged for the first time. una_psn is the PSN after them.
	 */
	void (*on_ack)(struct cc *cc, const struct cc_conn *conn, uint32_t acked_pkts);
	/* The peer reported that una_psn is missing. Called once for each loss. */
	void (*on_loss)(struct cc *cc, const struct cc_conn *conn);
	/* The retransmission timer expired: all packets in flight are considered lost. */
	void (*on_rto)(struct cc *cc, const struct cc_conn *conn);
	/*
	 * A congestion notification packet arrived: a switch marked a packet of this connection
	 * (IBA A17).
	 */
	void (*on_ecn)(struct cc *cc, const struct cc_conn *conn);
	/* NULL: the algorithm ignores round-trip times. */
	void (*on_rtt_sample)(struct cc *cc, uint64_t rtt_ns);
};

struct cc_westwood {
	bool has_timed_out; /* the current recovery period began with a timeout: cwnd grows in it */
	uint32_t losses;    /* of delivered_pkts; both decay */
	uint32_t delivered_pkts;
	uint64_t rtts_ns[CC_WESTWOOD_RTTS]; /* ring of the latest samples; 0: none */
	uint32_t rtts_head;
};

/* In struct roce_qp, guarded by engine.lock. */
struct cc {
	const struct cc_ops *ops;
	uint32_t cwnd_pkts;
	uint32_t ssthresh_pkts;
	uint32_t acked_pkts; /* in congestion avoidance, since cwnd_pkts last grew */
	/*
	 * The recovery period (RFC 9002 §7.3.2) ends when the packets that were in flight at its
	 * start are acknowledged.
	 */
	bool is_in_recovery;
	uint32_t recovery_end_psn;
	struct cc_westwood westwood;
};

extern const struct cc_ops cc_westwood; /* the default */
extern const struct cc_ops cc_newreno;

/* Finds an algorithm by its name; NULL: not found. */
const struct cc_ops *cc_find(const char *name);
/* Writes the names of all algorithms, separated by commas, into a buffer of `bytes` bytes. */
void cc_list_names(char *to, unsigned int bytes);

void cc_init(struct cc *cc, const struct cc_ops *ops);
void cc_on_rtt_sample(struct cc *cc, uint64_t rtt_ns);

/*
 * The number of packets with mtu_bytes of payload that fit into a receive buffer of rx_bytes,
 * CC_MIN_PKTS to CC_MAX_PKTS. rx_bytes 0: the buffer is unlimited.
 */
uint32_t cc_max_cwnd_pkts(uint32_t rx_bytes, uint32_t mtu_bytes);

/* For algorithms. Reduces cwnd_pkts to pkts, but not below floor_pkts. Never increases it. */
void cc_reduce_to(struct cc *cc, uint32_t pkts, uint32_t floor_pkts);
/*
 * For algorithms. Begins a recovery period and sets cwnd_pkts to `percent` of its value, but not
 * below floor_pkts; false: a period is in progress.
 */
bool cc_enter_recovery(struct cc *cc, const struct cc_conn *conn, uint32_t percent,
		       uint32_t floor_pkts);
/* Ends the recovery period if all packets up to recovery_end_psn are acknowledged. */
void cc_update_recovery(struct cc *cc, const struct cc_conn *conn);
/*
 * Increases cwnd_pkts, up to limit_pkts: by acked_pkts below ssthresh_pkts (slow start), then by
 * gain_pkts for each acknowledged window (congestion avoidance).
 */
void cc_grow(struct cc *cc, uint32_t acked_pkts, uint32_t gain_pkts, uint32_t limit_pkts);

#endif
