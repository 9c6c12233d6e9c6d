/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine.h"
#include "ipc/segment.h"

static struct segment_counters table;
static struct engine engine;

static int setup(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	engine.counters = &table;
	return 0;
}

static void they_follow_one_another(void **state)
{
	uint64_t *first = counters_take(&engine, 3), *second = counters_take(&engine, 1);

	(void)state;
	assert_ptr_equal(first, table.values);
	assert_ptr_equal(second, first + 3);
	assert_int_equal(table.end, 4);
}

static void no_more_than_there_is_room_for(void **state)
{
	(void)state;
	assert_null(counters_take(&engine, SEGMENT_COUNTERS_MAX + 1));
	assert_non_null(counters_take(&engine, SEGMENT_COUNTERS_MAX));
	assert_null(counters_take(&engine, 1));
	assert_int_equal(table.end, SEGMENT_COUNTERS_MAX);
	engine.counters = NULL;
	assert_null(counters_take(&engine, 1));
}

static void names_are_of_letters_and_underscores(void **state)
{
	uint64_t *counter = counters_take(&engine, 1);
	char endless[2 * SEGMENT_COUNTER_NAME_BYTES];

	(void)state;
	counters_name(&engine, counter, "roce", "dropped: wrong p_key");
	assert_string_equal(table.names[0], "roce.dropped_wrong_p_key");
	counters_name(&engine, counter, "roce", "retries.");
	assert_string_equal(table.names[0], "roce.retries");
	memset(endless, 'x', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = '\0';
	counters_name(&engine, counter, "roce", endless);
	assert_true(strnlen(table.names[0], sizeof(table.names[0])) < sizeof(table.names[0]));
	assert_int_equal(table.names[1][0], '\0');
	for (size_t i = 1; i < sizeof(endless) - 1; i += 2)
		endless[i] = ' ';
	counters_name(&engine, counter, "roce", endless);
	assert_true(strnlen(table.names[0], sizeof(table.names[0])) < sizeof(table.names[0]));
	assert_int_equal(table.names[1][0], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(they_follow_one_another, setup),
		cmocka_unit_test_setup(no_more_than_there_is_room_for, setup),
		cmocka_unit_test_setup(names_are_of_letters_and_underscores, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
