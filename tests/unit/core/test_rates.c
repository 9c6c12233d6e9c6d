/* SPDX-License-Identifier: BSD-2-Clause */

/* Static rates: the conversions are each other's inverses, and say so when there is no answer. */

#include <infiniband/verbs.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RATE_LAST IBV_RATE_1200_GBPS

static void multiples_come_back(void **state)
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

static void megabits_come_back(void **state)
{
	int rate;

	(void)state;
	for (rate = IBV_RATE_2_5_GBPS; rate <= RATE_LAST; rate++)
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps((enum ibv_rate)rate)), rate);
}

/* Where both exist they agree within the encoding's rounding: 64b/66b lanes run 3 to 7 % above. */
static void both_units_agree(void **state)
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

static void what_is_no_rate_has_no_number(void **state)
{
	const int strangers[] = {INT_MIN, -1, IBV_RATE_MAX, 1, RATE_LAST + 1, 255, INT_MAX};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		assert_int_equal(ibv_rate_to_mult((enum ibv_rate)strangers[i]), -1);
		assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)strangers[i]), -1);
	}
}

static void what_is_no_number_has_no_rate(void **state)
{
	const int strangers[] = {INT_MIN, -1, 0, 3, 481, 2499, INT_MAX};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		assert_int_equal(mult_to_ibv_rate(strangers[i]), IBV_RATE_MAX);
		assert_int_equal(mbps_to_ibv_rate(strangers[i]), IBV_RATE_MAX);
	}
}

static void known_pairs(void **state)
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
		cmocka_unit_test(multiples_come_back),
		cmocka_unit_test(megabits_come_back),
		cmocka_unit_test(both_units_agree),
		cmocka_unit_test(what_is_no_rate_has_no_number),
		cmocka_unit_test(what_is_no_number_has_no_rate),
		cmocka_unit_test(known_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
