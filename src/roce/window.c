/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/qp.h"

/*
 * How much a requester may have under way: the window of unacknowledged PSNs, which grows as long as the network takes
 * it and shrinks where it does not, so that it shares a network with TCP.
 *
 * A loss by itself is no congestion. Where round trips are hardly longer than the shortest seen, no queue has built up, and
 * what was lost was lost by chance; the window stays. Where they are longer, it shrinks to what the path carried without a
 * queue, as TCP Westwood's does, though not by more than half. Two losses in a hundred packets are one too many for chance,
 * whatever the round trips say. A mark by a router, or a peer's congestion notice, always counts.
 *
 * A queue makes all round trips long. Single ones are long where a process, here or there, had to wait for a processor: so
 * of the last few the shortest counts.
 *
 * Up to WINDOW_PSNS the window grows whatever the round trips; beyond that only while no queue of its own making delays it.
 */

#define WINDOW_FIRST_PSNS 30u
#define WINDOW_MIN_PSNS	  4u
#define WINDOW_GAIN_PSNS  2u /* in each round trip, once below the threshold no more */

/* Of the window after a mark, or a loss too many; and at the least. */
#define KEPT_PERCENT	   70u
#define KEPT_LEAST_PERCENT 50u
/* Round trips up to so much of the shortest count as unhindered … */
#define UNHINDERED_PERCENT 133u
/* … and up to so much a window beyond WINDOW_PSNS may grow. */
#define GROWING_PERCENT 200u

/* More losses than one in so many packets, and a few, are too many. Both counts fade. */
#define CHANCE_PSNS 50u
#define CHANCE_FEW  3u
#define FADING_PSNS 2048u
/* Paths change: the shortest round trip is that of this era and the one before. */
#define ERA_NS UINT64_C(10000000000)
/* What a packet takes in the peer's socket besides its payload: headers, and what the kernel reckons for it. */
#define PACKET_OVERHEAD_BYTES 256u

void window_init(struct roce_qp *rqp)
{
	rqp->tx.window = (struct roce_window){
		.psns = WINDOW_FIRST_PSNS,
		.threshold = WINDOW_MAX_PSNS,
	};
}

/* What all that was measured last says; the latest counts half. */
static void note(struct roce_window *window, uint64_t rtt_ns)
{
	window->recent_ns = window->recent_ns ? (window->recent_ns + rtt_ns) / 2 : rtt_ns;
	window->last_ns[window->last_head++ % ROUND_TRIPS_NOTED] = rtt_ns ? rtt_ns : 1;
}

static uint64_t shortest_ns(const struct roce_window *window)
{
	if (!window->before_ns || window->shortest_ns < window->before_ns)
		return window->shortest_ns;
	return window->before_ns;
}

uint64_t window_shortest_rtt_ns(const struct roce_qp *rqp)
{
	return shortest_ns(&rqp->tx.window);
}

void window_measured(struct roce_qp *rqp, uint64_t rtt_ns)
{
	struct roce_window *window = &rqp->tx.window;

	if (rqp->roce->now_ns - window->era_ns >= ERA_NS) {
		window->before_ns = window->shortest_ns;
		window->shortest_ns = 0;
		window->era_ns = rqp->roce->now_ns;
	}
	if (!window->shortest_ns || rtt_ns < window->shortest_ns)
		window->shortest_ns = rtt_ns ? rtt_ns : 1;
	note(window, rtt_ns);
}

/*
 * Where losses are many no round trip is without one, so those count as well in which what was lost came again. One that is
 * too short to be true was the first packet's, come late.
 */
void window_repaired(struct roce_qp *rqp, uint64_t rtt_ns)
{
	if (rtt_ns >= shortest_ns(&rqp->tx.window))
		note(&rqp->tx.window, rtt_ns);
}

/* How long round trips are, all of the last ones, of the shortest; 0: not known yet. */
static uint64_t rtt_percent(const struct roce_window *window)
{
	uint64_t shortest = shortest_ns(window);
	uint64_t least = window->recent_ns;

	for (uint32_t i = 0; i < ROUND_TRIPS_NOTED; i++) {
		if (window->last_ns[i] && window->last_ns[i] < least)
			least = window->last_ns[i];
	}
	return shortest ? least * 100 / shortest : 0;
}

