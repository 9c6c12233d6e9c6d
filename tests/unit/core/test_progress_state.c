/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of the threads that make progress, and docs/progress-states.md, which is generated from
 * it.
 *
 *	test-core-progress_state --write	writes docs/progress-states.md
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/engine/progress.h"
#include "page.h"

#define PAGE "progress-states.md"

static struct progress_cell cell_of(unsigned state, unsigned input)
{
	return progress_cell((enum progress_state)state, (enum progress_input)input);
}

static const char *name_of(unsigned state)
{
	return progress_name((enum progress_state)state);
}

static const struct {
	const char *messages, *thread, *doorbells;
} meanings[PROGRESS_COUNT] = {
	[PROGRESS_NONE] = {"no thread", "does not exist", "as requested before"},
	[PROGRESS_ENDED] = {"no thread", "ends", "as requested before"},
	[PROGRESS_THREAD] = {"engine thread", "waits for all descriptors", "requested"},
	[PROGRESS_WAKES] = {"threads that peers wake, engine thread",
			    "waits for all descriptors, for one tick", "requested"},
	[PROGRESS_TICKS] = {"threads that serve, engine thread at its tick",
			    "waits for its own descriptors, for one tick", "requested"},
	[PROGRESS_PARKED] = {"threads that serve",
			     "waits for its own descriptors, and for doorbells that no thread takes",
			     "requested"},
	[PROGRESS_SPIN_BEGINS] = {"thread that spins, engine thread", "was woken", "off"},
	[PROGRESS_SPIN] = {"thread that spins, engine thread at its tick",
			   "waits for its own descriptors, for one tick",
			   "off from the beginning of a spin to the engine thread's next turn"},
	[PROGRESS_SPIN_WAKES] =
		{"thread that spins, threads that peers wake, engine thread",
		 "waits for all descriptors, for one tick",
		 "off from the beginning of a spin to the engine thread's next turn"},
	[PROGRESS_POLLED] = {"threads that poll, engine thread at its tick",
			     "waits for its own descriptors, for one tick", "off"},
	[PROGRESS_POLLED_WAKES] = {"threads that poll, engine thread at its tick", "was woken",
				   "off"},
	[PROGRESS_POLLED_TICKS] = {"threads that poll, engine thread at its tick",
				   "waits for its own descriptors, for one tick", "off"},
};

static void doc_add_states(void)
{
	page_add("| state | responsible for messages | the engine thread | doorbells |\n"
		 "|---|---|---|---|\n");
	for (unsigned state = 0; state < PROGRESS_COUNT; state++)
		page_add("| %s | %s | %s | %s |\n", name_of(state), meanings[state].messages,
			 meanings[state].thread, meanings[state].doorbells);
}

static void doc_add_actions(struct progress_cell cell)
{
	bool is_first = true;

	for (unsigned bit = 0; bit < PROGRESS_ACTIONS; bit++) {
		if (!(cell.actions & 1u << bit))
			continue;
		page_add("%s%s", is_first ? "" : ", ",
			 progress_action_name((enum progress_action)(1u << bit)));
		is_first = false;
	}
	if (is_first)
		page_add("nothing");
}

/* From every state, the last two inputs lead to `ended`. */
static void doc_add_diagram(void)
{
	page_add("```mermaid\nstateDiagram-v2\n    [*] --> none\n");
	for (unsigned state = 0; state < PROGRESS_COUNT; state++) {
		for (unsigned input = 0; input < PROGRESS_IN_DAEMON_LOST; input++) {
			struct progress_cell cell = cell_of(state, input);

			if (cell.next == state)
				continue;
			page_add("    %s --> %s: %s / ", name_of(state), name_of(cell.next),
				 progress_input_name((enum progress_input)input));
			doc_add_actions(cell);
			page_add("\n");
		}
	}
	page_add("```\n");
}

