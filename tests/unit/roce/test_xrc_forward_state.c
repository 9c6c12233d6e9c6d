/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state machines of XRC forwarding, and docs/xrc-forward-states.md, which is generated from
 * them.
 *
 *	test-roce-xrc_forward_state --write	writes docs/xrc-forward-states.md
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

#include "roce/xrc_forward_state.h"
#include "page.h"

#define PAGE "xrc-forward-states.md"

/* One of the two tables. */
struct machine {
	const char *title;
	unsigned int states;
	unsigned int inputs;
	unsigned int actions;
	unsigned int never;
	void (*cell)(unsigned int state, unsigned int input, unsigned int *action,
		     unsigned int *next);
	const char *(*state_name)(unsigned int state);
	const char *(*input_name)(unsigned int input);
	const char *(*action_name)(unsigned int action);
};

static void target_cell(unsigned int state, unsigned int input, unsigned int *action,
			unsigned int *next)
{
	struct xrc_target_cell cell = xrc_target_cell((enum xrc_target_state)state,
						      (enum xrc_target_input)input);

	*action = cell.action;
	*next = cell.next;
}

static const char *target_state(unsigned int state)
{
	return xrc_target_state_name((enum xrc_target_state)state);
}

static const char *target_input(unsigned int input)
{
	return xrc_target_input_name((enum xrc_target_input)input);
}

static const char *target_action(unsigned int action)
{
	return xrc_target_action_name((enum xrc_target_action)action);
}

static void executor_cell(unsigned int state, unsigned int input, unsigned int *action,
			  unsigned int *next)
{
	struct xrc_executor_cell cell = xrc_executor_cell((enum xrc_executor_state)state,
							  (enum xrc_executor_input)input);

	*action = cell.action;
	*next = cell.next;
}

static const char *executor_state(unsigned int state)
{
	return xrc_executor_state_name((enum xrc_executor_state)state);
}

static const char *executor_input(unsigned int input)
{
	return xrc_executor_input_name((enum xrc_executor_input)input);
}

static const char *executor_action(unsigned int action)
{
	return xrc_executor_action_name((enum xrc_executor_action)action);
}

static const struct machine machines[] = {
	{"XRC target QP", XRC_TARGET_STATE_COUNT, XRC_TARGET_IN_COUNT, XRC_TARGET_ACTION_COUNT,
	 XRC_TARGET_ACTION_NEVER, target_cell, target_state, target_input, target_action},
	{"Executor", XRC_EXECUTOR_STATE_COUNT, XRC_EXECUTOR_IN_COUNT, XRC_EXECUTOR_ACTION_COUNT,
	 XRC_EXECUTOR_ACTION_NEVER, executor_cell, executor_state, executor_input, executor_action},
};

#define MACHINES (sizeof(machines) / sizeof(machines[0]))

static void doc_add_diagram(const struct machine *machine)
{
	unsigned int action, next;

	page_add("```mermaid\nstateDiagram-v2\n    [*] --> %s\n", machine->state_name(0));
	for (unsigned int state = 0; state < machine->states; state++) {
		for (unsigned int input = 0; input < machine->inputs; input++) {
			machine->cell(state, input, &action, &next);
			if (action != machine->never && next != state)
				page_add("    %s --> %s: %s / %s\n", machine->state_name(state),
					 machine->state_name(next), machine->input_name(input),
					 machine->action_name(action));
		}
	}
	page_add("```\n");
}

static void doc_add_table(const struct machine *machine, unsigned int state)
{
	unsigned int action, next;

	page_add("\n### %s\n\n| input | action | next |\n|---|---|---|\n",
		 machine->state_name(state));
	for (unsigned int input = 0; input < machine->inputs; input++) {
		machine->cell(state, input, &action, &next);
		page_add("| %s | %s | %s |\n", machine->input_name(input),
			 machine->action_name(action),
			 next == state ? "" : machine->state_name(next));
	}
}

static void doc_render(void)
{
	page_begin();
	page_add(
		"<!-- Generated from src/roce/xrc_forward_state.c by test-roce-xrc_forward_state --write; do not "
		"edit. -->\n"
		"# States of XRC forwarding\n\n"
		"The states of an XRC target QP whose requests are forwarded to other processes, and of an executor "
		"of these requests;\n"
		"[ADR 0020](adr/0020-one-process-sequences-xrc-requests-"
		"another-process-executes-them.md) explains both. Arrows are labelled input / action. An "
		"input whose action is\n*never* is not produced in that state.\n");
	for (size_t i = 0; i < MACHINES; i++) {
		page_add("\n## %s\n\n", machines[i].title);
		doc_add_diagram(&machines[i]);
		for (unsigned int state = 0; state < machines[i].states; state++)
			doc_add_table(&machines[i], state);
	}
}

