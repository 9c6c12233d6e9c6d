/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_never_goes_back(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
