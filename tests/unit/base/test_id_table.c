/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/id_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"

#define MANY 1000

static int things[MANY];

static void id_table_add_get_remove_returns_object(void **state)
{
	struct id_table table;
	uint64_t handles[MANY];

	(void)state;
	id_table_init(&table, MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(id_table_add(&table, &things[i], &handles[i]), 0);
		assert_int_not_equal(handles[i], 0);
	}
	for (int i = 0; i < MANY; i++)
		assert_ptr_equal(id_table_get(&table, handles[i]), &things[i]);
	assert_int_equal(table.count, MANY);
	for (int i = 0; i < MANY; i++) {
		assert_ptr_equal(id_table_remove(&table, handles[i]), &things[i]);
		assert_null(id_table_get(&table, handles[i]));
		assert_null(id_table_remove(&table, handles[i]));
	}
	assert_int_equal(table.count, 0);
	id_table_fini(&table);
}

static void id_table_add_full_table_fails(void **state)
{
	struct id_table table;
	uint64_t handle, last = 0;

	(void)state;
	id_table_init(&table, 17);
	for (int i = 0; i < 17; i++)
		assert_int_equal(id_table_add(&table, &things[i], &last), 0);
	assert_int_equal(id_table_add(&table, &things[17], &handle), -ENOSPC);
	assert_ptr_equal(id_table_remove(&table, last), &things[16]);
	assert_int_equal(id_table_add(&table, &things[17], &handle), 0);
	assert_int_not_equal(handle, last);
	assert_null(id_table_get(&table, last));
	assert_ptr_equal(id_table_get(&table, handle), &things[17]);
	id_table_fini(&table);
}

static void id_table_add_reuses_oldest_entry_first(void **state)
{
	struct id_table table;
	uint64_t handles[4], again;

	(void)state;
	id_table_init(&table, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(id_table_add(&table, &things[i], &handles[i]), 0);
	id_table_remove(&table, handles[2]);
	id_table_remove(&table, handles[0]);
	id_table_remove(&table, handles[3]);
	for (int i = 0; i < 3; i++) {
		static const int order[] = {2, 0, 3};

		assert_int_equal(id_table_add(&table, &things[0], &again), 0);
		assert_int_equal((uint32_t)again, (uint32_t)handles[order[i]]);
	}
	id_table_fini(&table);
}

/* Handles of 32 bits are never 0 and repeat only after every generation. */
static void id_table_init32_handles_repeat_after_all_generations(void **state)
{
	struct id_table table;
	uint64_t first, handle;
	uint32_t rounds = 0;

	(void)state;
	id_table_init32(&table, 1u << 24);
	assert_int_equal(id_table_add(&table, &things[0], &first), 0);
	handle = first;
	do {
		assert_ptr_equal(id_table_remove(&table, handle), &things[0]);
		assert_int_equal(id_table_add(&table, &things[0], &handle), 0);
		assert_true(handle > 0 && handle <= UINT32_MAX);
		rounds++;
	} while (handle != first);
	assert_int_equal(rounds, 255);
	id_table_fini(&table);
}

/* A handle does not reveal the next one, and a freed handle is not assigned again immediately. */
static void id_table_init_random_handles_are_unpredictable(void **state)
{
	static uint64_t handles[5000];
	static bool is_high[2];
	struct id_table table;
	struct random random;
	uint64_t last, next;
	uint32_t ascending = 0, cursor = 0, seen = 0;
	int *thing;

	(void)state;
	random_init_repeatable(&random, 1);
	id_table_init_random(&table, 1u << 13, 31, &random);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(id_table_add(&table, &things[i % MANY], &handles[i]), 0);
		assert_in_range(handles[i], 1, INT32_MAX);
		ascending += i > 0 && handles[i] == handles[i - 1] + 1;
		is_high[handles[i] >> 30 & 1] = true;
	}
	assert_true(ascending < 5 && is_high[0] && is_high[1]);
	for (int i = 0; i < 5000; i++)
		assert_ptr_equal(id_table_get(&table, handles[i]), &things[i % MANY]);
	for (int i = 0; i < 5000; i += 2) {
		assert_ptr_equal(id_table_remove(&table, handles[i]), &things[i % MANY]);
		assert_null(id_table_get(&table, handles[i]));
	}
	while ((thing = id_table_next(&table, &cursor)))
		seen++;
	assert_int_equal(seen, 2500);
	while (id_table_add(&table, &things[0], &next) == 0) {
	}
	assert_int_equal(table.count, 1u << 13);
	/* The only free index has another generation now. */
	last = next;
	for (int i = 0; i < 1000; i++) {
		assert_ptr_equal(id_table_remove(&table, last), &things[0]);
		assert_int_equal(id_table_add(&table, &things[0], &next), 0);
		assert_int_not_equal(next, last);
		assert_null(id_table_get(&table, last));
		last = next;
	}
	id_table_fini(&table);
}

static void id_table_get_unknown_handle_returns_null(void **state)
{
	struct id_table table;
	uint64_t handle;

	(void)state;
	id_table_init32(&table, 100);
	assert_null(id_table_get(&table, 0));
	assert_null(id_table_get(&table, UINT64_MAX));
	assert_int_equal(id_table_add(&table, &things[0], &handle), 0);
	assert_null(id_table_get(&table, 0));
	assert_null(id_table_get(&table, handle + 1));
	assert_null(id_table_get(&table, handle | 1ull << 32));
	assert_null(id_table_get(&table, handle + (1u << table.index_bits)));
	assert_null(id_table_get(&table, UINT64_MAX));
	id_table_fini(&table);
	assert_null(id_table_get(&table, handle));
}

static void id_table_next_visits_every_object(void **state)
{
	struct id_table table;
	uint64_t handles[10];
	uint32_t cursor = 0;
	int seen = 0;

	(void)state;
	id_table_init(&table, 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(id_table_add(&table, &things[i], &handles[i]), 0);
	for (int i = 0; i < 10; i += 2)
		id_table_remove(&table, handles[i]);
	for (int *ptr; (ptr = id_table_next(&table, &cursor)); seen++)
		assert_int_equal((ptr - things) % 2, 1);
	assert_int_equal(seen, 5);
	id_table_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(id_table_add_get_remove_returns_object),
		cmocka_unit_test(id_table_add_full_table_fails),
		cmocka_unit_test(id_table_add_reuses_oldest_entry_first),
		cmocka_unit_test(id_table_init32_handles_repeat_after_all_generations),
		cmocka_unit_test(id_table_init_random_handles_are_unpredictable),
		cmocka_unit_test(id_table_get_unknown_handle_returns_null),
		cmocka_unit_test(id_table_next_visits_every_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
