/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of core/engine/progress.h give the same results as the variables that the table has
 * replaced (ADR 0081), in all sequences of events with up to MAX_OF_EACH threads and channels of
 * each kind. `struct flags` has these variables. DIFFERS marks where the table differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/engine/progress.h"

#define MAX_OF_EACH 2
#define STATES_MAX  (1u << 16)
#define TABLE_SLOTS (1u << 18)

struct flags {
	bool has_thread, is_over, is_polled, is_on, external_spins, is_thread_away, is_parked;
};

/* What is compared after each event. */
struct result {
	bool wakes, stops, requests, ends_wakes;
	enum progress_wait wait;
};

/* Compared as bytes. */
struct both {
	struct flags old;
	struct progress_now now;
	uint8_t spins; /* threads between progress_serve_spin_begins() and _ends() */
	bool has_shards;
};

/* What the engine thread finds at the end of a turn. */
struct finds {
	bool has_polled;
	bool is_new, is_past;
	bool was_unchecked, is_unchecked; /* promises, before and after direct_wake_look() */
};

enum event {
	STARTS,
	POLLS_LONG,
	WILL_BLOCK,
	ENTERS,
	LEAVES,
	SPIN_BEGINS,
	SPIN_ENDS,
	LONE_BEGINS,
	LONE_ENDS,
	CHANNEL_ON,
	CHANNEL_OFF,
	CHANNEL_ENDS,
	WAIT_BEGINS,
	WAIT_ENDS,
	PROMISED,
	SHARDS,
	LOST,
	EVENTS
};

static bool old_may_serve(const struct flags *old)
{
	return old->has_thread && !old->is_polled && !old->is_over;
}

static bool may_spin_alone(const struct both *both)
{
	return progress_waits_for_one_channel(&both->now) && !both->has_shards;
}

/* Whether the event can happen, by the conditions of its callers. */
static bool can_happen(const struct both *both, enum event event)
{
	const struct progress_now *now = &both->now;

	switch (event) {
	case STARTS:
		return !both->old.has_thread;
	case ENTERS:
		return old_may_serve(&both->old) && now->servers < MAX_OF_EACH;
	case LEAVES:
		return now->servers;
	case SPIN_BEGINS:
		return old_may_serve(&both->old) && !progress_has_external(now) &&
		       both->spins < MAX_OF_EACH;
	case SPIN_ENDS:
		return both->spins;
	case LONE_BEGINS:
		return old_may_serve(&both->old) && may_spin_alone(both);
	case LONE_ENDS:
		return old_may_serve(&both->old);
	case CHANNEL_ON:
		return now->external_channels < MAX_OF_EACH;
	case CHANNEL_OFF:
	case CHANNEL_ENDS:
		return now->external_channels;
	case WAIT_BEGINS:
		return now->external_waits < MAX_OF_EACH;
	case WAIT_ENDS:
		return now->external_waits;
	case PROMISED:
		return both->old.has_thread;
	default:
		return true;
	}
}

static void old_lone_begins(struct flags *old, struct result *result)
{
	result->stops = true;
	old->external_spins = true;
	result->wakes = !old->is_thread_away && !old->is_on;
	old->is_parked = false; /* DIFFERS: the last thread that served has woken the thread */
}

/* The numbers have their values after the event. */
static struct result old_event(struct flags *old, const struct progress_now *now, enum event event)
{
	struct result result = {0};

	switch (event) {
	case STARTS:
		old->has_thread = true;
		break;
	case POLLS_LONG:
		if (old->is_polled || !old->has_thread)
			break;
		old->is_polled = result.stops = result.wakes = true;
		old->external_spins = false; /* DIFFERS */
		old->is_parked = false;	     /* DIFFERS */
		break;
	case WILL_BLOCK:
		result.requests = old->is_polled;
		old->is_polled = false;
		break;
	case ENTERS:
		old->external_spins = false;
		result.wakes = !old->is_thread_away;
		break;
	case LEAVES:
		result.wakes = old->is_parked || !old->is_thread_away ||
			       (!now->servers && progress_has_external(now));
		break;
	case SPIN_BEGINS:
		result.wakes = !old->is_thread_away;
		break;
	case SPIN_ENDS:
		result.wakes = old->is_parked;
		break;
	case LONE_BEGINS:
		old_lone_begins(old, &result);
		break;
	case LONE_ENDS:
		result.wakes = old->external_spins && old->is_thread_away;
		old->external_spins = false;
		break;
	case CHANNEL_ON:
	case CHANNEL_OFF:
		old->external_spins = false;
		break;
	case WAIT_BEGINS:
		old->external_spins = false;
		result.wakes = old->is_thread_away;
		break;
	case PROMISED:
		result.wakes = !old->is_on;
		break;
	case LOST:
		old->is_over = true;
		break;
	default:
		break;
	}
	return result;
}

