/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of an id's phases, and docs/id-phases.md, which is generated from it.
 *
 *	test-rdmacm-phase --write	writes docs/id-phases.md
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rdmacm/phase.h"
#include "page.h"

#define PAGE "id-phases.md"

static struct rcm_cell cell_of(unsigned phase, unsigned input)
{
	return rcm_cell((enum rcm_phase)phase, (enum rcm_input)input);
}

static bool is_quiet(struct rcm_cell cell)
{
	return cell.action == RCM_ACTION_ILLEGAL || cell.action == RCM_ACTION_NEVER;
}

static void doc_add_diagram(void)
{
	page_add("```mermaid\nstateDiagram-v2\n    [*] --> idle\n");
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++) {
		for (unsigned input = 0; input < RCM_IN_COUNT; input++) {
			struct rcm_cell cell = cell_of(phase, input);

			if (cell.next == phase)
				continue;
			page_add("    %s --> %s: %s / %s\n", rcm_phase_name((enum rcm_phase)phase),
				 rcm_phase_name((enum rcm_phase)cell.next),
				 rcm_input_name((enum rcm_input)input),
				 rcm_action_name((enum rcm_action)cell.action));
		}
	}
	page_add("```\n");
}

static void doc_add_table(unsigned phase)
{
	page_add("\n### %s\n\n| input | action | next |\n|---|---|---|\n",
		 rcm_phase_name((enum rcm_phase)phase));
	for (unsigned input = 0; input < RCM_IN_COUNT; input++) {
		struct rcm_cell cell = cell_of(phase, input);

		page_add("| %s | %s | %s |\n", rcm_input_name((enum rcm_input)input),
			 rcm_action_name((enum rcm_action)cell.action),
			 cell.next == phase ? "" : rcm_phase_name((enum rcm_phase)cell.next));
	}
}

static void doc_render(void)
{
	page_begin();
	page_add(
		"<!-- Generated from src/rdmacm/phase.c by test-rdmacm-phase --write; do not edit. -->\n"
		"# Phases of an rdma_cm id in librdmacm\n\n"
		"The phase of an id follows the calls of the application and the events that it has "
		"received. The daemon has the state of the\n"
		"id and checks the other calls\n"
		"([ADR 0080](adr/0080-the-phase-of-an-id-follows-the-applications-calls-and-events.md)).\n"
		"Names in lower case are calls and results of\n"
		"requests to the daemon, names in capitals are events that the application is about to receive. "
		"An arrow is labelled\n"
		"input / action. *illegal* returns EINVAL. *never* does not occur: the daemon refuses the request or "
		"does not send the event in this\n"
		"phase.\n\n");
	doc_add_diagram();
	page_add("\n## All cells\n");
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++)
		doc_add_table(phase);
}

static void rcm_cell_table_matches_document(void **test)
{
	(void)test;
	doc_render();
	page_assert_written(PAGE);
}

static void rcm_cell_every_phase_and_input_is_defined(void **test)
{
	(void)test;
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++) {
		for (unsigned input = 0; input < RCM_IN_COUNT; input++) {
			struct rcm_cell cell = cell_of(phase, input);

			assert_int_not_equal(cell.action, RCM_ACTION_MISSING);
			assert_true(cell.action < RCM_ACTION_COUNT);
			assert_true(cell.next < RCM_PHASE_COUNT);
			if (is_quiet(cell))
				assert_int_equal(cell.next, phase);
		}
	}
}

/* An event is reported or dropped, and a call is never without a result. */
static void rcm_cell_action_fits_kind_of_input(void **test)
{
	(void)test;
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++) {
		for (unsigned input = 0; input < RCM_IN_LISTENS; input++)
			assert_int_not_equal(cell_of(phase, input).action, RCM_ACTION_NEVER);
		for (unsigned input = RCM_IN_LISTENS; input < RCM_IN_EVENT_CONNECT_REQUEST; input++)
			assert_true(cell_of(phase, input).action == RCM_ACTION_NOTHING ||
				    cell_of(phase, input).action == RCM_ACTION_NEVER);
		for (unsigned input = RCM_IN_EVENT_CONNECT_ERROR; input < RCM_IN_COUNT; input++)
			assert_true(cell_of(phase, input).action == RCM_ACTION_REPORT ||
				    cell_of(phase, input).action == RCM_ACTION_CONCEAL);
	}
}

