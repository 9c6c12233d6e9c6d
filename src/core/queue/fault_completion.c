/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/fault_completion.h"

#include <stdlib.h>

#include "base/clock.h"
#include "core/device/async.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/object/vendor_err.h"
#include "core/queue/cq.h"
#include "core/queue/qp_error.h"
#include "core/report/fault_points.h"

/*
 * A delayed completion, in cq.delayed in the order of arrival. The completions of a QP stay in
 * order: those that follow a delayed one are delayed until the same time at least.
 */
struct delayed_completion {
	struct list_head node;
	struct ibv_wc wc;
	bool is_solicited;
	uint64_t due_ns;
};

static void start_delay_timer(struct cq *cq)
{
	struct engine *engine = cq->context->engine;
	const struct delayed_completion *delayed;
	uint64_t due_ns = UINT64_MAX;

	list_for_each_entry(delayed, &cq->delayed, node) {
		if (delayed->due_ns < due_ns)
			due_ns = delayed->due_ns;
	}
	if (cq->delay_timer.is_pending)
		timer_cancel(&engine->timers, &cq->delay_timer);
	if (due_ns == UINT64_MAX)
		return;
	timer_add(&engine->timers, &cq->delay_timer, due_ns);
	engine_timer_added(engine);
}

static void deliver_due(struct timer *timer, uint64_t now_ns)
{
	struct cq *cq = container_of(timer, struct cq, delay_timer);
	struct delayed_completion *delayed, *tmp;

	list_for_each_entry_safe(delayed, tmp, &cq->delayed, node) {
		if (delayed->due_ns > now_ns)
			continue;
		list_del(&delayed->node);
		cq_deliver(cq, &delayed->wc, delayed->is_solicited);
		free(delayed);
	}
	start_delay_timer(cq);
}

void fault_completion_init(struct cq *cq)
{
	list_init(&cq->delayed);
	timer_init(&cq->delay_timer, deliver_due);
}

void fault_completion_purge(struct cq *cq, uint32_t qpn)
{
	struct delayed_completion *delayed, *tmp;

	engine_assert_locked(cq->context->engine);
	list_for_each_entry_safe(delayed, tmp, &cq->delayed, node) {
		if (delayed->wc.qp_num != qpn)
			continue;
		list_del(&delayed->node);
		free(delayed);
	}
	start_delay_timer(cq);
}

void fault_completion_fini(struct cq *cq)
{
	engine_assert_locked(cq->context->engine);
	while (!list_is_empty(&cq->delayed)) {
		struct delayed_completion *delayed =
			list_first_entry(&cq->delayed, struct delayed_completion, node);

		list_del(&delayed->node);
		free(delayed);
	}
	if (cq->delay_timer.is_pending)
		timer_cancel(&cq->context->engine->timers, &cq->delay_timer);
}

/* The time of the last delayed completion of the QP in this CQ; 0: none. */
static uint64_t delayed_until_ns(const struct cq *cq, uint32_t qpn)
{
	const struct delayed_completion *delayed;
	uint64_t until_ns = 0;

	list_for_each_entry(delayed, &cq->delayed, node) {
		if (delayed->wc.qp_num == qpn && delayed->due_ns > until_ns)
			until_ns = delayed->due_ns;
	}
	return until_ns;
}

/* false: out of memory. */
static bool delay_completion(struct cq *cq, const struct ibv_wc *wc, bool is_solicited,
			     uint64_t due_ns)
{
	struct delayed_completion *delayed = malloc(sizeof(*delayed));

	if (!delayed)
		return false;
	*delayed = (struct delayed_completion){
		.wc = *wc, .is_solicited = is_solicited, .due_ns = due_ns};
	list_add_tail(&delayed->node, &cq->delayed);
	start_delay_timer(cq);
	return true;
}

static void overrun(struct cq *cq)
{
	if (!cq->has_overflowed)
		async_cq_event(cq, IBV_EVENT_CQ_ERR);
	biased_lock_acquire(&cq->lock);
	cq->has_overflowed = true;
	biased_lock_release(&cq->lock);
}

/* Without memory the connection remains. */
static void disconnect_later(struct engine *engine, const struct qp *qp)
{
	const struct ipc_fault_disconnect request = {
		.hdr.type = IPC_FAULT_DISCONNECT,
		.qpn = qp->qpn,
	};
	struct ipc_queued *memory = malloc(sizeof(*memory));

	if (memory)
		engine_send_in_order(engine, &request, sizeof(request), memory);
}

static void inject_event(struct cq *cq, struct qp *qp, const struct fault_subject *subject)
{
	struct fault fault;

	if (!fault_due(FAULT_QP_EVENT, subject, &fault))
		return;
	if (fault.action == FAULT_OVERRUN)
		overrun(cq);
	else if (fault.action == FAULT_ERROR && qp)
		qp_error_later(qp, IBV_EVENT_QP_FATAL);
	else if (fault.action == FAULT_DISCONNECT && qp)
		disconnect_later(cq->context->engine, qp);
	else if (fault.action == FAULT_SRQ_LIMIT && qp && qp->srq)
		async_srq_event(qp->srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

bool fault_completion(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	struct qp *qp = qp_find(cq->context->engine, wc->qp_num);
	struct fault_subject subject = {.qpn = wc->qp_num, .op = fault_op_of_wc(wc->opcode)};
	uint64_t due_ns = delayed_until_ns(cq, wc->qp_num);
	struct ibv_wc replaced = *wc;
	struct fault fault = {.action = FAULT_ACTION_COUNT};

	engine_assert_locked(cq->context->engine);
	if (qp)
		fault_subject_of_qp(&subject, qp);
	inject_event(cq, qp, &subject);
	if (!fault_due(FAULT_COMPLETION, &subject, &fault) && !due_ns)
		return false;
	if (fault.action == FAULT_DROP)
		return true;
	if (fault.action == FAULT_FAIL) {
		replaced.status = (enum ibv_wc_status)fault.code;
		replaced.vendor_err = fault.has_vendor_err ? fault.vendor_err : VENDOR_ERR_INJECTED;
		if (qp && replaced.status != IBV_WC_SUCCESS)
			qp_error_later(qp, QP_NO_EVENT);
	} else if (fault.action == FAULT_DELAY) {
		uint64_t own_ns = clock_now_ns() + fault.delay_ns;

		due_ns = own_ns > due_ns ? own_ns : due_ns;
	}
	if (!due_ns || !delay_completion(cq, &replaced, is_solicited, due_ns))
		cq_deliver(cq, &replaced, is_solicited);
	return true;
}
