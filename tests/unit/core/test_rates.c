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

/*
 * The values of rdma-core. In Mbit/s a rate is the number of lanes times 2500, 5000, 10000,
 * 14062.5, 25781.25, 53125 or 106250. Multiples exist for the rates of IBA 1.x §9.11 up to 120
 * Gbit/s and for those after 300 Gbit/s, not for those between.
 */
static void ibv_rate_to_mbps_known_rates_are_right(void **state)
{
	static const struct {
		enum ibv_rate rate;
		int mult, mbps;
	} known[] = {{IBV_RATE_2_5_GBPS, 1, 2500},	{IBV_RATE_5_GBPS, 2, 5000},
		     {IBV_RATE_10_GBPS, 4, 10000},	{IBV_RATE_20_GBPS, 8, 20000},
		     {IBV_RATE_30_GBPS, 12, 30000},	{IBV_RATE_40_GBPS, 16, 40000},
		     {IBV_RATE_60_GBPS, 24, 60000},	{IBV_RATE_80_GBPS, 32, 80000},
		     {IBV_RATE_120_GBPS, 48, 120000},	{IBV_RATE_14_GBPS, -1, 14062},
		     {IBV_RATE_56_GBPS, -1, 56250},	{IBV_RATE_112_GBPS, -1, 112500},
		     {IBV_RATE_168_GBPS, -1, 168750},	{IBV_RATE_25_GBPS, -1, 25781},
		     {IBV_RATE_100_GBPS, -1, 103125},	{IBV_RATE_200_GBPS, -1, 206250},
		     {IBV_RATE_300_GBPS, -1, 309375},	{IBV_RATE_28_GBPS, 11, 28125},
		     {IBV_RATE_50_GBPS, 20, 53125},	{IBV_RATE_400_GBPS, 160, 425000},
		     {IBV_RATE_600_GBPS, 240, 637500},	{IBV_RATE_800_GBPS, 320, 850000},
		     {IBV_RATE_1200_GBPS, 480, 1275000}};

	(void)state;
	assert_int_equal(sizeof(known) / sizeof(known[0]), RATE_LAST - IBV_RATE_2_5_GBPS + 1);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(ibv_rate_to_mult(known[i].rate), known[i].mult);
		assert_int_equal(ibv_rate_to_mbps(known[i].rate), known[i].mbps);
		assert_int_equal(mbps_to_ibv_rate(known[i].mbps), known[i].rate);
	}
	/* Nominal rates are not rates of the API. */
	assert_int_equal(mbps_to_ibv_rate(25000), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(100000), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(10), IBV_RATE_MAX);
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
