/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void clock_now_ns_successive_calls_never_decrease(void **state)
{
	uint64_t last = clock_now_ns();

	(void)state;
	assert_true(last > 0);
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_now_ns();

		assert_true(now >= last);
		last = now;
	}
}

static void clock_left_ms_rounds_up_and_is_limited(void **state)
{
	(void)state;
	assert_int_equal(clock_left_ms(5, 5), 0);
	assert_int_equal(clock_left_ms(CLOCK_NS_PER_S, 1), 0);
	assert_int_equal(clock_left_ms(0, 1), 1);
	assert_int_equal(clock_left_ms(0, CLOCK_NS_PER_MS), 1);
	assert_int_equal(clock_left_ms(0, CLOCK_NS_PER_MS + 1), 2);
	assert_int_equal(clock_left_ms(0, INT_MAX * CLOCK_NS_PER_MS), INT_MAX);
	assert_int_equal(clock_left_ms(0, UINT64_MAX), INT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock_left_ms_rounds_up_and_is_limited),
		cmocka_unit_test(clock_now_ns_successive_calls_never_decrease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
