/* SPDX-License-Identifier: BSD-2-Clause */
/* The trace points of the communication manager's state machines. */
#include "cm/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/trace.h"
#include "ends.h"

#define LINES_MAX  64
#define LINE_BYTES 1024

static char lines[LINES_MAX][LINE_BYTES];
static unsigned int line_count;

static void keep_line(const struct trace_point *point, const struct trace_event *event)
{
	if (line_count < LINES_MAX)
		trace_text_line(lines[line_count++], LINE_BYTES, point, event);
}

static bool has_line(const char *words)
{
	for (unsigned int i = 0; i < line_count; i++) {
		if (strstr(lines[i], words))
			return true;
	}
	return false;
}

static int open_ends(void **state)
{
	line_count = 0;
	return ends_open(state);
}

static void cm_probe_trace_has_connection_states(void **state)
{
	(void)state;
	establish_both();
	assert_true(has_line(" cm state: comm id 0x"));
	assert_true(has_line(" qpn 0x10 remote qpn 0x0 from idle to req_sent on connect"));
	assert_true(has_line(" from rep_sent to established on RTU"));
}

static void cm_probe_trace_has_sidr_states(void **state)
{
	(void)state;
	(void)net_resolve(here, &active);
	assert_true(has_line(" sidr state: request id 0x"));
	assert_true(has_line(" from idle to sidr_req_sent on resolve"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ends, ends_close)

int main(void)
{
	static const struct trace_sink sink = {.put = keep_line};
	const struct CMUnitTest tests[] = {
		TEST(cm_probe_trace_has_connection_states),
		TEST(cm_probe_trace_has_sidr_states),
	};

	if (trace_sink_add(&sink))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
