/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "base/thread_id.h"

static const struct trace_sink *_Atomic sinks[TRACE_SINKS_MAX];
/* Whether the sink of the same index needs the events of packets. */
static atomic_bool wants_packets[TRACE_SINKS_MAX];

/* Switches the packets on or off, as the sinks need them. */
static void update_packets(void)
{
	bool is_wanted = false;

	for (int i = 0; i < TRACE_SINKS_MAX; i++)
		is_wanted |= atomic_load(&sinks[i]) && atomic_load(&wants_packets[i]);
	if (is_wanted)
		atomic_fetch_or(&probe_mask, PROBE_PACKETS);
	else
		atomic_fetch_and(&probe_mask, ~PROBE_PACKETS);
}

int trace_sink_add(const struct trace_sink *sink)
{
	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		const struct trace_sink *none = NULL;

		if (atomic_compare_exchange_strong(&sinks[i], &none, sink)) {
			atomic_store(&wants_packets[i], true);
			atomic_fetch_or(&probe_mask, PROBE_TRACE | PROBE_PACKETS);
			return 0;
		}
	}
	return -ENOSPC;
}

void trace_sink_remove(const struct trace_sink *sink)
{
	bool is_any_left = false;

	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		const struct trace_sink *own = sink;

		if (!atomic_compare_exchange_strong(&sinks[i], &own, NULL) && own)
			is_any_left = true;
	}
	if (!is_any_left)
		atomic_fetch_and(&probe_mask, ~PROBE_TRACE);
	update_packets();
}

void trace_sink_want_packets(const struct trace_sink *sink, bool is_wanted)
{
	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		if (atomic_load(&sinks[i]) == sink)
			atomic_store(&wants_packets[i], is_wanted);
	}
	update_packets();
}

void trace_emit(const struct trace_point *point, struct trace_event *event)
{
	int saved_errno = errno;

	event->version = TRACE_VERSION;
	event->type = point->type;
	event->bytes = TRACE_EVENT_BYTES;
	event->tid = (uint32_t)thread_id();
	for (int i = 0; i < TRACE_SINKS_MAX; i++) {
		const struct trace_sink *sink = atomic_load_explicit(&sinks[i],
								     memory_order_acquire);

		if (!sink)
			continue;
		if (!event->time_ns && !sink->sets_time)
			event->time_ns = clock_now_ns();
		sink->put(point, event);
	}
	errno = saved_errno;
}

/* The description of a CM MAD with all its fields has up to 2 KiB. */
#define LINE_BYTES 3072

size_t trace_text_line(char *out, size_t out_bytes, const struct trace_point *point,
		       const struct trace_event *event)
{
	int len = snprintf(out, out_bytes,
			   "usrdma: %" PRIu32 " trace: %" PRIu64 ".%09" PRIu64 " %s: ", event->tid,
			   event->time_ns / (uint64_t)CLOCK_NS_PER_S,
			   event->time_ns % (uint64_t)CLOCK_NS_PER_S, point->name);

	if (len < 0 || (size_t)len >= out_bytes)
		return out_bytes ? strlen(out) : 0;
	point->print(out + len, out_bytes - (size_t)len, event);
	return strlen(out);
}

static void text_put(const struct trace_point *point, const struct trace_event *event)
{
	char line[LINE_BYTES];
	size_t len = trace_text_line(line, sizeof(line), point, event);
	ssize_t written;

	line[len++] = '\n';
	written = sys_write(STDERR_FILENO, line, len);
	/* A failure of write() cannot be reported. */
	(void)written;
}

static const struct trace_sink text_sink = {.put = text_put};

void trace_text_open(void)
{
	/* Cannot fail: this is the first sink of the process. */
	(void)!trace_sink_add(&text_sink);
}
