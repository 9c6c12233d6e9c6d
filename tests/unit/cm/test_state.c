/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table has a cell for every state and input, and docs/cm-states.md equals the page generated
 * from it.
 *
 *	test-cm-state --write	writes docs/cm-states.md
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

#include "cm/sidr_state.h"
#include "cm/state.h"
#include "page.h"

#define PAGE "cm-states.md"

/* Cells without an effect are omitted from the diagram. */
static bool is_quiet(struct cm_cell cell)
{
	switch ((enum cm_action)cell.action) {
	case CM_ACTION_ILLEGAL:
	case CM_ACTION_ALREADY:
	case CM_ACTION_STRAY:
	case CM_ACTION_NEVER:
		return true;
	default:
		return false;
	}
}

static void add_diagram(void)
{
	page_add("```mermaid\nstateDiagram-v2\n    [*] --> idle\n");
	for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
		for (unsigned in = 0; in < CM_IN_COUNT; in++) {
			struct cm_cell cell = cm_cell((enum cm_state)state, (enum cm_input)in);

			if (is_quiet(cell) || cell.next == state)
				continue;
			page_add("    %s --> %s: %s / %s\n", cm_state_name((enum cm_state)state),
				 cm_state_name((enum cm_state)cell.next),
				 cm_input_name((enum cm_input)in),
				 cm_action_name((enum cm_action)cell.action));
		}
	}
	page_add("    closed --> [*]\n```\n");
}

static void add_table(unsigned state)
{
	page_add("\n### %s\n\n| input | action | next |\n|---|---|---|\n",
		 cm_state_name((enum cm_state)state));
	for (unsigned in = 0; in < CM_IN_COUNT; in++) {
		struct cm_cell cell = cm_cell((enum cm_state)state, (enum cm_input)in);

		page_add("| %s | %s | %s |\n", cm_input_name((enum cm_input)in),
			 cm_action_name((enum cm_action)cell.action),
			 cell.next == state ? "" : cm_state_name((enum cm_state)cell.next));
	}
}

static bool is_sidr_quiet(struct cm_sidr_cell cell)
{
	return cell.action == CM_SIDR_ACTION_ILLEGAL || cell.action == CM_SIDR_ACTION_STRAY ||
	       cell.action == CM_SIDR_ACTION_NEVER;
}

static struct cm_sidr_cell sidr_cell(unsigned state, unsigned in)
{
	return cm_sidr_cell((enum cm_sidr_state)state, (enum cm_sidr_input)in);
}

static void add_sidr_diagram(void)
{
	page_add("```mermaid\nstateDiagram-v2\n    [*] --> idle\n");
	for (unsigned state = 0; state < CM_SIDR_STATE_COUNT; state++) {
		for (unsigned in = 0; in < CM_SIDR_IN_COUNT; in++) {
			struct cm_sidr_cell cell = sidr_cell(state, in);

			if (is_sidr_quiet(cell) || cell.next == state)
				continue;
			page_add("    %s --> %s: %s / %s\n",
				 cm_sidr_state_name((enum cm_sidr_state)state),
				 cm_sidr_state_name((enum cm_sidr_state)cell.next),
				 cm_sidr_input_name((enum cm_sidr_input)in),
				 cm_sidr_action_name((enum cm_sidr_action)cell.action));
		}
	}
	page_add("    closed --> [*]\n```\n");
}

static void add_sidr_table(unsigned state)
{
	page_add("\n### %s\n\n| input | action | next |\n|---|---|---|\n",
		 cm_sidr_state_name((enum cm_sidr_state)state));
	for (unsigned in = 0; in < CM_SIDR_IN_COUNT; in++) {
		struct cm_sidr_cell cell = sidr_cell(state, in);

		page_add("| %s | %s | %s |\n", cm_sidr_input_name((enum cm_sidr_input)in),
			 cm_sidr_action_name((enum cm_sidr_action)cell.action),
			 cell.next == state ? "" :
					      cm_sidr_state_name((enum cm_sidr_state)cell.next));
	}
}

static void render(void)
{
	page_begin();
	page_add(
		"<!-- Printed from src/cm/state.c and sidr_state.c by test-cm-state --write; do not edit. -->\n"
		"# States of a connection in the communication manager\n\n"
		"Names in lower case are calls of the consumer and timer events, names in capitals are "
		"messages of the peer. An arrow is\n"
		"labelled input / action. The tables below the diagram contain each pair of state and "
		"input: *illegal* returns EINVAL to the\n"
		"consumer, *already* returns EISCONN, *stray* drops and counts a message, *never* "
		"cannot occur because no timer runs.\n\n");
	add_diagram();
	page_add("\n## All entries\n");
	for (unsigned state = 0; state < CM_STATE_COUNT; state++)
		add_table(state);
	page_add("\n# States of a service ID resolution\n\n"
		 "The resolution of a datagram service consists of one request and one reply.\n\n");
	add_sidr_diagram();
	page_add("\n## All entries\n");
	for (unsigned state = 0; state < CM_SIDR_STATE_COUNT; state++)
		add_sidr_table(state);
}