static bool old_wakes_end(struct flags *old, const struct finds *finds, struct result *result)
{
	result->ends_wakes = old->is_on || finds->was_unchecked;
	old->is_on = false;
	return result->ends_wakes;
}

static enum progress_wait old_wake_rest(struct flags *old, const struct finds *finds,
					struct result *result)
{
	if (!finds->is_new && !old->is_on && !finds->was_unchecked)
		return PROGRESS_WAIT_ALL;
	if (finds->is_new) {
		old->is_on = true;
	} else if (finds->is_past && !finds->is_unchecked) {
		if (!old->is_on)
			return PROGRESS_WAIT_ALL; /* DIFFERS: it was PROGRESS_WAIT_AGAIN */
		old->is_on = false;
		result->ends_wakes = true;
		return PROGRESS_WAIT_AGAIN;
	}
	return PROGRESS_WAIT_ALL_TICK;
}

static struct result old_turn(const struct both *from, struct flags *old, const struct finds *finds)
{
	const struct progress_now *now = &from->now;
	bool is_changed = now->has_changed;
	struct result result = {0};
	bool spins;

	if (old->is_polled && finds->has_polled) {
		old_wakes_end(old, finds, &result);
		result.wait = PROGRESS_WAIT_OWN_TICK;
		return result;
	}
	old->is_polled = false;
	if (!is_changed)
		old->external_spins = false;
	spins = old->external_spins && may_spin_alone(from) && !old->is_on;
	old->is_parked = now->servers && !is_changed;
	old->is_thread_away = now->servers ||
			      (is_changed && (!progress_has_external(now) || spins));
	if (!old->is_thread_away) {
		if (!spins && !(old->is_on && may_spin_alone(from)))
			old->external_spins = false; /* DIFFERS */
		result.wait = old_wake_rest(old, finds, &result);
	} else if (old_wakes_end(old, finds, &result)) {
		result.wait = PROGRESS_WAIT_AGAIN;
	} else {
		result.wait = old->is_parked ? PROGRESS_WAIT_PARKED : PROGRESS_WAIT_OWN_TICK;
	}
	return result;
}

static struct progress_cell now_event(struct both *both, enum event event)
{
	struct progress_now *now = &both->now;

	switch (event) {
	case STARTS:
		return progress_thread_starts(now);
	case POLLS_LONG:
		return progress_polls_long(now);
	case WILL_BLOCK:
		return progress_will_block(now);
	case ENTERS:
		return progress_server_enters(now);
	case LEAVES:
		return progress_server_leaves(now);
	case SPIN_BEGINS:
		both->spins++;
		return progress_serve_spin_begins(now);
	case SPIN_ENDS:
		both->spins--;
		return progress_serve_spin_ends(now);
	case LONE_BEGINS:
		return progress_lone_spin_begins(now);
	case LONE_ENDS:
		return progress_lone_spin_ends(now);
	case CHANNEL_ON:
		return progress_channel_changes(now, true);
	case CHANNEL_OFF:
		return progress_channel_changes(now, false);
	case WAIT_BEGINS:
		return progress_wait_begins(now);
	case PROMISED:
		return progress_unit_promised(now);
	case LOST:
		return progress_daemon_lost(now);
	case CHANNEL_ENDS:
		progress_channel_ends(now);
		break;
	case WAIT_ENDS:
		progress_wait_ends(now);
		break;
	default:
		both->has_shards = true;
		break;
	}
	return (struct progress_cell){.next = (unsigned char)progress_state(now)};
}

/* As direct_wake_look() and direct_wake_check(). */
static enum progress_input answer(enum progress_state state, unsigned int actions,
				  const struct finds *finds)
{
	if (actions & PROGRESS_DO_CHECK)
		return finds->was_unchecked ? PROGRESS_IN_WAKES_PENDING : PROGRESS_IN_WAKES_OVER;
	if (finds->is_new)
		return PROGRESS_IN_WAKES_NEW;
	if (!progress_has_wakes(state) && !finds->was_unchecked)
		return PROGRESS_IN_WAKES_OVER;
	return finds->is_past && !finds->is_unchecked ? PROGRESS_IN_WAKES_OVER :
							PROGRESS_IN_WAKES_PENDING;
}