static void rcm_cell_every_phase_is_reached(void **test)
{
	bool is_reached[RCM_PHASE_COUNT] = {[RCM_PHASE_IDLE] = true};

	(void)test;
	for (int round = 0; round < RCM_PHASE_COUNT; round++)
		for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++)
			for (unsigned input = 0; input < RCM_IN_COUNT && is_reached[phase]; input++)
				is_reached[cell_of(phase, input).next] = true;
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++)
		assert_true(is_reached[phase]);
}

/*
 * A synchronous rdma_disconnect() waits only while an event can end the wait: each last event ends
 * such a phase.
 */
static void rcm_cell_last_event_ends_wait_for_end(void **test)
{
	static const enum rcm_input last[] = {
		RCM_IN_EVENT_REJECTED,
		RCM_IN_EVENT_UNREACHABLE,
		RCM_IN_EVENT_TIMEWAIT_EXIT,
		RCM_IN_EVENT_DEVICE_REMOVAL,
	};

	(void)test;
	for (unsigned phase = 0; phase < RCM_PHASE_COUNT; phase++) {
		if (cell_of(phase, RCM_IN_DISCONNECT).action != RCM_ACTION_AWAIT_END)
			continue;
		for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
			struct rcm_cell cell = cell_of(phase, last[i]);

			assert_int_equal(cell.action, RCM_ACTION_REPORT);
			assert_int_equal(cell_of(cell.next, RCM_IN_DISCONNECT).action,
					 RCM_ACTION_NOTHING);
		}
	}
}

/* Another thread may receive the last event before a call has processed the daemon's reply. */
static void rcm_cell_result_after_last_event_counts(void **test)
{
	(void)test;
	assert_int_equal(cell_of(RCM_PHASE_OVER, RCM_IN_LISTENS).next, RCM_PHASE_LISTENING);
	assert_int_equal(cell_of(RCM_PHASE_OVER, RCM_IN_ACCEPT_FAILED).next, RCM_PHASE_REQUESTED);
	assert_int_equal(cell_of(RCM_PHASE_OVER, RCM_IN_NOT_COMPLETED).next, RCM_PHASE_FAILED);
	assert_int_equal(cell_of(RCM_PHASE_OVER, RCM_IN_ESTABLISHED).next, RCM_PHASE_OVER);
}

static void rcm_phase_name_every_value_has_a_name(void **test)
{
	(void)test;
	assert_string_equal(rcm_phase_name(RCM_PHASE_REQUESTED), "requested");
	assert_string_equal(rcm_phase_name(RCM_PHASE_COUNT), "?");
	assert_string_equal(rcm_input_name(RCM_IN_COUNT), "?");
	assert_string_equal(rcm_action_name(RCM_ACTION_COUNT), "?");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rcm_cell_table_matches_document),
		cmocka_unit_test(rcm_cell_every_phase_and_input_is_defined),
		cmocka_unit_test(rcm_cell_action_fits_kind_of_input),
		cmocka_unit_test(rcm_cell_every_phase_is_reached),
		cmocka_unit_test(rcm_cell_last_event_ends_wait_for_end),
		cmocka_unit_test(rcm_cell_result_after_last_event_counts),
		cmocka_unit_test(rcm_phase_name_every_value_has_a_name),
	};

	if (argc > 1 && !strcmp(argv[1], "--write")) {
		doc_render();
		return page_write(PAGE);
	}
	return cmocka_run_group_tests_name("rdmacm-phase", tests, NULL, NULL);
}
