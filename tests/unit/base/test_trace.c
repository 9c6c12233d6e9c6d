/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

static struct trace_event last;
static unsigned int count;

static void keep(const struct trace_point *point, const struct trace_event *event)
{
	(void)point;
	last = *event;
	count++;
	errno = EBADF;
}

static void print_window(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "qpn 0x%x window %u", event->qpn, event->window.psns);
}

static const struct trace_point point = {TRACE_WINDOW, "window", print_window};
static const struct trace_sink sink = {.put = keep};

static void trace_sink_add_first_sink_switches_tracing_on(void **state)
{
	(void)state;
	assert_false(trace_is_on());
	assert_int_equal(trace_sink_add(&sink), 0);
	assert_true(trace_is_on());
}

static void trace_emit_fills_head_and_keeps_errno(void **state)
{
	struct trace_event event = {.qpn = 5, .window = {.psns = 30}};
	uint64_t before_ns = clock_now_ns();

	(void)state;
	errno = ENOENT;
	trace_emit(&point, &event);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(count, 1);
	assert_int_equal(last.version, TRACE_VERSION);
	assert_int_equal(last.type, TRACE_WINDOW);
	assert_int_equal(last.bytes, TRACE_EVENT_BYTES);
	assert_int_equal(last.tid, gettid());
	assert_int_equal(last.qpn, 5);
	assert_in_range(last.time_ns, before_ns, clock_now_ns());
}

static void trace_emit_keeps_time_of_caller(void **state)
{
	struct trace_event event = {.time_ns = 17};

	(void)state;
	trace_emit(&point, &event);
	assert_int_equal(last.time_ns, 17);
}

static void trace_text_line_has_thread_time_name_and_text(void **state)
{
	struct trace_event event = {
		.tid = 42,
		.time_ns = UINT64_C(3000000017),
		.qpn = 0x11,
		.window = {.psns = 30},
	};
	char line[128];
	size_t len = trace_text_line(line, sizeof(line), &point, &event);

	(void)state;
	assert_string_equal(line, "usrdma: 42 trace: 3.000000017 window: qpn 0x11 window 30");
	assert_int_equal(len, strlen(line));
}

static void trace_text_line_short_buffer_cuts_line(void **state)
{
	struct trace_event event = {.tid = 42};
	char line[48];

	(void)state;
	for (size_t bytes = 1; bytes <= sizeof(line); bytes++) {
		memset(line, 'x', sizeof(line));
		assert_in_range(trace_text_line(line, bytes, &point, &event), 0, bytes - 1);
		assert_int_equal(line[strlen(line)], '\0');
		assert_in_range(strlen(line), 0, bytes - 1);
	}
}

static void trace_sink_want_packets_depends_on_all_sinks(void **state)
{
	static const struct trace_sink other = {.put = keep};

	(void)state;
	assert_true(trace_packets_are_on());
	assert_int_equal(trace_sink_add(&other), 0);
	trace_sink_want_packets(&sink, false);
	assert_true(trace_packets_are_on());
	trace_sink_want_packets(&other, false);
	assert_false(trace_packets_are_on());
	assert_true(trace_is_on());
	trace_sink_want_packets(&other, true);
	assert_true(trace_packets_are_on());
	trace_sink_remove(&other);
	assert_false(trace_packets_are_on());
	assert_true(trace_is_on());
}

static void trace_sink_add_too_many_sinks_fails(void **state)
{
	(void)state;
	for (int i = 1; i < TRACE_SINKS_MAX; i++)
		assert_int_equal(trace_sink_add(&sink), 0);
	assert_int_equal(trace_sink_add(&sink), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_sink_add_first_sink_switches_tracing_on),
		cmocka_unit_test(trace_emit_fills_head_and_keeps_errno),
		cmocka_unit_test(trace_emit_keeps_time_of_caller),
		cmocka_unit_test(trace_text_line_has_thread_time_name_and_text),
		cmocka_unit_test(trace_text_line_short_buffer_cuts_line),
		cmocka_unit_test(trace_sink_want_packets_depends_on_all_sinks),
		cmocka_unit_test(trace_sink_add_too_many_sinks_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
