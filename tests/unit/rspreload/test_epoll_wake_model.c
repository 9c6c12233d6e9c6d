/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The protocol of rspreload/epoll_sleep.c as a model, in all interleavings: threads that wait in
 * the kernel for an epoll descriptor, and one thread that makes the set active. The stores of a
 * waiting thread stay in a store buffer for any time, and its loads do not wait for them (TSO). The
 * fence of barrier_threads() empties the buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define WAITERS	   2
#define WAITS	   2 /* each thread waits this often */
#define STATES_MAX (1u << 20)

enum waiter_step {
	WAITER_BEGIN,  /* stores its number */
	WAITER_CHECK,  /* loads whether the set is active */
	WAITER_ASLEEP, /* in the kernel */
	WAITER_LEAVE,  /* stores that it does not wait */
	WAITER_LOOK,   /* loads the wake-up descriptor that counts it */
	WAITER_TAKE,   /* exchanges it */
	WAITER_COUNT,  /* ends the count, with the lock */
	WAITER_DONE,
};

enum waker_step {
	WAKER_STORE, /* stores that the set is active, with the lock until the end */
	WAKER_FENCE,
	WAKER_MARK, /* for each waiter */
	WAKER_FENCE_AGAIN = WAKER_MARK + WAITERS,
	WAKER_TAKE_BACK, /* for each waiter */
	WAKER_ARM = WAKER_TAKE_BACK + WAITERS,
	WAKER_DONE,
};

/* One byte for each variable, so that states can be compared as memory. */
struct state {
	uint8_t waker;
	uint8_t is_active;
	uint8_t is_armed; /* the wake-up descriptor is readable */
	uint8_t is_open;  /* the wake-up descriptor is in the kernel's set */
	uint8_t sleepers;
	uint8_t step[WAITERS];
	uint8_t waits[WAITERS];
	uint8_t number[WAITERS]; /* as other threads read it */
	uint8_t buffer[WAITERS]; /* 0: empty, or 1 + the stored number */
	uint8_t wake[WAITERS];
};

/* What is left out of the protocol, so that the test shows that the model finds the fault. */
enum omission { OMITS_NOTHING, OMITS_FENCE, OMITS_FENCE_AGAIN, OMITS_TAKING_BACK };

static struct state seen[STATES_MAX];
static bool is_used[STATES_MAX];
static enum omission omission;
static unsigned faults, ends;

static bool is_new(const struct state *state)
{
	const uint8_t *bytes = (const uint8_t *)state;
	uint32_t at = 2166136261u;

	for (size_t i = 0; i < sizeof(*state); i++)
		at = (at ^ bytes[i]) * 16777619u;
	for (at %= STATES_MAX; is_used[at]; at = (at + 1) % STATES_MAX)
		if (!memcmp(&seen[at], state, sizeof(*state)))
			return false;
	is_used[at] = true;
	seen[at] = *state;
	return true;
}

static void flush(struct state *state, int waiter)
{
	if (state->buffer[waiter])
		state->number[waiter] = (uint8_t)(state->buffer[waiter] - 1);
	state->buffer[waiter] = 0;
}

static void flush_all(struct state *state)
{
	for (int i = 0; i < WAITERS; i++)
		flush(state, i);
}

/* A buffer has one entry: an older store leaves it first. */
static void store(struct state *state, int waiter, uint8_t number)
{
	flush(state, waiter);
	state->buffer[waiter] = (uint8_t)(1 + number);
}

static bool is_locked(const struct state *state)
{
	return state->waker > WAKER_STORE && state->waker < WAKER_DONE;
}

static void waiter_next(struct state *state, int i)
{
	state->waits[i]++;
	state->step[i] = state->waits[i] < WAITS ? WAITER_BEGIN : WAITER_DONE;
}

static void end_count(struct state *state)
{
	state->sleepers--;
	if (!state->sleepers)
		state->is_armed = state->is_open = 0;
}

/*
 * False: the waiter cannot go on. An event of another descriptor wakes it at any time if
 * `has_event`.
 */
