/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/qp_error.h"

#include "base/clock.h"
#include "core/device/async.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/engine/transport.h"
#include "core/qp/qp.h"
#include "core/queue/failure_wr.h"
#include "core/queue/wq.h"
#include "core/report/probe.h"

static void enter_error(struct qp *qp, enum ibv_event_type event)
{
	qp_set_state(qp, IBV_QPS_ERR);
	if (qp->transport && qp->transport->halt)
		qp->transport->halt(qp);
	datagram_forget(qp);
	qp_unstarve(qp);
	qp_publish(qp);
	failure_qp(qp, event);
	sq_flush(qp);
	rq_flush(qp);
	if (event != QP_NO_EVENT)
		async_qp_event(qp, event);
	/* IBA 1.x §11.6.3.1: the QP dequeues no further WQE from its SRQ. */
	if (qp->srq)
		async_qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void qp_enter_error(struct qp *qp, enum ibv_event_type event)
{
	struct engine *engine = qp->context->engine;

	qp_assert_locked(qp);
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	engine_lock_base(engine);
	enter_error(qp, event);
	engine_unlock_base(engine);
}

static void completion_was_lost(struct timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	qp_enter_error(container_of(timer, struct qp, lost_timer),
		       (enum ibv_event_type)container_of(timer, struct qp, lost_timer)->lost_event);
}

void qp_error_later(struct qp *qp, enum ibv_event_type event)
{
	engine_assert_locked(qp->context->engine);
	/* A QP in ERR needs no further transition. */
	if (qp->state == IBV_QPS_ERR || qp->lost_timer.is_pending)
		return;
	qp->lost_event = (int)event;
	timer_add(&qp->context->engine->timers, &qp->lost_timer, clock_now_ns());
	engine_timer_added(qp->context->engine);
}

void qp_lost_completion(struct engine *engine, uint32_t qpn)
{
	struct qp *qp = qp_find(engine, qpn);

	engine_assert_locked(engine);
	if (!qp || qp->state == IBV_QPS_ERR)
		return;
	qp->has_lost_completion = true;
	qp_error_later(qp, IBV_EVENT_QP_FATAL);
}

void qp_enter_send_error(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->type != IBV_QPT_UC && qp->type != IBV_QPT_UD) {
		qp_enter_error(qp, QP_NO_EVENT);
		return;
	}
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	engine_lock_base(qp->context->engine);
	qp_set_state(qp, IBV_QPS_SQE);
	datagram_forget(qp);
	qp_publish(qp);
	failure_qp(qp, QP_NO_EVENT);
	sq_flush(qp);
	engine_unlock_base(qp->context->engine);
}

void qp_check_drained(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->state != IBV_QPS_SQD || qp->sq.una != qp->sq.begun || !qp->attr.en_sqd_async_notify)
		return;
	qp->attr.en_sqd_async_notify = 0;
	engine_lock_base(qp->context->engine);
	async_qp_event(qp, IBV_EVENT_SQ_DRAINED);
	engine_unlock_base(qp->context->engine);
}

void qp_comm_established(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->state != IBV_QPS_RTR || qp->has_comm_est)
		return;
	qp->has_comm_est = true;
	engine_lock_base(qp->context->engine);
	async_qp_event(qp, IBV_EVENT_COMM_EST);
	engine_unlock_base(qp->context->engine);
}

void qp_error_init(struct qp *qp)
{
	timer_init(&qp->lost_timer, completion_was_lost);
}
