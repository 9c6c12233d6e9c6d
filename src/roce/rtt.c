/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/rtt.h"

#include <stdbool.h>

#include "base/util.h"

/*
 * Routes change, so a minimum expires after at most two periods without a sample that is as short.
 */
#define MIN_RTT_PERIOD_NS UINT64_C(10000000000)
/*
 * RFC 6298 §2.1 and §2.4, scaled from a WAN to hosts that respond within a scheduler's time slice.
 */
#define RTO_INITIAL_NS 20000000u
#define RTO_MIN_NS     2000000u

static void update_estimator(struct rtt *rtt, uint64_t sample_ns)
{
	uint64_t deviation_ns;

	if (!rtt->srtt_ns) {
		rtt->srtt_ns = sample_ns ? sample_ns : 1;
		rtt->rttvar_ns = sample_ns / 2;
		return;
	}
	deviation_ns = sample_ns > rtt->srtt_ns ? sample_ns - rtt->srtt_ns :
						  rtt->srtt_ns - sample_ns;
	rtt->rttvar_ns = (3 * rtt->rttvar_ns + deviation_ns) / 4;
	rtt->srtt_ns = (7 * rtt->srtt_ns + sample_ns) / 8;
	if (!rtt->srtt_ns)
		rtt->srtt_ns = 1;
}

static void update_min(struct rtt *rtt, uint64_t now_ns, uint64_t sample_ns)
{
	if (now_ns - rtt->period_start_ns >= MIN_RTT_PERIOD_NS) {
		rtt->previous_min_ns = rtt->min_ns;
		rtt->min_ns = 0;
		rtt->period_start_ns = now_ns;
	}
	if (!rtt->min_ns || sample_ns < rtt->min_ns)
		rtt->min_ns = sample_ns ? sample_ns : 1;
}

static void update_recent(struct rtt *rtt, uint64_t sample_ns)
{
	rtt->recent_ns = rtt->recent_ns ? (rtt->recent_ns + sample_ns) / 2 : sample_ns;
}

static bool has_bound(const struct rtt *rtt)
{
	return rtt->bounds == RTT_BOUNDS_MAX;
}

void rtt_add_sample(struct rtt *rtt, uint64_t now_ns, uint64_t sample_ns)
{
	if (has_bound(rtt))
		rtt->srtt_ns = 0;
	rtt->bounds = 0;
	update_estimator(rtt, sample_ns);
	update_min(rtt, now_ns, sample_ns);
	update_recent(rtt, sample_ns);
}

uint64_t rtt_add_ambiguous_sample(struct rtt *rtt, uint64_t sample_ns)
{
	if (!sample_ns || sample_ns < rtt_min_ns(rtt))
		return 0;
	update_recent(rtt, sample_ns);
	return sample_ns;
}

void rtt_add_upper_bound(struct rtt *rtt, uint64_t bound_ns)
{
	if (!rtt->bounds || bound_ns < rtt->bound_ns)
		rtt->bound_ns = min_u64(bound_ns, RTT_BOUND_MAX_NS);
	if (rtt->bounds < RTT_BOUNDS_MAX)
		rtt->bounds++;
}

uint64_t rtt_srtt_ns(const struct rtt *rtt)
{
	return has_bound(rtt) && rtt->bound_ns > rtt->srtt_ns ? rtt->bound_ns : rtt->srtt_ns;
}

uint64_t rtt_min_ns(const struct rtt *rtt)
{
	if (!rtt->previous_min_ns || rtt->min_ns < rtt->previous_min_ns)
		return rtt->min_ns;
	return rtt->previous_min_ns;
}

/* RFC 6298 §2.2 and §2.3. A bound that counts is as a first sample. */
static uint64_t rtt_base_rto_ns(const struct rtt *rtt)
{
	uint64_t rto_ns = rtt->srtt_ns ? rtt->srtt_ns + 4 * rtt->rttvar_ns : RTO_INITIAL_NS;
	uint64_t bound_rto_ns = has_bound(rtt) ? rtt->bound_ns + 4 * (rtt->bound_ns / 2) : 0;

	return bound_rto_ns > rto_ns ? bound_rto_ns : rto_ns;
}

uint64_t rtt_rto_ns(const struct rtt *rtt, unsigned int backoff)
{
	uint64_t rto_ns = rtt_base_rto_ns(rtt);

	return (rto_ns < RTO_MIN_NS ? RTO_MIN_NS : rto_ns) << backoff;
}
