/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Model check of the threads that make progress (core/engine/progress.h): all interleavings of
 *
 *   two threads        poll, wait in ibv_get_cq_event(), wait with poll(2) for the channel, wait
 *                      elsewhere, spin, or compute without a call, for any time
 *   the engine thread  waits as the table states
 *   a peer             sends a message, rings the doorbell or adds the unit of a direct wake-up, or
 *                      is killed before
 *
 * with one channel, and one message at a time. One step is a part of a call with engine.lock held
 * and the wake-ups after its release, or what the peer does between its accesses to shared memory.
 * The order of flags and FIFOs within such a step is not examined: local/sleep.c and base/barrier.h
 * explain it. The descriptors are numbers of the model. A tick ends at any time.
 *
 * In each state, is_live() lets the calls that have begun, the engine thread and the peer continue
 * in turn, without a further call. After a limited number of rounds all messages are executed,
 * every thread has returned or waits without a unit in the descriptor, and the engine thread has no
 * tick. So no wake-up is lost, no thread sleeps over work, and spins and ticks end.
 *
 * The other tests remove an action from a cell of the table, or replace a wait, and expect a state
 * that is not live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "progress_model.h"

#define STATES_MAX     (1u << 20)
#define TABLE_SLOTS    (1u << 21)
#define ROUNDS_TO_LIVE 24

static struct {
	bool is_used;
	enum progress_state state;
	enum progress_input input;
	struct progress_cell cell;
} mutation;

static bool has_failed; /* a cell that does not occur was used */

struct progress_cell __real_progress_cell(enum progress_state state, enum progress_input input);
struct progress_cell __wrap_progress_cell(enum progress_state state, enum progress_input input);

struct progress_cell __wrap_progress_cell(enum progress_state state, enum progress_input input)
{
	struct progress_cell cell = __real_progress_cell(state, input);

	if (mutation.is_used && state == mutation.state && input == mutation.input)
		cell = mutation.cell;
	has_failed |= !!(cell.actions & PROGRESS_DO_NEVER);
	return cell;
}

static bool is_live(struct state s)
{
	for (int round = 0; round < ROUNDS_TO_LIVE; round++) {
		struct state to = s;

		if (is_quiet(&s))
			return true;
		if (s.peer != PEER_IDLE && step_peer(&to, 0))
			s = to;
		for (int i = 0; i < THREADS; i++) {
			to = s;
			if (s.actors[i].at != OUT && step_thread(&to, &to.actors[i], 0))
				s = to;
		}
		to = s;
		if (step_engine(&to, 0))
			s = to;
	}
	return is_quiet(&s);
}

static struct state *queue;
static uint32_t *slots;	  /* 1 + position in the queue */
static uint32_t *parents; /* of the states in the queue */
static uint32_t count, from;

static void print_path(uint32_t at)
{
	const struct state *s = &queue[at];

	if (at)
		print_path(parents[at]);
	print_message("%-12s threads %2u %2u engine %2u wait %u fifo %u+%u fd %u wants %u takes %u "
		      "bell %u own %u servers %u external %u+%u changed %u peer %u\n",
		      progress_name(state_of(s)), s->actors[0].at, s->actors[1].at,
		      s->actors[ENGINE].at, s->wait, s->received, s->promised, s->fd,
		      s->wants_doorbell, s->takes_wakes, s->doorbell, s->own_doorbell,
		      s->now.servers, s->now.external_channels, s->now.external_waits,
		      s->now.has_changed, s->peer);
}

/* The threads are alike: their order does not matter. Nor do values that are not used. */
static void normalise(struct state *s)
{
	struct actor first = s->actors[0];

	s->has_polled &= progress_is_polled(state_of(s));
	if (s->actors[ENGINE].at == TURNS)
		s->wait = PROGRESS_WAIT_NONE;
	if (s->wait == PROGRESS_WAIT_OWN_TICK || s->wait == PROGRESS_WAIT_ALL_TICK)
		s->own_doorbell = false;
	if (memcmp(&s->actors[0], &s->actors[1], sizeof(first)) <= 0)
		return;
	s->actors[0] = s->actors[1];
	s->actors[1] = first;
}

