/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine.h"
#include "core/qp.h"
#include "roce/qp.h"

/*
 * When the requester sends again, and what.
 *
 * Two timers in one. The ACK timeout is the attributes': when the peer has acknowledged nothing new for that long, a try is
 * over, and after retry_cnt more of them the QP is (IBA 1.x §9.9.2.1.1). Long before, after a few round trips as RFC 6298
 * reckons them, what is unacknowledged goes out again; that costs no try, it only makes up for a lost last packet or
 * answer.
 *
 * A peer that drops what comes ahead of a gap has to be sent everything from the gap on. One that keeps it, as our
 * responder does (kept.c), needs what is missing and no more. Nothing on the wire says which it is, but its next answer
 * does: so after a loss the packet that was missing goes again, or the train that it began, which networks lose as a
 * whole; then come new ones. Where the peer answers that the very next is missing too, it has kept nothing, or lost
 * more; it is sent everything, and trusted less: the next losses cost everything as well, before it is tried once more.
 */

/*
 * A try may last up to four times as long as the attribute says (IBA 1.x §9.7.6.1.3), and a peer that is a process has
 * to be given its turn before it can answer: on a busy machine that takes longer than what programs set for a NIC.
 * Shorter times are stretched towards this, and none is taken to be shorter than the least.
 */
#define ACK_TIMEOUT_ENOUGH_NS 250000000u
#define ACK_TIMEOUT_STRETCH   4u
#define ACK_TIMEOUT_MIN_NS    4000000u
/* The retransmission timeout, before a round trip was measured and at least. */
#define RESEND_FIRST_NS	 20000000u
#define RESEND_MIN_NS	 2000000u
#define BACKOFF_MAX	 8
#define RESENDS_IN_A_TRY 4

/* While a hole is being filled, room for more is looked for so often. */
#define LOOKS_IN_RTT 8u
#define LOOK_MIN_NS  100000u
/* Of one hole behind the other a peer that is known to keep is sent four times as many; at so many it is known no more. */
#define HOLE_GROWTH   4u
#define HOLE_MAX_PSNS 64u
/* So many losses, doubled each time up to the most, cost everything after a peer seems not to have kept. */
#define DOUBT_MAX 6u
/* Before a timeout is believed, at most so many turns of what waits in the socket. */
#define HEAR_TURNS 16

static uint64_t min_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* 4.096 us * 2^timeout; 0 is for ever. */
static uint64_t ack_timeout_ns(const struct roce_qp *rqp)
{
	uint64_t timeout_ns = UINT64_C(4096) << rqp->qp->attr.timeout;

	if (!rqp->qp->attr.timeout)
		return TIMER_NEVER_NS / 2;
	if (timeout_ns < ACK_TIMEOUT_ENOUGH_NS)
		timeout_ns = min_ns(ACK_TIMEOUT_STRETCH * timeout_ns, ACK_TIMEOUT_ENOUGH_NS);
	return timeout_ns < ACK_TIMEOUT_MIN_NS ? ACK_TIMEOUT_MIN_NS : timeout_ns;
}

static uint64_t resend_timeout_ns(const struct roce_qp *rqp)
{
	const struct roce_retry *retry = &rqp->tx.retry;
	uint64_t timeout_ns = retry->srtt_ns ? retry->srtt_ns + 4 * retry->rttvar_ns :
					       RESEND_FIRST_NS;

	if (timeout_ns < RESEND_MIN_NS)
		timeout_ns = RESEND_MIN_NS;
	timeout_ns <<= retry->backoff;
	/* A lossy network gets several chances before a try is over. */
	return min_ns(timeout_ns, ack_timeout_ns(rqp) / RESENDS_IN_A_TRY);
}

static uint64_t deadline_ns(const struct roce_qp *rqp)
{
	return min_ns(rqp->tx.retry.resent_ns + resend_timeout_ns(rqp),
		      rqp->tx.retry.progress_ns + ack_timeout_ns(rqp));
}

/* A hole is being filled at a peer that is known to keep, and has gone again. */
static bool goes_on_meanwhile(const struct roce_qp *rqp)
{
	return rqp->tx.keeping.is_asking && rqp->tx.keeping.is_known && !rqp->tx.skips &&
	       rqp->tx.window.recent_ns;
}

