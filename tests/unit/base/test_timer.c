/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT 200

static struct timer_heap heap;
static uint64_t last_fired_ns;
static int fired;

static void on_fire(struct timer *timer, uint64_t now_ns)
{
	assert_false(timer->is_pending);
	assert_true(timer->deadline_ns <= now_ns);
	assert_true(timer->deadline_ns >= last_fired_ns);
	last_fired_ns = timer->deadline_ns;
	fired++;
}

static void on_fire_again_now(struct timer *timer, uint64_t now_ns)
{
	fired++;
	timer_add(&heap, timer, now_ns - 1);
}

static struct timer *victim;

static void on_fire_cancel_other(struct timer *timer, uint64_t now_ns)
{
	(void)timer;
	(void)now_ns;
	fired++;
	timer_cancel(&heap, victim);
}

static int setup(void **state)
{
	(void)state;
	timer_heap_init(&heap);
	fired = 0;
	last_fired_ns = 0;
	return 0;
}

/* Random additions, moves, cancellations and expiries, compared with a linear scan. */
static void timer_random_operations_match_linear_scan(void **state)
{
	static struct timer timers[COUNT];
	uint64_t now_ns = 1;
	unsigned seed = 20260101;

	(void)state;
	for (int i = 0; i < COUNT; i++)
		timer_init(&timers[i], on_fire);
	for (int step = 0; step < 20000; step++) {
		struct timer *timer = &timers[rand_r(&seed) % COUNT];
		uint64_t nearest_ns = TIMER_NEVER_NS;
		unsigned due = 0;

		if (rand_r(&seed) % 4)
			timer_add(&heap, timer, now_ns + (unsigned)rand_r(&seed) % 1000);
		else
			timer_cancel(&heap, timer);
		now_ns += (unsigned)rand_r(&seed) % 8;
		for (int i = 0; i < COUNT; i++) {
			if (!timers[i].is_pending)
				continue;
			if (timers[i].deadline_ns < nearest_ns)
				nearest_ns = timers[i].deadline_ns;
			due += timers[i].deadline_ns <= now_ns;
		}
		assert_int_equal(timer_next_deadline(&heap), nearest_ns);
		last_fired_ns = 0;
		assert_int_equal(timer_expire(&heap, now_ns), due);
	}
	assert_true(fired > 1000);
}

static void timer_expire_empty_heap_does_nothing(void **state)
{
	struct timer timer;

	(void)state;
	timer_init(&timer, on_fire);
	assert_int_equal(timer_next_deadline(&heap), TIMER_NEVER_NS);
	assert_int_equal(timer_expire(&heap, 100), 0);
	timer_cancel(&heap, &timer);
	timer_add(&heap, &timer, 5);
	timer_cancel(&heap, &timer);
	timer_cancel(&heap, &timer);
	assert_int_equal(timer_expire(&heap, 100), 0);
}

static void timer_expire_rearmed_in_past_terminates(void **state)
{
	struct timer timer;

	(void)state;
	timer_init(&timer, on_fire_again_now);
	timer_add(&heap, &timer, 10);
	assert_int_equal(timer_expire(&heap, 20), 1);
	assert_true(timer.is_pending);
	assert_int_equal(timer_next_deadline(&heap), 21);
	assert_int_equal(timer_expire(&heap, 21), 1);
	assert_int_equal(fired, 2);
}

static void timer_expire_callback_may_cancel_another_timer(void **state)
{
	struct timer a, b;

	(void)state;
	timer_init(&a, on_fire_cancel_other);
	timer_init(&b, on_fire);
	victim = &b;
	timer_add(&heap, &a, 1);
	timer_add(&heap, &b, 2);
	assert_int_equal(timer_expire(&heap, 10), 1);
	assert_int_equal(timer_next_deadline(&heap), TIMER_NEVER_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(timer_random_operations_match_linear_scan, setup),
		cmocka_unit_test_setup(timer_expire_empty_heap_does_nothing, setup),
		cmocka_unit_test_setup(timer_expire_rearmed_in_past_terminates, setup),
		cmocka_unit_test_setup(timer_expire_callback_may_cancel_another_timer, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