static void reach(struct state *s)
{
	const uint8_t *bytes = (const uint8_t *)s;
	uint64_t hash = 14695981039346656037u;
	uint32_t slot;

	normalise(s);
	for (size_t i = 0; i < sizeof(*s); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	slot = (uint32_t)(hash >> 32) % TABLE_SLOTS;
	for (; slots[slot]; slot = (slot + 1) % TABLE_SLOTS) {
		if (!memcmp(&queue[slots[slot] - 1], s, sizeof(*s)))
			return;
	}
	assert_true(count < STATES_MAX);
	queue[count] = *s;
	parents[count] = from;
	slots[slot] = ++count;
	if (has_failed || is_live(*s))
		return;
	has_failed = true;
	if (!mutation.is_used)
		print_path(count - 1);
}

static void step_all(void)
{
	for (unsigned int choice = 0; choice < CHOICES; choice++) {
		struct state to = queue[from];

		if (step_peer(&to, choice))
			reach(&to);
		for (int i = 0; i < THREADS; i++) {
			to = queue[from];
			if (step_thread(&to, &to.actors[i], choice))
				reach(&to);
		}
		to = queue[from];
		if (step_engine(&to, choice))
			reach(&to);
	}
}

/* Returns whether all states are live. Stops at the first one that is not. */
static bool explore(void)
{
	struct state first;

	memset(&first, 0, sizeof(first));
	memset(slots, 0, TABLE_SLOTS * sizeof(*slots));
	has_failed = false;
	count = from = 0;
	progress_thread_starts(&first.now);
	first.actors[ENGINE].at = TURNS;
	reach(&first);
	for (from = 0; from < count && !has_failed; from++)
		step_all();
	return !has_failed;
}

static void progress_no_thread_sleeps_over_work(void **test)
{
	(void)test;
	mutation.is_used = false;
	assert_true(explore());
	assert_true(count > 10000);
}

/* Removes the actions from the cell. Replaces its wait, except with PROGRESS_WAIT_NONE. */
static bool finds(enum progress_state state, enum progress_input input, unsigned int actions,
		  enum progress_wait wait)
{
	struct progress_cell cell = __real_progress_cell(state, input);

	cell.actions &= (unsigned char)~actions;
	if (wait != PROGRESS_WAIT_NONE)
		cell.wait = (unsigned char)wait;
	mutation.is_used = true;
	mutation.state = state;
	mutation.input = input;
	mutation.cell = cell;
	return !explore();
}

#define FINDS_WITHOUT(state, input, action)                                            \
	assert_true(finds(PROGRESS_##state, PROGRESS_IN_##input, PROGRESS_DO_##action, \
			  PROGRESS_WAIT_NONE))
#define FINDS_WAIT(state, input, wait) \
	assert_true(finds(PROGRESS_##state, PROGRESS_IN_##input, 0, PROGRESS_WAIT_##wait))

/* Other actions only prevent that a message waits for a tick. */
static void progress_model_finds_each_removed_action_that_matters(void **test)
{
	(void)test;
	FINDS_WITHOUT(THREAD, POLLS_LONG, WAKE_THREAD);
	FINDS_WITHOUT(PARKED, POLLS_LONG, WAKE_THREAD);
	FINDS_WITHOUT(THREAD, LONE_SPIN_BEGINS, WAKE_THREAD);
	FINDS_WITHOUT(PARKED, SERVER_LEAVES, WAKE_THREAD);
	FINDS_WITHOUT(PARKED, LAST_SERVER_LEAVES, WAKE_THREAD);
	FINDS_WITHOUT(WAKES, WAKES_OVER, END_WAKES);
	FINDS_WITHOUT(WAKES, TURN_SERVED, END_WAKES);
}

static void progress_model_finds_each_wait_that_misses_messages(void **test)
{
	(void)test;
	FINDS_WAIT(WAKES, WAKES_PENDING, ALL);
	FINDS_WAIT(WAKES, WAKES_NEW, ALL);
	FINDS_WAIT(TICKS, WAKES_OVER, PARKED);
	FINDS_WAIT(SPIN, WAKES_OVER, ALL);
	FINDS_WAIT(POLLED, WAKES_OVER, ALL);
	FINDS_WAIT(POLLED_TICKS, WAKES_OVER, PARKED);
	FINDS_WAIT(POLLED_WAKES, TICK_POLLED, ALL);
	FINDS_WAIT(THREAD, WAKES_OVER, ALL_TICK);
	FINDS_WAIT(PARKED, WAKES_OVER, OWN_TICK);
}

static int setup(void **test)
{
	(void)test;
	queue = malloc(STATES_MAX * sizeof(*queue));
	slots = malloc(TABLE_SLOTS * sizeof(*slots));
	parents = malloc(STATES_MAX * sizeof(*parents));
	return queue && slots && parents ? 0 : -1;
}

static int teardown(void **test)
{
	(void)test;
	free(queue);
	free(slots);
	free(parents);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_no_thread_sleeps_over_work),
		cmocka_unit_test(progress_model_finds_each_removed_action_that_matters),
		cmocka_unit_test(progress_model_finds_each_wait_that_misses_messages),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
