/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"

#include <errno.h>

#include "base/clock.h"
#include "base/thread_id.h"

static const struct trace_sink *_Atomic sinks[TRACE_SINKS_MAX];

int trace_sink_add(const struct trace_sink *sink)
{
	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		const struct trace_sink *none = NULL;

		if (atomic_compare_exchange_strong(&sinks[i], &none, sink)) {
			atomic_fetch_or(&probe_mask, PROBE_TRACE);
			return 0;
		}
	}
	return -ENOSPC;
}

void trace_emit(const struct trace_point *point, struct trace_event *event)
{
	int saved_errno = errno;

	event->version = TRACE_VERSION;
	event->type = point->type;
	event->bytes = TRACE_EVENT_BYTES;
	event->tid = (uint32_t)thread_id();
	if (!event->time_ns)
		event->time_ns = clock_now_ns();
	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		const struct trace_sink *sink = atomic_load(&sinks[i]);

		if (sink)
			sink->put(point, event);
	}
	errno = saved_errno;
}
