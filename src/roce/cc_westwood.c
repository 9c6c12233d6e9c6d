/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "roce/cc.h"

/*
 * Westwood: after a loss the window becomes the estimated bandwidth-delay product without a queue,
 * as in TCP Westwood (Mascolo et al., MobiCom 2001). Random losses therefore do not reduce the
 * window, and the network is shared with TCP.
 *
 * The bandwidth estimate is cwnd / RTT, so the window after a loss, bandwidth * minimum RTT, is
 * cwnd * minimum RTT / RTT. The window is unchanged if RTT is at most 133 % of the minimum RTT. At
 * least 70 % of the window remain, CUBIC's factor (RFC 9438 §4.6): with half, a CUBIC sender gets
 * the larger share of a queue. RTT is the minimum of the latest samples: a queue increases all
 * samples, a scheduling delay only single ones.
 *
 * If more than 3 packets plus 2 % of the packets are lost, each loss counts as congestion
 * regardless of the RTT: 70 % remain.
 *
 * After a congestion mark half of the window remains (RFC 3168 §6.1.2): with 70 % a TCP that halves
 * its window gets half as much.
 *
 * Slow start continues beyond CC_LIMIT_PKTS only while RTT is at most twice the minimum. Congestion
 * avoidance continues to the next loss, as that of a TCP in the same buffer does, unless a loss
 * costs a window: then it also ends at CC_LIMIT_PKTS.
 */

#define GAIN_PKTS 2u /* per round trip, in congestion avoidance */

#define REDUCTION_PERCENT     70u
#define REDUCTION_ECN_PERCENT 50u
/*
 * Percent of the minimum round-trip time: up to the first value the path counts as without a queue,
 * up to the second slow start continues beyond CC_LIMIT_PKTS.
 */
#define RTT_NO_QUEUE_PERCENT 133u
#define RTT_GROWTH_PERCENT   200u

/*
 * More losses than RANDOM_LOSS_FEW plus one in RANDOM_LOSS_PKTS packets are congestion. Both counts
 * are halved after DECAY_PKTS delivered packets.
 */
#define RANDOM_LOSS_PKTS 50u
#define RANDOM_LOSS_FEW	 3u
#define DECAY_PKTS	 2048u

/* The minimum of the latest round-trip times, in percent of rtt_min_ns(); 0: unknown. */
static uint64_t westwood_rtt_percent(const struct cc_westwood *westwood, const struct rtt *rtt)
{
	uint64_t min_ns = rtt_min_ns(rtt);
	uint64_t latest_ns = rtt->recent_ns;

	for (uint32_t i = 0; i < CC_WESTWOOD_RTTS; i++) {
		if (westwood->rtts_ns[i] && westwood->rtts_ns[i] < latest_ns)
			latest_ns = westwood->rtts_ns[i];
	}
	return min_ns ? latest_ns * 100 / min_ns : 0;
}

static void westwood_on_rtt_sample(struct cc *cc, uint64_t rtt_ns)
{
	struct cc_westwood *westwood = &cc->westwood;

	westwood->rtts_ns[westwood->rtts_head++ % CC_WESTWOOD_RTTS] = rtt_ns ? rtt_ns : 1;
}

static void westwood_grow(struct cc *cc, const struct cc_conn *conn, uint32_t acked_pkts)
{
	uint64_t percent = westwood_rtt_percent(&cc->westwood, conn->rtt);
	bool has_queue = percent > RTT_GROWTH_PERCENT;
	uint32_t limit_pkts = conn->max_cwnd_pkts;

	if (!percent || (has_queue && (conn->is_go_back_n || cc->cwnd_pkts < CC_LIMIT_PKTS)))
		limit_pkts = min_u32(limit_pkts, CC_LIMIT_PKTS);
	else if (has_queue)
		cc->ssthresh_pkts = min_u32(cc->ssthresh_pkts, cc->cwnd_pkts);
	cc_grow(cc, acked_pkts, GAIN_PKTS, limit_pkts);
}

static void westwood_on_ack(struct cc *cc, const struct cc_conn *conn, uint32_t acked_pkts)
{
	struct cc_westwood *westwood = &cc->westwood;

	westwood->delivered_pkts += acked_pkts;
	if (westwood->delivered_pkts > DECAY_PKTS) {
		westwood->delivered_pkts /= 2;
		westwood->losses /= 2;
	}
	cc_update_recovery(cc, conn);
	if (!cc->is_in_recovery || westwood->has_timed_out)
		westwood_grow(cc, conn, acked_pkts);
}

static void westwood_reduce(struct cc *cc, const struct cc_conn *conn, uint32_t percent,
			    uint32_t floor_pkts)
{
	if (cc_enter_recovery(cc, conn, percent, floor_pkts))
		cc->westwood.has_timed_out = false;
}

/* The part of the window that remains after a loss, in percent. */
static uint32_t westwood_remaining_percent(const struct cc_westwood *westwood,
					   const struct rtt *rtt)
{
	uint64_t percent = westwood_rtt_percent(westwood, rtt);
	uint64_t remaining;

	if (!percent ||
	    westwood->losses > RANDOM_LOSS_FEW + westwood->delivered_pkts / RANDOM_LOSS_PKTS)
		return REDUCTION_PERCENT;
	remaining = RTT_NO_QUEUE_PERCENT * 100 / percent;
	if (remaining > 100)
		return 100;
	return remaining < REDUCTION_PERCENT ? REDUCTION_PERCENT : (uint32_t)remaining;
}

/*
 * Go-back-N retransmits the whole window after each loss. If the window is longer than the mean
 * distance of two losses, most packets are retransmissions.
 */
static void westwood_limit_to_loss_distance(struct cc *cc)
{
	cc_reduce_to(cc, cc->westwood.delivered_pkts / cc->westwood.losses, CC_MIN_PKTS);
}

static void westwood_on_loss(struct cc *cc, const struct cc_conn *conn)
{
	uint32_t remaining;

	cc->westwood.losses++;
	remaining = westwood_remaining_percent(&cc->westwood, conn->rtt);
	if (remaining < 100)
		westwood_reduce(cc, conn, remaining, CC_MIN_PKTS);
	if (!conn->is_selective && cc->westwood.losses > 1)
		westwood_limit_to_loss_distance(cc);
	cc->ssthresh_pkts = cc->cwnd_pkts;
}

static void westwood_on_rto(struct cc *cc, const struct cc_conn *conn)
{
	/*
	 * Before the first sample, the path may only be longer than the initial RTO: the threshold
	 * of slow start does not change.
	 */
	if (conn->rtt->srtt_ns) {
		cc->westwood.losses++;
		westwood_reduce(cc, conn, REDUCTION_PERCENT, CC_MIN_PKTS);
	}
	/* Slow start restarts at once, within the recovery period. */
	cc_reduce_to(cc, 0, CC_MIN_PKTS);
	cc->westwood.has_timed_out = true;
}

static void westwood_on_ecn(struct cc *cc, const struct cc_conn *conn)
{
	westwood_reduce(cc, conn, REDUCTION_ECN_PERCENT, CC_MIN_MARKED_PKTS);
}

const struct cc_ops cc_westwood = {
	.name = "westwood",
	.on_ack = westwood_on_ack,
	.on_loss = westwood_on_loss,
	.on_rto = westwood_on_rto,
	.on_ecn = westwood_on_ecn,
	.on_rtt_sample = westwood_on_rtt_sample,
};