static void xrc_forward_state_document_matches_tables(void **test)
{
	(void)test;
	doc_render();
	page_assert_written(PAGE);
}

static void xrc_forward_state_tables_have_every_cell(void **test)
{
	unsigned int action, next;

	(void)test;
	for (const struct machine *machine = machines; machine < machines + MACHINES; machine++) {
		for (unsigned int state = 0; state < machine->states; state++) {
			for (unsigned int input = 0; input < machine->inputs; input++) {
				machine->cell(state, input, &action, &next);
				assert_int_not_equal(action, 0);
				assert_true(action < machine->actions);
				assert_true(next < machine->states);
				if (action == machine->never)
					assert_int_equal(next, state);
			}
		}
	}
}

static enum xrc_target_state next_of(enum xrc_target_state state, enum xrc_target_input input)
{
	return (enum xrc_target_state)xrc_target_cell(state, input).next;
}

/* Otherwise this process and the executor could respond at the same time. */
static void xrc_forward_state_burst_ends_only_by_executor_or_error(void **test)
{
	static const enum xrc_target_state bursts[] = {XRC_TARGET_BURST, XRC_TARGET_BURST_DEFERRED};

	(void)test;
	for (size_t i = 0; i < sizeof(bursts) / sizeof(bursts[0]); i++) {
		for (unsigned int in = 0; in < XRC_TARGET_IN_COUNT; in++) {
			enum xrc_target_input input = (enum xrc_target_input)in;
			enum xrc_target_state next = next_of(bursts[i], input);
			bool is_end = input == XRC_TARGET_IN_REPORT_LAST ||
				      input == XRC_TARGET_IN_REPORT_RNR ||
				      input == XRC_TARGET_IN_REPORT_ERROR ||
				      input == XRC_TARGET_IN_NO_PROCESS ||
				      input == XRC_TARGET_IN_EXECUTOR_EXITED ||
				      input == XRC_TARGET_IN_HALT;

			assert_int_equal(is_end, next == XRC_TARGET_IDLE);
			assert_int_not_equal(next, XRC_TARGET_DEFERRED);
			assert_int_not_equal(xrc_target_cell(bursts[i], input).action,
					     XRC_TARGET_ACTION_EXECUTE);
		}
	}
}

static void xrc_forward_state_deferred_request_is_retried_when_there_is_space(void **test)
{
	(void)test;
	assert_int_equal(xrc_target_cell(XRC_TARGET_DEFERRED, XRC_TARGET_IN_SPACE).action,
			 XRC_TARGET_ACTION_RETRY);
	assert_int_equal(xrc_target_cell(XRC_TARGET_BURST_DEFERRED, XRC_TARGET_IN_SPACE).action,
			 XRC_TARGET_ACTION_RETRY);
	assert_int_equal(
		xrc_target_cell(XRC_TARGET_BURST_DEFERRED, XRC_TARGET_IN_REPORT_LAST).action,
		XRC_TARGET_ACTION_END_BURST_RETRY);
}

static void xrc_forward_state_executor_executes_nothing_after_failure(void **test)
{
	(void)test;
	assert_int_equal(xrc_executor_cell(XRC_EXECUTOR_FAILED, XRC_EXECUTOR_IN_REQUEST).action,
			 XRC_EXECUTOR_ACTION_DROP);
	assert_int_equal(xrc_executor_cell(XRC_EXECUTOR_ENDED, XRC_EXECUTOR_IN_REQUEST).action,
			 XRC_EXECUTOR_ACTION_DROP);
	for (unsigned int state = 0; state < XRC_EXECUTOR_STATE_COUNT; state++) {
		struct xrc_executor_cell cell = xrc_executor_cell((enum xrc_executor_state)state,
								  XRC_EXECUTOR_IN_BURST);

		assert_int_equal(cell.action, XRC_EXECUTOR_ACTION_BEGIN);
		assert_int_equal(cell.next, XRC_EXECUTOR_REPORTED);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_forward_state_document_matches_tables),
		cmocka_unit_test(xrc_forward_state_tables_have_every_cell),
		cmocka_unit_test(xrc_forward_state_burst_ends_only_by_executor_or_error),
		cmocka_unit_test(xrc_forward_state_deferred_request_is_retried_when_there_is_space),
		cmocka_unit_test(xrc_forward_state_executor_executes_nothing_after_failure),
	};

	if (argc > 1 && !strcmp(argv[1], "--write")) {
		doc_render();
		return page_write(PAGE);
	}
	return cmocka_run_group_tests_name("roce-xrc_forward_state", tests, NULL, NULL);
}