static void cm_cell_every_state_and_input_is_defined(void **test)
{
	(void)test;
	for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
		for (unsigned in = 0; in < CM_IN_COUNT; in++) {
			struct cm_cell cell = cm_cell((enum cm_state)state, (enum cm_input)in);

			assert_int_not_equal(cell.action, CM_ACTION_MISSING);
			assert_true(cell.action < CM_ACTION_COUNT);
			assert_true(cell.next < CM_STATE_COUNT);
			/* A rejected or dropped input does not change the state. */
			if (is_quiet(cell))
				assert_int_equal(cell.next, state);
		}
	}
}

static void cm_cell_every_state_is_reached_and_left(void **test)
{
	bool is_reached[CM_STATE_COUNT] = {[CM_STATE_IDLE] = true};

	(void)test;
	for (int round = 0; round < CM_STATE_COUNT; round++) {
		for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
			for (unsigned in = 0; in < CM_IN_COUNT && is_reached[state]; in++)
				is_reached[cm_cell((enum cm_state)state, (enum cm_input)in).next] =
					true;
		}
	}
	for (unsigned state = 0; state < CM_STATE_COUNT; state++)
		assert_true(is_reached[state]);
}

/*
 * Destroying must always be possible: it leads to the closed state, directly or after the messages
 * that remain to be sent.
 */
static void cm_cell_destroy_leads_to_closed(void **test)
{
	(void)test;
	for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
		struct cm_cell cell = cm_cell((enum cm_state)state, CM_IN_DESTROY);

		assert_false(is_quiet(cell));
		for (int hops = 0; cell.next != CM_STATE_CLOSED && hops < 4; hops++)
			cell = cm_cell((enum cm_state)cell.next, CM_IN_EXPIRED);
		assert_int_equal(cell.next, CM_STATE_CLOSED);
	}
}

static void cm_sidr_cell_every_state_and_input_is_defined(void **test)
{
	bool is_reached[CM_SIDR_STATE_COUNT] = {[CM_SIDR_STATE_IDLE] = true};

	(void)test;
	for (int round = 0; round < CM_SIDR_STATE_COUNT; round++) {
		for (unsigned state = 0; state < CM_SIDR_STATE_COUNT; state++) {
			for (unsigned in = 0; in < CM_SIDR_IN_COUNT; in++) {
				struct cm_sidr_cell cell = sidr_cell(state, in);

				assert_int_not_equal(cell.action, CM_SIDR_ACTION_MISSING);
				assert_true(cell.action < CM_SIDR_ACTION_COUNT);
				assert_true(cell.next < CM_SIDR_STATE_COUNT);
				if (is_sidr_quiet(cell))
					assert_int_equal(cell.next, state);
				is_reached[cell.next] |= is_reached[state];
			}
		}
	}
	for (unsigned state = 0; state < CM_SIDR_STATE_COUNT; state++) {
		struct cm_sidr_cell cell = sidr_cell(state, CM_SIDR_IN_DESTROY);

		assert_true(is_reached[state]);
		assert_false(is_sidr_quiet(cell));
		assert_true(cell.next == CM_SIDR_STATE_CLOSED ||
			    sidr_cell(cell.next, CM_SIDR_IN_EXPIRED).next == CM_SIDR_STATE_CLOSED);
	}
}

static void cm_state_name_every_value_has_a_name(void **test)
{
	(void)test;
	assert_string_equal(cm_sidr_state_name(CM_SIDR_STATE_COUNT), "?");
	assert_string_equal(cm_sidr_input_name(CM_SIDR_IN_COUNT), "?");
	assert_string_equal(cm_sidr_action_name(CM_SIDR_ACTION_COUNT), "?");
	assert_string_equal(cm_state_name(CM_STATE_TIMEWAIT), "timewait");
	assert_string_equal(cm_state_name(CM_STATE_COUNT), "?");
	assert_string_equal(cm_input_name(CM_IN_COUNT), "?");
	assert_string_equal(cm_action_name(CM_ACTION_COUNT), "?");
}

static void cm_cell_table_matches_document(void **test)
{
	(void)test;
	render();
	page_assert_written(PAGE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_cell_every_state_and_input_is_defined),
		cmocka_unit_test(cm_cell_every_state_is_reached_and_left),
		cmocka_unit_test(cm_cell_destroy_leads_to_closed),
		cmocka_unit_test(cm_sidr_cell_every_state_and_input_is_defined),
		cmocka_unit_test(cm_state_name_every_value_has_a_name),
		cmocka_unit_test(cm_cell_table_matches_document),
	};

	if (argc > 1 && strcmp(argv[1], "--write") == 0) {
		render();
		return page_write(PAGE);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
