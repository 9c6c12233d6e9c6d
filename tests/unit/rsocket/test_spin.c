/* SPDX-License-Identifier: BSD-2-Clause */

/* How long a call polls before its thread sleeps. The configured time is the default, 10 us. */

#include "rsocket/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rsocket/config.h"

#define LONG_US 80

static const uint64_t origin_ns = 1000 * CLOCK_NS_PER_S;

/* Polls without success; returns the time until spin_continue() ends it. */
static uint64_t spun_us(void)
{
	struct spin spin;
	uint64_t us = 0;

	spin_begin(&spin, origin_ns);
	while (spin_continue(&spin, origin_ns + us * CLOCK_NS_PER_US))
		us++;
	return us;
}

static void succeed(void)
{
	struct spin spin;

	spin_begin(&spin, origin_ns);
	assert_true(spin_continue(&spin, origin_ns + CLOCK_NS_PER_US));
	spin_succeed(&spin);
}

static void spin_without_success_seldom_polls_longer(void **state)
{
	static const unsigned int short_waits[] = {1, 2, 4, 4, 4};
	uint64_t least_us = rsock_config()->polling_us;

	(void)state;
	assert_true(least_us < LONG_US);
	for (size_t i = 0; i < sizeof(short_waits) / sizeof(*short_waits); i++) {
		assert_int_equal(spun_us(), LONG_US);
		for (unsigned int k = 0; k < short_waits[i]; k++)
			assert_int_equal(spun_us(), least_us);
	}
}

static void spin_after_success_polls_longer(void **state)
{
	(void)state;
	while (spun_us() != LONG_US)
		;
	for (int i = 0; i < 4; i++)
		assert_int_equal(spun_us(), rsock_config()->polling_us);
	for (int i = 0; i < 10; i++)
		succeed();
	assert_int_equal(spun_us(), LONG_US);
	assert_int_equal(spun_us(), rsock_config()->polling_us);
	assert_int_equal(spun_us(), LONG_US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spin_without_success_seldom_polls_longer),
		cmocka_unit_test(spin_after_success_polls_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
