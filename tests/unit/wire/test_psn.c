/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of 24-bit sequence numbers, at all boundaries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/psn.h"

static const uint32_t psns[] = {
	0, 1, 2, 0x7ffffe, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff, 0x123456, 0xabcdef,
};
#define PSNS (sizeof(psns) / sizeof(psns[0]))

static void psn_add_stays_within_24_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < PSNS; i++) {
		for (size_t j = 0; j < PSNS; j++) {
			assert_true(psn_add(psns[i], psns[j]) <= PSN_MASK);
			assert_true(psn_sub(psns[i], psns[j]) <= PSN_MASK);
			assert_int_equal(psn_sub(psn_add(psns[i], psns[j]), psns[j]), psns[i]);
		}
		assert_int_equal(psn_prev(psn_next(psns[i])), psns[i]);
		assert_int_equal(psn_add(psns[i], 1u << PSN_BITS), psns[i]);
		assert_int_equal(psn_add(psns[i], (uint32_t)-1), psn_prev(psns[i]));
	}
	assert_int_equal(psn_next(0xffffff), 0);
	assert_int_equal(psn_prev(0), 0xffffff);
}

static void psn_diff_reverses_add(void **state)
{
	static const int32_t steps[] = {0, 1, -1, 127, -128, 0x7fffff, -0x800000, -0x7fffff};

	(void)state;
	for (size_t i = 0; i < PSNS; i++) {
		for (size_t j = 0; j < sizeof(steps) / sizeof(steps[0]); j++)
			assert_int_equal(psn_diff(psn_add(psns[i], (uint32_t)steps[j]), psns[i]),
					 steps[j]);
	}
}

static void psn_is_before_follows_difference(void **state)
{
	(void)state;
	for (size_t i = 0; i < PSNS; i++) {
		for (size_t j = 0; j < PSNS; j++) {
			uint32_t a = psns[i], b = psns[j];

			assert_int_equal(psn_is_before(a, b) + psn_is_after(a, b) + (a == b), 1);
			/*
			 * At half of the range each number precedes the other; below that the order
			 * is antisymmetric.
			 */
			if (psn_sub(a, b) != PSN_HALF)
				assert_int_equal(psn_is_before(a, b), psn_is_after(b, a));
			/* The order is invariant under translation. */
			assert_int_equal(psn_is_before(a, b),
					 psn_is_before(psn_add(a, 0xfedcba), psn_add(b, 0xfedcba)));
		}
		assert_true(psn_is_before(psns[i], psn_next(psns[i])));
		assert_true(psn_is_after(psn_add(psns[i], 0x7fffff), psns[i]));
		assert_true(psn_is_before(psn_add(psns[i], 0x800000), psns[i]));
	}
}

static void psn_is_in_interval_is_half_open(void **state)
{
	static const uint32_t lengths[] = {1, 2, 128, 0x800000, 0x900000, 0xffffff};

	(void)state;
	for (size_t i = 0; i < PSNS; i++) {
		assert_false(psn_is_in(psns[i], psns[i], psns[i]));
		for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
			uint32_t end = psn_add(psns[i], lengths[j]);

			assert_true(psn_is_in(psns[i], psns[i], end));
			assert_true(psn_is_in(psn_prev(end), psns[i], end));
			assert_false(psn_is_in(end, psns[i], end));
			assert_false(psn_is_in(psn_prev(psns[i]), psns[i], end));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(psn_add_stays_within_24_bits),
		cmocka_unit_test(psn_diff_reverses_add),
		cmocka_unit_test(psn_is_before_follows_difference),
		cmocka_unit_test(psn_is_in_interval_is_half_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
