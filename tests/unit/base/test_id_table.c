/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/id_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MANY 1000

static int things[MANY];

static void test_add_get_remove(void **state)
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

static void test_bound(void **state)
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

static void test_oldest_is_reused_first(void **state)
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

/* Handles of 32 bits stay so, are never 0, and repeat only after every generation. */
static void test_32_bit_generations(void **state)
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

static void test_foreign_handles(void **state)
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

static void test_walk(void **state)
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
		cmocka_unit_test(test_add_get_remove),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_oldest_is_reused_first),
		cmocka_unit_test(test_32_bit_generations),
		cmocka_unit_test(test_foreign_handles),
		cmocka_unit_test(test_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
