/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/known_uid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void known_uid_map_is_full_for_full_map_only(void **state)
{
	(void)state;
	assert_true(known_uid_map_is_full("         0          0 4294967295\n"));
	assert_true(known_uid_map_is_full("0 100000 65536\n65536 165536 4294901759\n"));
	assert_false(known_uid_map_is_full(""));
	assert_false(known_uid_map_is_full("0 1000 1\n"));
	assert_false(known_uid_map_is_full("65534 1000 1\n"));
	assert_false(known_uid_map_is_full("0 100000 65536\n"));
	assert_false(known_uid_map_is_full("0 0 x\n"));
}

static void known_uid_other_than_overflow_uid_is_known(void **state)
{
	(void)state;
	assert_true(known_uid(0));
	assert_true(known_uid(1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_uid_map_is_full_for_full_map_only),
		cmocka_unit_test(known_uid_other_than_overflow_uid_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
