/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Model check of the units of a completion channel: all interleavings of
 *
 *   the engine      queues events, executes messages of a peer that promises units, signals, and
 *                   checks promises
 *   a peer          sends messages and adds the promised units, at any time later, or is killed
 *                   before
 *   two waiters     take units in each way and then an event; the first one also polls
 *   a destroyer     removes events
 *
 * One step is what happens with the channel's lock held, or one system call. The descriptor is a
 * number of the model. See core/object/channel_units.h for the invariant.
 */
#include "core/object/channel_units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/object/event_fd.h"

#define WAITERS	     2
#define SIGNALS	     3
#define TABLE_SLOTS  (1u << 20)
#define NOT_SIGNALED 0xff

enum waiter_at { WAITS, POLLS, HOLDS_POLLING, HOLDS, EARLY };

/* What each actor may still do. */
struct budget {
	uint8_t events, messages, kills, removals, polls;
};

/* Compared as bytes: no padding. */
struct state {
	struct channel_units units;
	uint8_t fd;
	uint8_t waiter[WAITERS]; /* enum waiter_at */
	uint8_t signal[SIGNALS]; /* units that a thread is about to add, or NOT_SIGNALED */
	uint8_t signal_is_added[SIGNALS];
	struct budget left;
	uint8_t is_signal_due; /* the channel is in engine.signals */
	uint8_t is_unchecked;  /* a unit was promised and not checked */
	uint8_t received;      /* messages that the transports have not executed */
	uint8_t to_add;	       /* units that the peer has promised and not added */
	uint8_t executed;      /* messages, and units that the peer has added */
	uint8_t added;
	uint8_t surplus;
};

static struct state to; /* that a step makes from another one; the descriptor is also this one's */

void event_fd_post(int fd, uint32_t units)
{
	(void)fd;
	to.fd = (uint8_t)(to.fd + units);
}

bool event_fd_is_readable(int fd)
{
	(void)fd;
	return to.fd > 0;
}

int event_fd_try(int fd)
{
	(void)fd;
	if (!to.fd)
		return -EAGAIN;
	to.fd--;
	return 0;
}

uint32_t event_fd_drain(int fd, uint32_t count)
{
	while (count && !event_fd_try(fd))
		count--;
	return count;
}

struct model {
	struct state *table;
	bool *is_used;
	struct state *queue;
	uint32_t count, next;
	uint32_t quiet; /* states in which only waiters are left */
};

