/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/failure_warn.h"

#include <string.h>

#include "base/clock.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/report/failure.h"

/* One RNR NAK with timer code 0 causes a wait of 655 ms, which is reported. */
#define RNR_WARNING_NS (CLOCK_NS_PER_S / 2)

void failure_warn_rnr(struct qp *qp, uint32_t naks, uint64_t waited_ns, unsigned int timer_code)
{
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (waited_ns < RNR_WARNING_NS || !failure_is_first(qp, IPC_REASON_RNR_WAIT))
		return;
	engine = failure_begin(qp, IPC_FAILURE_WARNING, &failure);
	if (!engine)
		return;
	failure.reason = IPC_REASON_RNR_WAIT;
	failure.numbers[0] = naks;
	failure.numbers[1] = waited_ns;
	failure.min_rnr_timer = (uint8_t)timer_code;
	failure_send(engine, &failure);
}

void failure_warn_cq(const struct cq *cq)
{
	struct ipc_failure failure = {
		.reason = IPC_REASON_CQ_SMALL,
		.numbers = {cq->head - cq->tail, cq->capacity, cq->demand, cq->users},
	};
	struct engine *engine = failure_begin_context(cq->context, IPC_FAILURE_WARNING, &failure);

	engine_assert_locked(cq->context->engine);
	if (engine)
		failure_send(engine, &failure);
}

void failure_warn_mtu(struct qp *qp, uint32_t path_mtu, uint32_t peers_path_mtu)
{
	struct ipc_failure failure;
	struct engine *engine;

	qp_assert_locked(qp);
	if (!failure_is_first(qp, IPC_REASON_PATH_MTU))
		return;
	engine = failure_begin(qp, IPC_FAILURE_WARNING, &failure);
	if (!engine)
		return;
	failure.reason = IPC_REASON_PATH_MTU;
	failure.numbers[0] = path_mtu;
	failure.numbers[1] = peers_path_mtu;
	failure_send(engine, &failure);
}

void failure_warn_unacked(const struct context *context, const char *call, uint32_t events)
{
	struct ipc_failure failure = {.reason = IPC_REASON_UNACKED_ASYNC, .numbers = {events}};
	struct engine *engine;
	size_t bytes;

	engine_lock(context->engine);
	engine = failure_begin_context(context, IPC_FAILURE_WARNING, &failure);
	if (engine) {
		/* Without the parentheses and what follows them. */
		bytes = strcspn(call, "(");
		memcpy(failure.call, call,
		       bytes < sizeof(failure.call) ? bytes : sizeof(failure.call) - 1);
		failure_send(engine, &failure);
	}
	engine_unlock(context->engine);
}