static void doc_add_table(unsigned state)
{
	page_add(
		"\n### %s\n\n| input | actions | next | engine thread waits for |\n|---|---|---|---|\n",
		name_of(state));
	for (unsigned input = 0; input < PROGRESS_IN_COUNT; input++) {
		struct progress_cell cell = cell_of(state, input);
		bool is_never = cell.actions & PROGRESS_DO_NEVER;

		page_add("| %s | ", progress_input_name((enum progress_input)input));
		doc_add_actions(cell);
		page_add(" | %s | %s |\n", cell.next == state ? "" : name_of(cell.next),
			 is_never ? "" : progress_wait_name((enum progress_wait)cell.wait));
	}
}

static void doc_render(void)
{
	page_begin();
	page_add(
		"<!-- Generated from src/core/engine/progress_state.c by test-core-progress_state --write; do not edit. -->\n"
		"# Threads that make progress\n\n"
		"Messages of peers arrive in shared memory and on sockets. Each run of the transports executes them: each `ibv_poll_cq()`\n"
		"of an empty CQ is one, and each turn of a thread that waits. The state of an engine states which threads are responsible,\n"
		"so that no message waits while all threads sleep, and what the engine thread waits for after its turn\n"
		"([ADR 0081](adr/0081-one-table-states-which-threads-make-progress.md)). `core/engine/progress.h` has a function for each\n"
		"event.\n"
		"\n"
		"- A **tick** is 1 ms, or 0.2 ms if the application polls for short times only. The **own descriptors** of the engine thread\n"
		"  are that of the daemon's notices and that by which other threads of the process wake it.\n"
		"- **Doorbells** are requested from the peers at the end of each turn: *requested* is true after the turn that follows the\n"
		"  input.\n"
		"- A thread **serves** while it waits in `ibv_get_cq_event()` or for rsockets: it waits for doorbells and runs the transports\n"
		"  (ADR 0045). A *serve spin* precedes it.\n"
		"- **External** is a wait that the library does not see, for example in `poll(2)`. A channel is external after an\n"
		"  `ibv_get_cq_event()` that did not serve. An *external wait* is a thread of rsockets that waits by other means.\n"
		"- A **lone spin** is the last `ibv_poll_cq()` before `poll(2)` of an application that waits for one channel (ADR 0065). Its\n"
		"  state continues while the application processes the completion.\n"
		"- **Direct wake-ups**: a peer of this host adds the unit of an event to the descriptor of a channel (ADR 0064). *Unit\n"
		"  promised*: an event was queued whose unit a peer adds. The thread that it wakes *will block* soon.\n"
		"- **Ended** is final for this engine. The next call that needs a device creates another one.\n"
		"\n");
	doc_add_states();
	page_add(
		"\n"
		"Inputs are events of application threads and of the engine thread. *polls long*: threads have found CQs empty for 256 polls\n"
		"or more. A *tick* input begins the engine thread's turn while the application polls. *tick, not polled* continues with one of\n"
		"the *turn* inputs, which end a turn. A turn that leaves work has no input: the next turn follows. *changed*: a thread has\n"
		"begun or ended serving or a spin since the last turn. The last column of the tables states what the engine thread waits for.\n"
		"After *look for messages* and *check promises*, one of these inputs follows at once: *a new message* for which direct wake-ups\n"
		"are possible, *none lately, but pending* (one arrived in the last tick, or the sender may not have added a promised unit), or\n"
		"*none, and nothing pending*. *never* does not occur in this state. An arrow is labelled input / actions. The arrows of *daemon\n"
		"lost* and *fork, in the child* are not drawn: both lead to *ended* from every state.\n"
		"\n");
	doc_add_diagram();
	page_add("\n## All cells\n");
	for (unsigned state = 0; state < PROGRESS_COUNT; state++)
		doc_add_table(state);
}

static void progress_cell_table_matches_document(void **test)
{
	(void)test;
	doc_render();
	page_assert_written(PAGE);
}

/*
 * Every turn of the engine thread ends with a wait, at once or after the answer; other inputs have
 * none.
 */
