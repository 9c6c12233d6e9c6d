/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"
#include "core/engine/lock_check.h"
#include "core/queue/requester.h"
#include "core/report/failure_warn.h"
#include "core/report/usage.h"
#include "local/counters.h"
#include "local/qp.h"
#include "local/requester.h"
#include "wire/aeth.h"

/* Waits of a requester before it sends again: the RNR timer and the ACK timeout. */

void local_requester_wait_for(struct local_qp *lqp, enum local_wait wait, uint64_t timeout_ns)
{
	struct engine *engine = lqp->qp->context->engine;

	qp_assert_locked(lqp->qp);
	lqp->tx.wait = wait;
	list_del(&lqp->blocked_node);
	if (!timeout_ns)
		return;
	engine_lock_base(engine);
	timer_add(&engine->timers, &lqp->tx.timer, clock_now_ns() + timeout_ns);
	engine_timer_added(engine);
	engine_unlock_base(engine);
}

void local_requester_retry_not_ready(struct local_qp *lqp)
{
	qp_assert_locked(lqp->qp);
	if (!local_requester_is_reliable(lqp))
		return;
	/*
	 * The WQE fails when the ACK timeout has passed retry_cnt + 1 times (IBA 1.x §9.9.2.1.1).
	 */
	if (!lqp->tx.retries_left && lqp->tx.has_waited_last) {
		requester_fail(lqp->qp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_RESPONSE);
		return;
	}
	if (lqp->tx.retries_left) {
		lqp->tx.retries_left--;
		local_qp_count(lqp, LOCAL_RETRIES);
		lqp->qp->usage->retries++;
	} else {
		lqp->tx.has_waited_last = true;
	}
	local_requester_wait_for(lqp, WAIT_NOT_READY, requester_ack_timeout_ns(lqp->qp));
}

void local_requester_retry_rnr(struct local_qp *lqp, uint32_t timer_code)
{
	uint64_t now_ns = clock_now_ns();

	qp_assert_locked(lqp->qp);
	lqp->tx.rnr_code = (uint8_t)timer_code;
	lqp->qp->usage->rnr_naks++;
	/*
	 * CELL_READY has ended the wait early, and another QP of the SRQ took the receive. A retry
	 * is counted at the end of the RNR timer only (IBA 1.x §9.7.5.2.8).
	 */
	if (now_ns < lqp->tx.rnr_until_ns) {
		local_requester_wait_for(lqp, WAIT_RNR, lqp->tx.rnr_until_ns - now_ns);
		return;
	}
	/* 7: unlimited retries (IBA 1.x §9.7.5.2.8). */
	if (lqp->qp->attr.rnr_retry != 7) {
		if (!lqp->tx.rnr_left) {
			requester_fail(lqp->qp, IBV_WC_RNR_RETRY_EXC_ERR, VENDOR_ERR_RNR);
			return;
		}
		lqp->tx.rnr_left--;
	}
	lqp->tx.rnr_naks++;
	lqp->tx.rnr_waited_ns += aeth_rnr_wait_ns(timer_code);
	lqp->tx.rnr_until_ns = now_ns + aeth_rnr_wait_ns(timer_code);
	failure_warn_rnr(lqp->qp, lqp->tx.rnr_naks, lqp->tx.rnr_waited_ns, timer_code);
	local_requester_wait_for(lqp, WAIT_RNR, aeth_rnr_wait_ns(timer_code));
}
