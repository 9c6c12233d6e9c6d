/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "core/engine/engine.h"
#include "ipc/segment.h"

static struct segment_counters table;
static struct engine engine;

static int setup(void **state)
{
	(void)state;
	memset(&table, 0, sizeof(table));
	engine = (struct engine){.segment.counters = &table};
	biased_lock_init(&engine.lock);
	engine_init_lists(&engine);
	engine_lock(&engine);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_unlock(&engine);
	biased_lock_fini(&engine.lock);
	return 0;
}

static const char *const three[] = {"packets sent", NULL, "dropped: wrong p_key"};
static uint64_t unshown[2 * SEGMENT_COUNTERS_MAX];

static void counters_register_appends_named_counters(void **state)
{
	uint64_t *first = counters_register(&engine, "roce", three, 3, unshown);
	uint64_t *second = counters_register(&engine, "local", three, 1, unshown);

	(void)state;
	assert_ptr_equal(first, table.values);
	assert_ptr_equal(second, first + 3);
	assert_int_equal(table.end, 4);
	assert_string_equal(table.names[0], "roce.packets_sent");
	assert_string_equal(table.names[1], "");
	assert_string_equal(table.names[2], "roce.dropped_wrong_p_key");
	assert_string_equal(table.names[3], "local.packets_sent");
}

/*
 * Registers `count` counters with fd 2 redirected; returns whether a line about the group was
 * logged.
 */
static bool is_refusal_logged(size_t count)
{
	static const char *const none[2 * SEGMENT_COUNTERS_MAX];
	FILE *log = tmpfile();
	char line[256] = "";
	int saved = dup(STDERR_FILENO);

	assert_non_null(log);
	assert_int_equal(dup2(fileno(log), STDERR_FILENO), STDERR_FILENO);
	log_set_level(LOG_LEVEL_WARN);
	unshown[0] = 7;
	assert_ptr_equal(counters_register(&engine, "third", none, count, unshown), unshown);
	assert_int_equal(unshown[0], 0);
	log_set_level(LOG_LEVEL_OFF);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	rewind(log);
	(void)!fgets(line, sizeof(line), log);
	fclose(log);
	return strstr(line, "counters of third are not shown") != NULL;
}

static void counters_register_logs_a_full_table_and_returns_unshown(void **state)
{
	static const char *const none[SEGMENT_COUNTERS_MAX];

	(void)state;
	assert_true(is_refusal_logged(SEGMENT_COUNTERS_MAX + 1));
	assert_int_equal(table.end, 0);
	assert_ptr_equal(counters_register(&engine, "roce", none, SEGMENT_COUNTERS_MAX, unshown),
			 table.values);
	assert_true(is_refusal_logged(1));
	assert_int_equal(table.end, SEGMENT_COUNTERS_MAX);
}

static void counters_register_without_table_returns_unshown_silently(void **state)
{
	(void)state;
	engine.segment.counters = NULL;
	assert_false(is_refusal_logged(1));
}

static void counters_register_truncates_long_names(void **state)
{
	char endless[2 * SEGMENT_COUNTER_NAME_BYTES];
	const char *const name[] = {endless};

	(void)state;
	memset(endless, 'x', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = '\0';
	assert_ptr_equal(counters_register(&engine, "roce", name, 1, unshown), table.values);
	assert_true(strnlen(table.names[0], sizeof(table.names[0])) < sizeof(table.names[0]));
	assert_int_equal(table.names[1][0], '\0');
	for (size_t i = 1; i < sizeof(endless) - 1; i += 2)
		endless[i] = ' ';
	assert_ptr_equal(counters_register(&engine, "roce", name, 1, unshown), table.values + 1);
	assert_true(strnlen(table.names[1], sizeof(table.names[1])) < sizeof(table.names[1]));
	assert_int_equal(table.names[2][0], '\0');
}

static void counters_register_ends_a_name_at_its_last_word(void **state)
{
	static const char *const name[] = {"retries."};

	(void)state;
	assert_ptr_equal(counters_register(&engine, "roce", name, 1, unshown), table.values);
	assert_string_equal(table.names[0], "roce.retries");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counters_register_appends_named_counters, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			counters_register_logs_a_full_table_and_returns_unshown, setup, teardown),
		cmocka_unit_test_setup_teardown(
			counters_register_without_table_returns_unshown_silently, setup, teardown),
		cmocka_unit_test_setup_teardown(counters_register_truncates_long_names, setup,
						teardown),
		cmocka_unit_test_setup_teardown(counters_register_ends_a_name_at_its_last_word,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
