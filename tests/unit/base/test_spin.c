/* SPDX-License-Identifier: BSD-2-Clause */

/* How long a thread polls before it sleeps. */

#include "base/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

#define LONG_US	    (SPIN_NS / CLOCK_NS_PER_US)
#define LEAST_US    10
#define SHORT_WAITS 4

static const uint64_t origin_ns = 1000 * CLOCK_NS_PER_S;

/* Polls without success; returns the time until spin_continue() ends it. */
static uint64_t spun_us(void)
{
	struct spin spin;
	uint64_t us = 0;

	assert_true(spin_begin(&spin, origin_ns, LEAST_US * CLOCK_NS_PER_US, SHORT_WAITS));
	while (spin_continue(&spin, origin_ns + us * CLOCK_NS_PER_US))
		us++;
	return us;
}

static void succeed(void)
{
	struct spin spin;

	assert_true(spin_begin(&spin, origin_ns, LEAST_US * CLOCK_NS_PER_US, SHORT_WAITS));
	assert_true(spin_continue(&spin, origin_ns + CLOCK_NS_PER_US));
	spin_succeed(&spin);
}

static void spin_without_success_seldom_polls_longer(void **state)
{
	static const unsigned int short_waits[] = {1, 2, 4, 4, 4};

	(void)state;
	for (size_t i = 0; i < sizeof(short_waits) / sizeof(*short_waits); i++) {
		assert_int_equal(spun_us(), LONG_US);
		for (unsigned int k = 0; k < short_waits[i]; k++)
			assert_int_equal(spun_us(), LEAST_US);
	}
}

static void spin_after_success_polls_longer(void **state)
{
	(void)state;
	while (spun_us() != LONG_US)
		;
	for (int i = 0; i < 4; i++)
		assert_int_equal(spun_us(), LEAST_US);
	for (int i = 0; i < 10; i++)
		succeed();
	assert_int_equal(spun_us(), LONG_US);
	assert_int_equal(spun_us(), LEAST_US);
	assert_int_equal(spun_us(), LONG_US);
}

/* Without a least time, a short wait does not poll at all. */
static void spin_begin_short_wait_without_least_time_does_not_poll(void **state)
{
	struct spin spin;

	(void)state;
	while (!spin_begin(&spin, origin_ns, 0, SHORT_WAITS))
		;
	assert_false(spin_continue(&spin, origin_ns + SPIN_NS));
	assert_false(spin_begin(&spin, origin_ns, 0, SHORT_WAITS));
	/* A longer least time is not prolonged. */
	assert_true(spin_begin(&spin, origin_ns, 3 * SPIN_NS, SHORT_WAITS));
	assert_true(spin_continue(&spin, origin_ns + 3 * SPIN_NS - 1));
	assert_false(spin_continue(&spin, origin_ns + 3 * SPIN_NS));
}

static void spin_lengthen_changes_long_wait_only(void **state)
{
	struct spin spin;

	(void)state;
	while (!spin_begin(&spin, origin_ns, 0, SHORT_WAITS))
		;
	spin_lengthen(&spin, 2 * SPIN_NS);
	assert_true(spin_continue(&spin, origin_ns + 2 * SPIN_NS - 1));
	assert_false(spin_continue(&spin, origin_ns + 2 * SPIN_NS));
	assert_true(spin_begin(&spin, origin_ns, LEAST_US * CLOCK_NS_PER_US, SHORT_WAITS));
	spin_lengthen(&spin, 2 * SPIN_NS);
	assert_false(spin_continue(&spin, origin_ns + LEAST_US * CLOCK_NS_PER_US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spin_without_success_seldom_polls_longer),
		cmocka_unit_test(spin_after_success_polls_longer),
		cmocka_unit_test(spin_begin_short_wait_without_least_time_does_not_poll),
		cmocka_unit_test(spin_lengthen_changes_long_wait_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
