/* SPDX-License-Identifier: BSD-2-Clause */

/* Small helpers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"

static void count_of_array_returns_number_of_elements(void **state)
{
	static const uint64_t one[1], many[37];

	(void)state;
	assert_int_equal(COUNT(one), 1);
	assert_int_equal(COUNT(many), 37);
}

static void min_u64_compares_all_bits(void **state)
{
	(void)state;
	assert_int_equal(min_u8(7, UINT8_MAX), 7);
	assert_int_equal(min_u8(UINT8_MAX, 0), 0);
	assert_int_equal(min_u32(1u << 31, (1u << 31) - 1), (1u << 31) - 1);
	assert_int_equal(min_u64(UINT64_C(1) << 32, 5), 5);
	assert_int_equal(min_u64(3, UINT64_MAX), 3);
}

static void mtu_code_bytes_returns_bytes_of_code(void **state)
{
	static const uint32_t bytes[] = {256, 512, 1024, 2048, 4096};

	(void)state;
	for (unsigned int i = 0; i < COUNT(bytes); i++)
		assert_int_equal(mtu_code_bytes(i + 1), bytes[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(count_of_array_returns_number_of_elements),
		cmocka_unit_test(min_u64_compares_all_bits),
		cmocka_unit_test(mtu_code_bytes_returns_bytes_of_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