static uint32_t hash_of(const struct state *state)
{
	const uint8_t *bytes = (const uint8_t *)state;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof(*state); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

static unsigned int held(const struct state *state)
{
	unsigned int count = 0;

	for (int i = 0; i < WAITERS; i++)
		count += state->waiter[i] == HOLDS || state->waiter[i] == HOLDS_POLLING ||
			 state->waiter[i] == EARLY;
	return count;
}

static unsigned int signalled(const struct state *state)
{
	unsigned int count = 0;

	for (int i = 0; i < SIGNALS; i++)
		if (state->signal[i] != NOT_SIGNALED && !state->signal_is_added[i])
			count += state->signal[i];
	return count;
}

static void check_invariant(const struct state *state)
{
	const struct channel_units *units = &state->units;

	assert_int_equal(state->fd + units->due + signalled(state) + held(state) + state->executed,
			 units->queued + units->missing + state->surplus + state->added);
	if (!units->has_promises)
		assert_true(!state->surplus && units->due <= units->queued + units->missing);
}

/* A step has made this state from another one. */
static void reach(struct model *model, const struct state *state)
{
	uint32_t slot = hash_of(state) % TABLE_SLOTS;

	check_invariant(state);
	while (model->is_used[slot]) {
		if (!memcmp(&model->table[slot], state, sizeof(*state)))
			return;
		slot = (slot + 1) % TABLE_SLOTS;
	}
	assert_true(model->count < TABLE_SLOTS / 2);
	model->is_used[slot] = true;
	model->table[slot] = *state;
	model->queue[model->count++] = *state;
}

/* The functions add a unit in place of one that a peer has not added. */
static void note_surplus(struct state *state, uint8_t fd_before, int32_t expected_change)
{
	state->surplus = (uint8_t)(state->surplus + (state->fd - fd_before - expected_change));
}

/* A function that settles: it may drain units for missing ones, and add one. */
static void settles(struct state *state, uint8_t fd_before, uint32_t missing_before)
{
	note_surplus(state, fd_before, (int32_t)state->units.missing - (int32_t)missing_before);
}

static void queue_event(struct state *state, bool is_promised)
{
	units_event_queued(&state->units, is_promised);
	state->is_signal_due |= !is_promised;
	state->is_unchecked |= is_promised;
}

static void execute(struct state *state, bool generates_event)
{
	state->received--;
	state->executed++;
	state->is_unchecked = true;
	if (generates_event || !state->units.queued)
		queue_event(state, true);
	else
		units_promise_absorbed(&state->units);
}

static int free_signal(const struct state *state)
{
	for (int i = 0; i < SIGNALS; i++)
		if (state->signal[i] == NOT_SIGNALED)
			return i;
	return -1;
}

static void step_engine(struct model *model, const struct state *from)
{
	to = *from;
	if (from->left.events) {
		to.left.events--;
		queue_event(&to, false);
		reach(model, &to);
	}
	for (int generates_event = 0; from->received && generates_event < 2; generates_event++) {
		to = *from;
		execute(&to, generates_event);
		reach(model, &to);
	}
	if (from->is_signal_due && free_signal(from) >= 0) {
		to = *from;
		to.is_signal_due = false;
		to.signal[free_signal(from)] = (uint8_t)units_signal_begin(&to.units);
		reach(model, &to);
	}
	if (from->is_unchecked) {
		to = *from;
		to.is_unchecked = !units_check_promise(&to.units, false);
		note_surplus(&to, from->fd, 0);
		reach(model, &to);
	}
}

static void step_signals(struct model *model, const struct state *from)
{
	for (int i = 0; i < SIGNALS; i++) {
		to = *from;
		if (from->signal[i] == NOT_SIGNALED)
			continue;
		if (!from->signal_is_added[i]) {
			event_fd_post(0, from->signal[i]);
			to.signal_is_added[i] = true;
		} else {
			units_signal_end(&to.units);
			settles(&to, from->fd, from->units.missing);
			to.signal[i] = NOT_SIGNALED;
			to.signal_is_added[i] = false;
		}
		reach(model, &to);
	}
}

static void step_peer(struct model *model, const struct state *from)
{
	to = *from;
	if (from->left.messages) {
		to.left.messages--;
		to.units.has_promises = true;
		to.received++;
		to.to_add++;
		reach(model, &to);
	}
	if (from->to_add) {
		to = *from;
		to.to_add--;
		to.added++;
		event_fd_post(0, 1);
		reach(model, &to);
	}
	if (from->to_add && from->left.kills) {
		to = *from;
		to.to_add--;
		to.left.kills--;
		reach(model, &to);
	}
}

static void step_destroyer(struct model *model, const struct state *from)
{
	for (uint32_t count = 1; from->left.removals && count <= from->units.queued; count++) {
		uint32_t not_due = count - (count < from->units.due ? count : from->units.due);
		to = *from;
		to.left.removals--;
		units_events_removed(&to.units, count);
		settles(&to, from->fd, from->units.missing + not_due);
		reach(model, &to);
	}
}

/*
 * Runs the transports, and queues an event for the unit if the queue is empty, as run_early() of
 * channel.c.
 */
static void run_early(struct model *model, const struct state *from, int i, bool generates_events)
{
	to = *from;
	while (to.received)
		execute(&to, generates_events);
	if (!to.units.queued) {
		to.surplus = (uint8_t)(to.surplus - !to.units.missing);
		units_event_added(&to.units);
	}
	to.waiter[i] = HOLDS;
	reach(model, &to);
}

static void take(struct model *model, const struct state *from, int i)
{
	to = *from;
	if (from->units.queued) {
		units_event_taken(&to.units);
		to.waiter[i] = WAITS;
		settles(&to, from->fd, from->units.missing);
	} else if (from->units.has_promises) {
		to.waiter[i] = EARLY;
		reach(model, &to);
		to = *from;
		units_put_back(&to.units);
		to.waiter[i] = WAITS;
	} else {
		assert_int_not_equal(from->units.missing, 0);
		units_returned(&to.units);
		to.waiter[i] = WAITS;
	}
	reach(model, &to);
}

static void end_polling(struct state *state)
{
	uint32_t missing = state->units.missing;
	uint8_t posted = state->units.spinners == 1 ? (uint8_t)state->units.due : 0;
	uint8_t fd = (uint8_t)(state->fd + posted);

	units_spin_end(&state->units);
	settles(state, fd, missing);
}

static void wait_or_poll(struct model *model, const struct state *from, int i)
{
	bool polls = from->waiter[i] == POLLS;
	to = *from;
	if (polls ? units_try(&to.units) : !event_fd_try(0)) {
		to.waiter[i] = polls ? HOLDS_POLLING : HOLDS;
		reach(model, &to);
	}
	to = *from;
	if (!polls && units_take_due(&to.units)) {
		to.waiter[i] = HOLDS;
		to.is_signal_due = to.is_signal_due && to.units.due;
		reach(model, &to);
	}
	to = *from;
	if (polls) {
		end_polling(&to);
		to.waiter[i] = WAITS;
		reach(model, &to);
	} else if (from->left.polls && i == 0) {
		to.left.polls--;
		units_spin_begin(&to.units);
		to.waiter[i] = POLLS;
		reach(model, &to);
	}
}

static void step_waiters(struct model *model, const struct state *from)
{
	for (int i = 0; i < WAITERS; i++) {
		to = *from;
		switch ((enum waiter_at)from->waiter[i]) {
		case WAITS:
		case POLLS:
			wait_or_poll(model, from, i);
			break;
		case HOLDS_POLLING:
			end_polling(&to);
			to.waiter[i] = HOLDS;
			reach(model, &to);
			break;
		case HOLDS:
			take(model, from, i);
			break;
		case EARLY:
			run_early(model, from, i, false);
			run_early(model, from, i, true);
			break;
		}
	}
}

/* Nothing happens any more unless a waiter finds a unit. */
static bool is_quiet(const struct state *state)
{
	for (int i = 0; i < WAITERS; i++)
		if (state->waiter[i] != WAITS)
			return false;
	for (int i = 0; i < SIGNALS; i++)
		if (state->signal[i] != NOT_SIGNALED)
			return false;
	return !state->is_signal_due && !state->is_unchecked && !state->received && !state->to_add;
}

static void check_quiet(const struct state *state)
{
	const struct channel_units *units = &state->units;

	assert_int_equal(units->spinners + units->signallers, 0);
	assert_int_equal(units->due, 0);
	/* A thread that waits is woken. */
	if (units->queued)
		assert_true(state->fd > 0);
	if (units->has_promises)
		return;
	/* The descriptor is readable while an event is queued, and only then. */
	assert_int_equal(state->fd, units->queued);
	assert_int_equal(units->missing, 0);
}

static void explore(struct budget budget)
{
	struct state first;
	struct model model = {
		.table = malloc(TABLE_SLOTS * sizeof(first)),
		.is_used = calloc(TABLE_SLOTS, sizeof(bool)),
		.queue = malloc(TABLE_SLOTS / 2 * sizeof(first)),
	};

	assert_true(model.table && model.is_used && model.queue);
	memset(&first, 0, sizeof(first));
	memset(first.signal, NOT_SIGNALED, sizeof(first.signal));
	first.left = budget;
	reach(&model, &first);
	while (model.next < model.count) {
		const struct state from = model.queue[model.next++];

		step_engine(&model, &from);
		step_signals(&model, &from);
		step_peer(&model, &from);
		step_destroyer(&model, &from);
		step_waiters(&model, &from);
		if (!is_quiet(&from))
			continue;
		model.quiet++;
		check_quiet(&from);
	}
	print_message("%u states, %u quiet ones\n", model.count, model.quiet);
	assert_true(model.quiet > 0);
	free(model.table);
	free(model.is_used);
	free(model.queue);
}

static void channel_units_without_peers_are_those_of_the_queue(void **state)
{
	(void)state;
	explore((struct budget){.events = 3, .removals = 2, .polls = 2});
}

static void channel_units_with_promises_wake_waiters(void **state)
{
	(void)state;
	explore((struct budget){.events = 1, .messages = 2, .removals = 1, .polls = 1});
}

static void channel_units_of_killed_peer_wake_waiters(void **state)
{
	(void)state;
	explore((struct budget){.events = 1, .messages = 2, .kills = 1, .removals = 1});
	explore((struct budget){.events = 2, .messages = 1, .kills = 1, .removals = 1, .polls = 1});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channel_units_without_peers_are_those_of_the_queue),
		cmocka_unit_test(channel_units_with_promises_wake_waiters),
		cmocka_unit_test(channel_units_of_killed_peer_wake_waiters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