static bool waiter_step(struct state *state, int i, bool has_event)
{
	switch ((enum waiter_step)state->step[i]) {
	case WAITER_BEGIN:
		store(state, i, 1);
		state->step[i] = WAITER_CHECK;
		return true;
	case WAITER_CHECK:
		state->step[i] = state->is_active ? WAITER_LEAVE : WAITER_ASLEEP;
		return true;
	case WAITER_ASLEEP:
		/* The system call empties the buffer. */
		flush(state, i);
		state->step[i] = WAITER_LEAVE;
		return has_event || state->is_armed;
	case WAITER_LEAVE:
		store(state, i, 0);
		state->step[i] = WAITER_LOOK;
		return true;
	case WAITER_LOOK:
		if (state->wake[i])
			state->step[i] = WAITER_TAKE;
		else
			waiter_next(state, i);
		return true;
	case WAITER_TAKE:
		flush(state, i);
		state->step[i] = WAITER_COUNT;
		if (!state->wake[i])
			waiter_next(state, i);
		state->wake[i] = 0;
		return true;
	case WAITER_COUNT:
		if (is_locked(state))
			return false;
		end_count(state);
		waiter_next(state, i);
		return true;
	case WAITER_DONE:
		break;
	}
	return false;
}

static void waker_mark(struct state *state, int i)
{
	if (!state->number[i])
		return;
	state->sleepers++;
	state->wake[i] = 1;
}

static void waker_take_back(struct state *state, int i)
{
	if (state->number[i] || !state->wake[i] || omission == OMITS_TAKING_BACK)
		return;
	state->wake[i] = 0;
	state->sleepers--;
}

static bool waker_step(struct state *state)
{
	int step = state->waker;

	if (step == WAKER_DONE)
		return false;
	if (step == WAKER_STORE)
		state->is_active = state->is_open = 1;
	else if (step == WAKER_FENCE && omission != OMITS_FENCE)
		flush_all(state);
	else if (step >= WAKER_MARK && step < WAKER_FENCE_AGAIN)
		waker_mark(state, step - WAKER_MARK);
	else if (step == WAKER_FENCE_AGAIN && omission != OMITS_FENCE_AGAIN)
		flush_all(state);
	else if (step >= WAKER_TAKE_BACK && step < WAKER_ARM)
		waker_take_back(state, step - WAKER_TAKE_BACK);
	else if (step == WAKER_ARM)
		state->is_armed = state->is_open = state->sleepers > 0;
	state->waker++;
	return true;
}

/*
 * At the end no thread sleeps, although the set is active, and the wake-up descriptor has left the
 * kernel's set.
 */
static bool is_good_end(const struct state *state)
{
	for (int i = 0; i < WAITERS; i++)
		if (state->step[i] == WAITER_ASLEEP)
			return false;
	return !state->is_open && !state->sleepers;
}

static void explore(const struct state *state)
{
	bool goes_on = false;
	struct state next;

	if (!is_new(state))
		return;
	if (state->sleepers > WAITERS)
		faults++;
	for (int i = 0; i < WAITERS; i++) {
		next = *state;
		if (waiter_step(&next, i, false)) {
			goes_on = true;
			explore(&next);
		}
		next = *state;
		if (next.buffer[i]) {
			flush(&next, i);
			goes_on = true;
			explore(&next);
		}
	}
	next = *state;
	if (waker_step(&next)) {
		goes_on = true;
		explore(&next);
	}
	if (!goes_on) {
		ends++;
		faults += !is_good_end(state);
	}
	/* Events of other descriptors are not necessary for the progress. */
	for (int i = 0; i < WAITERS; i++) {
		next = *state;
		if (state->step[i] == WAITER_ASLEEP && waiter_step(&next, i, true))
			explore(&next);
	}
}

static unsigned faults_of(enum omission omitted)
{
	const struct state start = {0};

	memset(is_used, 0, sizeof(is_used));
	omission = omitted;
	faults = ends = 0;
	explore(&start);
	assert_true(ends > 0);
	return faults;
}

static void epoll_wake_all_in_any_interleaving_leaves_no_thread_asleep(void **arg)
{
	(void)arg;
	assert_int_equal(faults_of(OMITS_NOTHING), 0);
}

static void epoll_wake_all_without_one_step_has_faults(void **arg)
{
	(void)arg;
	assert_true(faults_of(OMITS_FENCE) > 0);
	assert_true(faults_of(OMITS_FENCE_AGAIN) > 0);
	assert_true(faults_of(OMITS_TAKING_BACK) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epoll_wake_all_in_any_interleaving_leaves_no_thread_asleep),
		cmocka_unit_test(epoll_wake_all_without_one_step_has_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