/* When there will be room meanwhile. */
static uint64_t next_look_ns(const struct roce_qp *rqp)
{
	uint64_t look_ns = rqp->tx.window.recent_ns / LOOKS_IN_RTT;

	if (!goes_on_meanwhile(rqp))
		return TIMER_NEVER_NS;
	return rqp->roce->now_ns + (look_ns < LOOK_MIN_NS ? LOOK_MIN_NS : look_ns);
}

/* One that is due earlier stays: it will look again. */
static void arm(struct roce_qp *rqp)
{
	uint64_t due_ns = min_ns(deadline_ns(rqp), next_look_ns(rqp));

	if (!rqp->tx.timer.is_pending || due_ns < rqp->tx.timer.deadline_ns)
		roce_timer_add(rqp->roce, &rqp->tx.timer, due_ns);
}

void retry_init(struct roce_qp *rqp)
{
	rqp->tx.retry = (struct roce_retry){
		.retries_left = rqp->qp->attr.retry_cnt,
		.rnr_left = rqp->qp->attr.rnr_retry,
	};
	rqp->tx.keeping = (struct roce_keeping){.all_end_psn = rqp->tx.una_psn};
	window_init(rqp);
}

/*
 * What a hole in what was acknowledged leaves room for at a peer that keeps. It cannot say what it has got; but as much
 * as the window holds leaves the network in each round trip, and so much may follow.
 */
static uint32_t room_meanwhile(const struct roce_qp *rqp)
{
	const struct roce_window *window = &rqp->tx.window;
	uint64_t passed_ns = min_ns(rqp->roce->now_ns - rqp->tx.retry.again_ns, window->recent_ns);
	uint32_t out = psn_sub(rqp->tx.max_psn, rqp->tx.una_psn);
	uint32_t followed = psn_sub(rqp->tx.max_psn, rqp->tx.retry.again_max_psn);
	uint32_t may_follow = (uint32_t)(window->psns * passed_ns / window->recent_ns);

	if (out >= WINDOW_MAX_PSNS || may_follow <= followed)
		return 0;
	may_follow -= followed;
	return may_follow < WINDOW_MAX_PSNS - out ? may_follow : WINDOW_MAX_PSNS - out;
}

uint32_t retry_room(const struct roce_qp *rqp)
{
	uint32_t out = psn_sub(rqp->tx.next_psn, rqp->tx.una_psn);
	uint32_t room = out < rqp->tx.window.psns ? rqp->tx.window.psns - out : 0;
	uint32_t meanwhile = goes_on_meanwhile(rqp) ? room_meanwhile(rqp) : 0;

	return room > meanwhile ? room : meanwhile;
}

void retry_sent(struct roce_qp *rqp, uint32_t psn, bool is_timeable)
{
	struct roce_retry *retry = &rqp->tx.retry;
	uint64_t now_ns = rqp->roce->now_ns;

	if (psn == rqp->tx.una_psn) {
		retry->resent_ns = now_ns;
		/* The first after a silence: the peer's time starts now. A resend starts no new time. */
		if (!retry->has_gone_back && !retry->backoff)
			retry->progress_ns = now_ns;
	}
	if (is_timeable && !retry->is_timing && !retry->has_gone_back && !retry->backoff) {
		retry->is_timing = true;
		retry->timed_psn = psn;
		retry->timed_ns = now_ns;
	}
	arm(rqp);
}

static void measure(struct roce_retry *retry, uint64_t rtt_ns)
{
	uint64_t off_ns;

	if (!retry->srtt_ns) {
		retry->srtt_ns = rtt_ns ? rtt_ns : 1;
		retry->rttvar_ns = rtt_ns / 2;
		return;
	}
	off_ns = rtt_ns > retry->srtt_ns ? rtt_ns - retry->srtt_ns : retry->srtt_ns - rtt_ns;
	retry->rttvar_ns = (3 * retry->rttvar_ns + off_ns) / 4;
	retry->srtt_ns = (7 * retry->srtt_ns + rtt_ns) / 8;
	if (!retry->srtt_ns)
		retry->srtt_ns = 1;
}

/* What has been acknowledged by now says whether the peer kept what it had of the rest. */
static void judge(struct roce_qp *rqp)
{
	struct roce_keeping *keeping = &rqp->tx.keeping;

	if (psn_is_after(rqp->tx.una_psn, keeping->all_end_psn))
		keeping->all_end_psn = rqp->tx.una_psn;
	if (!keeping->is_asking || !psn_is_after(rqp->tx.una_psn, keeping->end_psn))
		return;
	keeping->is_asking = false;
	keeping->is_known = true;
	keeping->doubt = 0;
}

