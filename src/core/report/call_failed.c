/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/call_failed.h"

#include <errno.h>

#include "base/clock.h"
#include "base/trace_points.h"
#include "base/util.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/report/failure.h"

/* Whether this error was not reported lately. engine.lock held. */
static bool is_due(struct engine *engine, const char *call, int ret)
{
	struct failure_reports *reports = &engine->failures;
	uint64_t now_ns = clock_now_ns();

	engine_assert_locked(engine);
	for (size_t i = 0; i < COUNT(reports->calls); i++) {
		const struct failure_reported_call *reported = &reports->calls[i];

		if (reported->call == call && reported->ret == ret &&
		    now_ns - reported->time_ns < CALL_FAILED_INTERVAL_NS)
			return false;
	}
	reports->calls[reports->next_call++ % COUNT(reports->calls)] =
		(struct failure_reported_call){.call = call, .ret = ret, .time_ns = now_ns};
	return true;
}

/* `failure` has the reason; the other fields are filled in. */
static void call_failed_report(const struct context *context, const char *call, int ret,
			       struct ipc_failure *failure)
{
	int saved_errno = errno;
	struct engine *engine;

	trace_call_failed(call, -ret, 0);
	engine_lock(context->engine);
	engine = failure_begin_context(context, IPC_FAILURE_CALL, failure);
	if (engine && is_due(engine, call, ret)) {
		/* Applications ask in this way whether an operation is supported. */
		if (ret == -EOPNOTSUPP)
			failure->flags |= IPC_FAILURE_NOTE;
		failure_call(engine, failure, call, ret);
	}
	engine_unlock(context->engine);
	errno = saved_errno;
}

void call_failed_because(const struct context *context, const char *call, int ret,
			 enum ipc_failure_reason reason, uint64_t first, uint64_t second)
{
	struct ipc_failure failure = {.numbers = {first, second}, .reason = reason};

	call_failed_report(context, call, ret, &failure);
}

void call_failed_unreachable(const struct context *context, const char *call, int ret,
			     const struct ipc_gid *source, const union ibv_gid *dgid)
{
	struct ipc_failure failure = {.kind = 0};

	failure_unreachable(&failure, source, dgid);
	call_failed_report(context, call, ret, &failure);
}

void call_failed(const struct context *context, const char *call, int ret)
{
	call_failed_because(context, call, ret, IPC_REASON_NONE, 0, 0);
}

int call_failed_busy(const struct context *context, const char *call, uint64_t users)
{
	call_failed_because(context, call, -EBUSY, IPC_REASON_BUSY, users, 0);
	errno = EBUSY;
	return EBUSY;
}
