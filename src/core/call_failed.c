/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/call_failed.h"

#include <errno.h>

#include "base/clock.h"
#include "base/trace_points.h"
#include "base/util.h"
#include "core/engine.h"
#include "core/failure.h"

/* Whether this error was not reported lately. engine.lock held. */
static bool is_due(struct failure_reports *reports, const char *call, int ret)
{
	uint64_t now_ns = clock_now_ns();

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

static void report_call(const struct context *context, const char *call, int ret,
			enum ipc_failure_reason reason, const uint64_t numbers[2])
{
	struct ipc_failure failure = {.numbers = {numbers[0], numbers[1]}, .reason = reason};
	struct engine *engine;

	engine = failure_begin_context(context, IPC_FAILURE_CALL, &failure);
	if (!engine || !is_due(&engine->failures, call, ret))
		return;
	/* Applications ask in this way whether an operation is supported. */
	if (ret == -EOPNOTSUPP)
		failure.flags |= IPC_FAILURE_NOTE;
	failure_call(engine, &failure, call, ret);
}

void call_failed_because(const struct context *context, const char *call, int ret,
			 enum ipc_failure_reason reason, uint64_t first, uint64_t second)
{
	const uint64_t numbers[2] = {first, second};
	int saved_errno = errno;

	trace_call_failed(call, -ret, 0);
	engine_lock(context->engine);
	report_call(context, call, ret, reason, numbers);
	engine_unlock(context->engine);
	errno = saved_errno;
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
