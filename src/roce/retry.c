/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine.h"
#include "core/qp.h"
#include "roce/qp.h"

/*
 * When the requester sends again, and how much it may have under way.
 *
 * Two timers in one. The ACK timeout is the attributes': when the peer has acknowledged nothing new for that long, a try is
 * over, and after retry_cnt more of them the QP is (IBA 1.x §9.9.2.1.1). Long before, after a few round trips as RFC 6298
 * reckons them, what is unacknowledged goes out again; that costs no try, it only makes up for a lost last packet or answer.
 *
 * The window of unacknowledged PSNs grows as long as nothing is lost and shrinks when something is, so that it shares a
 * network with TCP. Losses within one window count as one.
 */

/* No ACK timeout is taken to be shorter: a process may have to be woken before it can answer. */
#define ACK_TIMEOUT_MIN_NS 4000000u
/* The retransmission timeout, before a round trip was measured and at least. */
#define RESEND_FIRST_NS	 20000000u
#define RESEND_MIN_NS	 2000000u
#define BACKOFF_MAX	 8
#define RESENDS_IN_A_TRY 4

#define WINDOW_FIRST_PSNS 32u
#define WINDOW_MIN_PSNS	  4u
/* What is left of the window after a loss, in tenths, and what it gains in each round trip. */
#define WINDOW_KEPT_TENTHS 7u
#define WINDOW_GAIN_PSNS   2u

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

/* One that is due earlier stays: it will look again. */
static void arm(struct roce_qp *rqp)
{
	uint64_t due_ns = deadline_ns(rqp);

	if (!rqp->tx.timer.is_pending || due_ns < rqp->tx.timer.deadline_ns)
		roce_timer_add(rqp->roce, &rqp->tx.timer, due_ns);
}

void retry_init(struct roce_qp *rqp)
{
	rqp->tx.retry = (struct roce_retry){
		.retries_left = rqp->qp->attr.retry_cnt,
		.rnr_left = rqp->qp->attr.rnr_retry,
		.window = WINDOW_FIRST_PSNS,
		.threshold = WINDOW_PSNS,
	};
}

uint32_t retry_room(const struct roce_qp *rqp)
{
	uint32_t out = psn_sub(rqp->tx.next_psn, rqp->tx.una_psn);

	return out < rqp->tx.retry.window ? rqp->tx.retry.window - out : 0;
}

void retry_sent(struct roce_qp *rqp, uint32_t psn, bool wants_ack)
{
	struct roce_retry *retry = &rqp->tx.retry;
	uint64_t now_ns = rqp->roce->now_ns;

	if (psn == rqp->tx.una_psn) {
		retry->resent_ns = now_ns;
		/* The first after a silence: the peer's time starts now. A resend starts no new time. */
		if (!retry->has_gone_back && !retry->backoff)
			retry->progress_ns = now_ns;
	}
	if (wants_ack && !retry->is_timing && !retry->has_gone_back && !retry->backoff) {
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

static void grow(struct roce_retry *retry, uint32_t acked_psns)
{
	if (retry->window < retry->threshold) {
		retry->window += acked_psns;
	} else {
		retry->acked += acked_psns;
		if (retry->acked >= retry->window) {
			retry->acked = 0;
			retry->window += WINDOW_GAIN_PSNS;
		}
	}
	if (retry->window > WINDOW_PSNS)
		retry->window = WINDOW_PSNS;
}

void retry_progress(struct roce_qp *rqp, uint32_t acked_psns)
{
	struct roce_retry *retry = &rqp->tx.retry;
	uint64_t now_ns = rqp->roce->now_ns;

	retry->progress_ns = now_ns;
	retry->resent_ns = now_ns;
	retry->backoff = 0;
	retry->has_gone_back = false;
	retry->retries_left = rqp->qp->attr.retry_cnt;
	retry->rnr_left = rqp->qp->attr.rnr_retry;
	if (retry->is_timing && psn_is_before(retry->timed_psn, rqp->tx.una_psn)) {
		retry->is_timing = false;
		measure(retry, now_ns - retry->timed_ns);
	}
	if (retry->is_recovering && !psn_is_before(rqp->tx.una_psn, retry->recover_psn))
		retry->is_recovering = false;
	if (!retry->is_recovering)
		grow(retry, acked_psns);
}

void retry_congested(struct roce_qp *rqp)
{
	struct roce_retry *retry = &rqp->tx.retry;

	if (retry->is_recovering)
		return;
	retry->is_recovering = rqp->tx.una_psn != rqp->tx.max_psn;
	retry->recover_psn = rqp->tx.max_psn;
	retry->window = retry->window * WINDOW_KEPT_TENTHS / 10;
	if (retry->window < WINDOW_MIN_PSNS)
		retry->window = WINDOW_MIN_PSNS;
	retry->threshold = retry->window;
	retry->acked = 0;
}

static void go_back(struct roce_qp *rqp)
{
	struct roce_retry *retry = &rqp->tx.retry;

	retry->is_timing = false;
	retry->has_gone_back = true;
	retry->gone_back_psn = rqp->tx.una_psn;
	retry->resent_ns = rqp->roce->now_ns;
	roce_requester_go_back(rqp);
}

/* The peer says, or lets it be seen, that una_psn did not arrive. Once for each: told twice it is no more lost. */
void retry_lost(struct roce_qp *rqp)
{
	const struct roce_retry *retry = &rqp->tx.retry;

	if (rqp->tx.is_waiting_rnr ||
	    (retry->has_gone_back && retry->gone_back_psn == rqp->tx.una_psn))
		return;
	retry_congested(rqp);
	go_back(rqp);
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
	go_back(rqp);
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
	retry_congested(rqp);
	retry->window = WINDOW_MIN_PSNS;
	go_back(rqp);
	return true;
}

void retry_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce_qp *rqp = container_of(timer, struct roce_qp, tx.timer);

	rqp->roce->now_ns = now_ns;
	if (rqp->tx.is_waiting_rnr) {
		rnr_is_over(rqp);
	} else if (rqp->tx.una_psn == rqp->tx.max_psn) {
		return;
	} else if (now_ns < deadline_ns(rqp)) {
		arm(rqp);
		return;
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