static uint32_t most_psns(const struct roce_qp *rqp)
{
	uint32_t room_bytes = rqp->roce->link ? rqp->roce->link->rx_bytes : 0;
	uint32_t psns = room_bytes / (rqp->mtu_bytes + PACKET_OVERHEAD_BYTES);

	if (!room_bytes || psns > WINDOW_MAX_PSNS)
		return WINDOW_MAX_PSNS;
	return psns < WINDOW_MIN_PSNS ? WINDOW_MIN_PSNS : psns;
}

static void grow(struct roce_qp *rqp, uint32_t acked_psns)
{
	struct roce_window *window = &rqp->tx.window;
	uint32_t most = most_psns(rqp);
	uint64_t percent = rtt_percent(window);

	if (most > WINDOW_PSNS && (!percent || percent > GROWING_PERCENT))
		most = WINDOW_PSNS;
	if (window->psns >= most)
		return;
	if (window->psns < window->threshold) {
		window->psns += acked_psns;
	} else {
		window->acked_psns += acked_psns;
		if (window->acked_psns >= window->psns) {
			window->acked_psns = 0;
			window->psns += WINDOW_GAIN_PSNS;
		}
	}
	if (window->psns > most)
		window->psns = most;
}

void window_acked(struct roce_qp *rqp, uint32_t acked_psns)
{
	struct roce_window *window = &rqp->tx.window;

	window->delivered_psns += acked_psns;
	if (window->delivered_psns > FADING_PSNS) {
		window->delivered_psns /= 2;
		window->losses /= 2;
	}
	if (window->is_recovering && !psn_is_before(rqp->tx.una_psn, window->recover_psn))
		window->is_recovering = false;
	if (!window->is_recovering || window->has_timed_out)
		grow(rqp, acked_psns);
}

/* Once for all that is under way. */
static void shrink_to(struct roce_qp *rqp, uint32_t percent)
{
	struct roce_window *window = &rqp->tx.window;

	if (window->is_recovering)
		return;
	window->is_recovering = rqp->tx.una_psn != rqp->tx.max_psn;
	window->has_timed_out = false;
	window->recover_psn = rqp->tx.max_psn;
	window->psns = window->psns * percent / 100;
	if (window->psns < WINDOW_MIN_PSNS)
		window->psns = WINDOW_MIN_PSNS;
	window->threshold = window->psns;
	window->acked_psns = 0;
}

/* What a loss leaves of the window. */
static uint32_t kept_percent(const struct roce_window *window)
{
	uint64_t percent = rtt_percent(window);
	uint64_t kept;

	if (!percent || window->losses > CHANCE_FEW + window->delivered_psns / CHANCE_PSNS)
		return KEPT_PERCENT;
	kept = UNHINDERED_PERCENT * 100 / percent;
	if (kept > 100)
		return 100;
	return kept < KEPT_LEAST_PERCENT ? KEPT_LEAST_PERCENT : (uint32_t)kept;
}

/* To send a peer everything from a loss on costs the window, so one longer than the way between losses is mostly waste. */
static void fit_to_losses(struct roce_window *window)
{
	uint32_t between_psns = window->delivered_psns / window->losses;

	if (window->psns > between_psns)
		window->psns = between_psns;
	if (window->psns < WINDOW_MIN_PSNS)
		window->psns = WINDOW_MIN_PSNS;
}

void window_lost(struct roce_qp *rqp)
{
	struct roce_window *window = &rqp->tx.window;
	uint32_t kept;

	window->losses++;
	kept = kept_percent(window);
	if (kept < 100)
		shrink_to(rqp, kept);
	if (!rqp->tx.keeping.is_known && window->losses > 1)
		fit_to_losses(window);
	window->threshold = window->psns;
}

void window_marked(struct roce_qp *rqp)
{
	shrink_to(rqp, KEPT_PERCENT);
}

void window_timed_out(struct roce_qp *rqp)
{
	rqp->tx.window.losses++;
	shrink_to(rqp, KEPT_PERCENT);
	/* It begins anew, at once. */
	rqp->tx.window.psns = WINDOW_MIN_PSNS;
	rqp->tx.window.has_timed_out = true;
}
