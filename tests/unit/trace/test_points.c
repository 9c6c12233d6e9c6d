/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of event types: every type has a name and a printer that the command can call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tools/usrdma/trace/points.h"

static void trace_point_of_each_type_has_its_number(void **state)
{
	(void)state;
	for (uint8_t type = TRACE_NONE + 1; type < TRACE_TYPE_COUNT; type++) {
		const struct trace_point *point = trace_point_of(type);

		assert_int_equal(point->type, type);
		assert_non_null(point->name);
	}
}

static void trace_point_of_unknown_type_prints_the_number(void **state)
{
	const struct trace_event event = {.type = 250};
	char text[64];

	(void)state;
	trace_point_of(event.type)->print(text, sizeof(text), &event);
	assert_string_equal(text, "type 250 of a newer version");
}

static void trace_string_of_printers_replaces_unprintable_bytes(void **state)
{
	struct trace_event event = {.type = TRACE_CALL_FAILED, .qpn = 0x11};
	char text[512];

	(void)state;
	strcpy(event.call_failed.name, "ibv_modify_qp");
	event.call_failed.error = 22;
	trace_point_of(event.type)->print(text, sizeof(text), &event);
	assert_string_equal(text, "qpn 0x11 ibv_modify_qp: Invalid argument (errno 22)");

	event = (struct trace_event){.type = TRACE_DROP, .qpn = 0x11, .psn = 7};
	strcpy(event.drop.cause, "wrong\nq_key");
	trace_point_of(event.type)->print(text, sizeof(text), &event);
	assert_string_equal(text, "qpn 0x11 psn 7 from :: qpn 0x0 bytes 0: wrong?q_key");

	event = (struct trace_event){.type = TRACE_PORT,
				     .port = {.change = TRACE_PORT_UP, .port = 1}};
	memset(event.port.device, 'd', sizeof(event.port.device));
	trace_point_of(event.type)->print(text, sizeof(text), &event);
	assert_string_equal(text, "dddddddddddddddddddddddddddddddd port 1 up gid ::");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_point_of_each_type_has_its_number),
		cmocka_unit_test(trace_point_of_unknown_type_prints_the_number),
		cmocka_unit_test(trace_string_of_printers_replaces_unprintable_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
