/* SPDX-License-Identifier: BSD-2-Clause */

/* Static rates: the conversions are inverse functions, and unknown values give the error value. */

#include <infiniband/verbs.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RATE_LAST IBV_RATE_1200_GBPS

static void ibv_rate_to_mult_reverses_mult_to_ibv_rate(void **state)
{
	int rate, mult, known = 0;

	(void)state;
	for (rate = IBV_RATE_2_5_GBPS; rate <= RATE_LAST; rate++) {
		mult = ibv_rate_to_mult((enum ibv_rate)rate);
		if (mult == -1)
			continue;
		assert_int_equal(mult_to_ibv_rate(mult), rate);
		known++;
	}
	assert_int_equal(known, 15);
}

static void ibv_rate_to_mbps_reverses_mbps_to_ibv_rate(void **state)
{
	int rate;

	(void)state;
	for (rate = IBV_RATE_2_5_GBPS; rate <= RATE_LAST; rate++)
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps((enum ibv_rate)rate)), rate);
}

/* Values in both units agree within the encoding's rounding: 64b/66b lanes are 3 to 7 % faster. */
static void ibv_rate_to_mbps_agrees_with_rate_to_mult(void **state)
{
	int rate, mult, mbps;

	(void)state;
	for (rate = IBV_RATE_2_5_GBPS; rate <= RATE_LAST; rate++) {
		mult = ibv_rate_to_mult((enum ibv_rate)rate);
		mbps = ibv_rate_to_mbps((enum ibv_rate)rate);
		if (mult == -1)
			continue;
		assert_in_range(mbps, 2500 * mult, 2500 * mult + 2500 * mult / 14);
	}
}

static void ibv_rate_to_mult_invalid_rate_fails(void **state)
{
	const int strangers[] = {INT_MIN, -1, IBV_RATE_MAX, 1, RATE_LAST + 1, 255, INT_MAX};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		assert_int_equal(ibv_rate_to_mult((enum ibv_rate)strangers[i]), -1);
		assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)strangers[i]), -1);
	}
}

static void mult_to_ibv_rate_unknown_number_is_max(void **state)
{
	const int strangers[] = {INT_MIN, -1, 0, 3, 481, 2499, INT_MAX};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		assert_int_equal(mult_to_ibv_rate(strangers[i]), IBV_RATE_MAX);
		assert_int_equal(mbps_to_ibv_rate(strangers[i]), IBV_RATE_MAX);
	}
}

static void ibv_rate_to_mbps_known_rates_are_right(void **state)
{
	(void)state;
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_5_GBPS), 2);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_120_GBPS), 48);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_25_GBPS), 25781);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_25_GBPS), -1);
	assert_int_equal(mbps_to_ibv_rate(1275000), IBV_RATE_1200_GBPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_rate_to_mult_reverses_mult_to_ibv_rate),
		cmocka_unit_test(ibv_rate_to_mbps_reverses_mbps_to_ibv_rate),
		cmocka_unit_test(ibv_rate_to_mbps_agrees_with_rate_to_mult),
		cmocka_unit_test(ibv_rate_to_mult_invalid_rate_fails),
		cmocka_unit_test(mult_to_ibv_rate_unknown_number_is_max),
		cmocka_unit_test(ibv_rate_to_mbps_known_rates_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