static void progress_cell_turn_ends_with_wait(void **test)
{
	const unsigned int asks = PROGRESS_DO_LOOK | PROGRESS_DO_CHECK;

	(void)test;
	for (unsigned state = 0; state < PROGRESS_COUNT; state++) {
		for (unsigned input = 0; input < PROGRESS_IN_COUNT; input++) {
			struct progress_cell cell = cell_of(state, input);
			bool ends_turn = input == PROGRESS_IN_TICK_POLLED ||
					 (input >= PROGRESS_IN_TURN_SERVED &&
					  input <= PROGRESS_IN_WAKES_OVER);

			assert_true(cell.next < PROGRESS_COUNT && cell.wait < PROGRESS_WAIT_COUNT);
			if (cell.actions & PROGRESS_DO_NEVER) {
				assert_int_equal(cell.actions, PROGRESS_DO_NEVER);
				assert_int_equal(cell.next, state);
				continue;
			}
			if (!ends_turn || cell.actions & asks)
				assert_int_equal(cell.wait, PROGRESS_WAIT_NONE);
			else
				assert_int_not_equal(cell.wait, PROGRESS_WAIT_NONE);
			if (!(cell.actions & asks))
				continue;
			assert_true(input <= PROGRESS_IN_TURN_ELSEWHERE);
			for (unsigned answer = PROGRESS_IN_WAKES_NEW;
			     answer <= PROGRESS_IN_WAKES_OVER; answer++) {
				if (answer == PROGRESS_IN_WAKES_NEW &&
				    cell.actions & PROGRESS_DO_CHECK)
					continue;
				assert_false(cell_of(cell.next, answer).actions &
					     PROGRESS_DO_NEVER);
			}
		}
	}
}

/* Peers see each change of direct wake-ups, and doorbells follow the state. */
static void progress_cell_actions_fit_change_of_state(void **test)
{
	(void)test;
	for (unsigned from = 0; from < PROGRESS_COUNT; from++) {
		for (unsigned input = 0; input < PROGRESS_IN_DAEMON_LOST; input++) {
			struct progress_cell cell = cell_of(from, input);
			bool had = progress_has_wakes((enum progress_state)from);
			bool has = progress_has_wakes((enum progress_state)cell.next);
			bool polled = progress_is_polled((enum progress_state)from);
			bool polls = progress_is_polled((enum progress_state)cell.next);

			if (has != had)
				assert_true(cell.actions & (has ? PROGRESS_DO_BEGIN_WAKES :
								  PROGRESS_DO_END_WAKES));
			if (polls && !polled)
				assert_int_equal(cell.actions, PROGRESS_DO_STOP_DOORBELLS |
								       PROGRESS_DO_WAKE_THREAD);
			/* After the tick, the turn of the engine thread requests them. */
			if (polled && !polls && input != PROGRESS_IN_TICK_UNPOLLED)
				assert_true(cell.actions & PROGRESS_DO_REQUEST_DOORBELLS);
		}
	}
}

static void progress_cell_every_state_is_reached(void **test)
{
	bool is_reached[PROGRESS_COUNT] = {[PROGRESS_NONE] = true};

	(void)test;
	for (int round = 0; round < PROGRESS_COUNT; round++)
		for (unsigned state = 0; state < PROGRESS_COUNT; state++)
			for (unsigned input = 0; input < PROGRESS_IN_COUNT && is_reached[state];
			     input++)
				is_reached[cell_of(state, input).next] = true;
	for (unsigned state = 0; state < PROGRESS_COUNT; state++)
		assert_true(is_reached[state]);
}

static void progress_cell_ended_is_final(void **test)
{
	(void)test;
	for (unsigned input = 0; input < PROGRESS_IN_COUNT; input++)
		assert_int_equal(cell_of(PROGRESS_ENDED, input).next, PROGRESS_ENDED);
	for (unsigned state = 0; state < PROGRESS_COUNT; state++) {
		assert_int_equal(cell_of(state, PROGRESS_IN_DAEMON_LOST).next, PROGRESS_ENDED);
		assert_int_equal(cell_of(state, PROGRESS_IN_FORKED).next, PROGRESS_ENDED);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_cell_table_matches_document),
		cmocka_unit_test(progress_cell_turn_ends_with_wait),
		cmocka_unit_test(progress_cell_actions_fit_change_of_state),
		cmocka_unit_test(progress_cell_every_state_is_reached),
		cmocka_unit_test(progress_cell_ended_is_final),
	};

	if (argc > 1 && !strcmp(argv[1], "--write")) {
		doc_render();
		return page_write(PAGE);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