void retry_progress(struct roce_qp *rqp, uint32_t acked_psns)
{
	struct roce_retry *retry = &rqp->tx.retry;
	uint64_t now_ns = rqp->roce->now_ns;

	if (retry->has_gone_back && !retry->backoff)
		window_repaired(rqp, now_ns - retry->resent_ns);
	retry->progress_ns = now_ns;
	retry->resent_ns = now_ns;
	/* Karn's rule would wait for a new measurement. Where losses are chance that waits longer than it saves (tests/sim). */
	retry->backoff = 0;
	retry->has_gone_back = false;
	retry->retries_left = rqp->qp->attr.retry_cnt;
	retry->rnr_left = rqp->qp->attr.rnr_retry;
	judge(rqp);
	if (retry->is_timing && psn_is_before(retry->timed_psn, rqp->tx.una_psn)) {
		retry->is_timing = false;
		measure(retry, now_ns - retry->timed_ns);
		window_measured(rqp, now_ns - retry->timed_ns);
	}
	window_acked(rqp, acked_psns);
}

/* What is before end_psn goes again. */
static void go_back(struct roce_qp *rqp, uint32_t end_psn)
{
	struct roce_retry *retry = &rqp->tx.retry;

	retry->is_timing = false;
	retry->has_gone_back = true;
	retry->gone_back_psn = rqp->tx.una_psn;
	retry->again_end_psn = end_psn;
	retry->again_ns = rqp->roce->now_ns;
	retry->again_max_psn = rqp->tx.max_psn;
	retry->resent_ns = rqp->roce->now_ns;
	roce_requester_go_back(rqp);
	if (end_psn != rqp->tx.max_psn)
		roce_requester_skip_after(rqp, end_psn);
}

static void go_back_all(struct roce_qp *rqp)
{
	rqp->tx.keeping.is_asking = false;
	rqp->tx.keeping.all_end_psn = rqp->tx.max_psn;
	go_back(rqp, rqp->tx.max_psn);
}

/* Whether una_psn went again too recently to be what an answer speaks of: that was under way before. */
static bool has_just_gone(const struct roce_qp *rqp)
{
	const struct roce_retry *retry = &rqp->tx.retry;

	return psn_is_before(rqp->tx.una_psn, retry->again_end_psn) &&
	       psn_is_before(rqp->tx.una_psn, rqp->tx.next_psn) &&
	       rqp->roce->now_ns - retry->again_ns < window_shortest_rtt_ns(rqp);
}

/* The peer misses what follows the last that went again. How much to send of it; 0: everything. */
static uint32_t next_hole(struct roce_keeping *keeping)
{
	keeping->is_asking = false;
	if (keeping->is_known && keeping->hole_psns * HOLE_GROWTH <= HOLE_MAX_PSNS)
		return keeping->hole_psns * HOLE_GROWTH;
	keeping->is_known = false;
	keeping->losses_left = 1u << keeping->doubt;
	if (keeping->doubt < DOUBT_MAX)
		keeping->doubt++;
	return 0;
}

/* Whether the peer has taken what went again, and nothing that it might have kept. */
static bool has_kept_nothing(const struct roce_qp *rqp)
{
	return rqp->tx.keeping.is_asking && rqp->tx.una_psn == rqp->tx.keeping.end_psn;
}

/* How much goes again of what is out; 0: everything. */
static uint32_t hole_psns(struct roce_qp *rqp)
{
	struct roce_keeping *keeping = &rqp->tx.keeping;

	/* While older copies are under way the peer may seem to keep, and not do it. */
	if (roce_requester_has_reads_out(rqp) ||
	    psn_is_before(rqp->tx.una_psn, keeping->all_end_psn))
		return 0;
	if (has_kept_nothing(rqp))
		return next_hole(keeping);
	if (!keeping->losses_left)
		return batch_train_psns(rqp, rqp->tx.una_psn);
	keeping->losses_left--;
	return 0;
}

/* Sends what is missing and, if it may, no more. */
static void fill_hole(struct roce_qp *rqp)
{
	struct roce_keeping *keeping = &rqp->tx.keeping;
	uint32_t psns = hole_psns(rqp);

	if (!psns || psns >= psn_sub(rqp->tx.max_psn, rqp->tx.una_psn)) {
		go_back_all(rqp);
		return;
	}
	keeping->is_asking = true;
	keeping->hole_psns = psns;
	keeping->end_psn = psn_add(rqp->tx.una_psn, psns);
	go_back(rqp, keeping->end_psn);
}