static struct progress_cell now_turn(struct both *both, const struct finds *finds)
{
	struct progress_now *now = &both->now;
	struct progress_cell cell;

	if (progress_is_polled(progress_state(now)) && finds->has_polled) {
		cell = progress_tick_polled(now);
	} else {
		if (progress_is_polled(progress_state(now)))
			cell = progress_tick_unpolled(now);
		cell = progress_turn_ends(now, !both->has_shards);
	}
	assert_false(cell.actions & PROGRESS_DO_NEVER);
	if (cell.actions & (PROGRESS_DO_LOOK | PROGRESS_DO_CHECK))
		cell = progress_wakes(now, answer(progress_state(now), cell.actions, finds));
	return cell;
}

static void compare(const struct both *both, struct result old, struct progress_cell cell)
{
	enum progress_state state = progress_state(&both->now);
	const struct flags *flags = &both->old;

	assert_false(cell.actions & PROGRESS_DO_NEVER);
	assert_int_equal(progress_may_serve(state), old_may_serve(flags));
	if (flags->is_over)
		return;
	assert_int_equal(old.wakes, !!(cell.actions & PROGRESS_DO_WAKE_THREAD));
	assert_int_equal(old.stops, !!(cell.actions & PROGRESS_DO_STOP_DOORBELLS));
	assert_int_equal(old.requests, !!(cell.actions & PROGRESS_DO_REQUEST_DOORBELLS));
	assert_int_equal(old.ends_wakes, !!(cell.actions & PROGRESS_DO_END_WAKES));
	assert_int_equal(old.wait, cell.wait);
	assert_int_equal(flags->is_polled, progress_is_polled(state));
	assert_int_equal(flags->is_on, progress_has_wakes(state));
	assert_int_equal(flags->external_spins, progress_spins_alone(state));
	assert_int_equal(flags->has_thread && !flags->is_polled && !flags->is_thread_away,
			 progress_thread_waits(state));
	if (flags->is_thread_away && !flags->is_polled)
		assert_int_equal(flags->is_parked, state == PROGRESS_PARKED);
}

static struct both queue[STATES_MAX];
static uint32_t slots[TABLE_SLOTS]; /* 1 + position in the queue */
static uint32_t count;

static void reach(const struct both *both)
{
	const uint8_t *bytes = (const uint8_t *)both;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof(*both); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	for (hash %= TABLE_SLOTS; slots[hash]; hash = (hash + 1) % TABLE_SLOTS) {
		if (!memcmp(&queue[slots[hash] - 1], both, sizeof(*both)))
			return;
	}
	assert_true(count < STATES_MAX);
	queue[count] = *both;
	slots[hash] = ++count;
}

static void step_turns(const struct both *from)
{
	for (unsigned int bits = 0; bits < 32; bits++) {
		const struct finds finds = {.has_polled = bits & 1,
					    .is_new = bits & 2,
					    .is_past = bits & 4,
					    .was_unchecked = bits & 8,
					    .is_unchecked = bits & 8 && bits & 16};
		struct both to = *from;
		struct result old = old_turn(from, &to.old, &finds);

		compare(&to, old, now_turn(&to, &finds));
		reach(&to);
	}
}

/* After the end of the engine: the calls that have begun before, and new ones. */
static void step_events(const struct both *from)
{
	for (unsigned int event = 0; event < EVENTS; event++) {
		struct both to = *from;
		struct progress_cell cell;

		if (!can_happen(from, (enum event)event))
			continue;
		cell = now_event(&to, (enum event)event);
		compare(&to, old_event(&to.old, &to.now, (enum event)event), cell);
		if (!from->old.is_over)
			reach(&to);
	}
}

static void progress_functions_equal_variables_in_all_sequences(void **test)
{
	struct both first;

	(void)test;
	memset(&first, 0, sizeof(first));
	reach(&first);
	for (uint32_t next = 0; next < count; next++) {
		const struct both *from = &queue[next];

		step_events(from);
		if (from->old.has_thread && !from->old.is_over)
			step_turns(from);
	}
	assert_true(count > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_functions_equal_variables_in_all_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