/* The peer says, or lets it be seen, that una_psn did not arrive. Once for each: told twice it is no more lost. */
void retry_lost(struct roce_qp *rqp)
{
	const struct roce_retry *retry = &rqp->tx.retry;

	if (rqp->tx.is_waiting_rnr || has_just_gone(rqp) ||
	    (retry->has_gone_back && retry->gone_back_psn == rqp->tx.una_psn))
		return;
	if (!has_kept_nothing(rqp))
		window_lost(rqp);
	fill_hole(rqp);
}

void retry_acked(struct roce_qp *rqp)
{
	if (has_kept_nothing(rqp))
		fill_hole(rqp);
}

void retry_rnr(struct roce_qp *rqp, unsigned timer_code)
{
	struct roce_retry *retry = &rqp->tx.retry;

	/* 7 is for ever (IBA 1.x §9.7.5.2.8). */
	if (rqp->qp->attr.rnr_retry != 7) {
		if (!retry->rnr_left) {
			roce_requester_fail(rqp, IBV_WC_RNR_RETRY_EXC_ERR, VENDOR_ERR_RNR);
			return;
		}
		retry->rnr_left--;
	}
	go_back_all(rqp);
	rqp->tx.is_waiting_rnr = true;
	roce_timer_add(rqp->roce, &rqp->tx.timer, rqp->roce->now_ns + aeth_rnr_wait_ns(timer_code));
}

static void rnr_is_over(struct roce_qp *rqp)
{
	struct roce_retry *retry = &rqp->tx.retry;

	rqp->tx.is_waiting_rnr = false;
	retry->has_gone_back = false;
	retry->backoff = 0;
	retry->progress_ns = rqp->roce->now_ns;
}

/* What is unacknowledged was out too long. false: that was the last try. */
static bool time_out(struct roce_qp *rqp)
{
	struct roce_retry *retry = &rqp->tx.retry;
	uint64_t now_ns = rqp->roce->now_ns;

	if (now_ns >= retry->progress_ns + ack_timeout_ns(rqp)) {
		if (!retry->retries_left) {
			roce_requester_fail(rqp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_ANSWER);
			return false;
		}
		retry->retries_left--;
		retry->progress_ns = now_ns;
	}
	roce_count(rqp->roce, ROCE_TIMEOUTS);
	if (retry->backoff < BACKOFF_MAX)
		retry->backoff++;
	/* What had been lost before was perhaps lost once more. Twice in a row it is the network. */
	if (rqp->tx.keeping.is_known && retry->backoff == 1) {
		window_lost(rqp);
		fill_hole(rqp);
		return true;
	}
	window_timed_out(rqp);
	go_back_all(rqp);
	return true;
}

/*
 * A process that had no processor for a while finds its timers due and the answers waiting: those come first, else it would
 * take its own absence for a loss.
 */
static void hear_what_waits(struct roce_qp *rqp, uint64_t now_ns)
{
	struct engine *engine = rqp->roce->engine;

	for (int i = 0; i < HEAR_TURNS && roce_transport.run(engine, now_ns); i++)
		;
}

static bool is_idle(const struct roce_qp *rqp)
{
	return rqp->tx.una_psn == rqp->tx.max_psn || rqp->qp->state == IBV_QPS_ERR;
}

void retry_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce_qp *rqp = container_of(timer, struct roce_qp, tx.timer);

	rqp->roce->now_ns = now_ns;
	if (!rqp->tx.is_waiting_rnr && !is_idle(rqp) && now_ns >= deadline_ns(rqp)) {
		hear_what_waits(rqp, now_ns);
		/* An answer may have made it wait for a receive, from now on. */
		if (rqp->tx.is_waiting_rnr)
			return;
		now_ns = rqp->roce->now_ns;
	}
	if (rqp->tx.is_waiting_rnr) {
		rnr_is_over(rqp);
	} else if (is_idle(rqp)) {
		return;
	} else if (now_ns < deadline_ns(rqp)) {
		if (!goes_on_meanwhile(rqp)) {
			arm(rqp);
			return;
		}
	} else if (!time_out(rqp)) {
		return;
	}
	roce_requester_run(rqp);
	batch_flush(rqp->roce);
	/* Also when nothing could be sent: the link takes no more, or the queue is stopped. */
	if (rqp->tx.una_psn != rqp->tx.max_psn && rqp->qp->state != IBV_QPS_ERR &&
	    !rqp->tx.is_waiting_rnr)
		arm(rqp);
}
