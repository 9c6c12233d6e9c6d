/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers that an attacker would have to guess: IDs, transaction IDs and PSNs are independent of
 * each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cm/conn.h"

#define COUNT 1000u

static struct random generator;
static const struct cm_callbacks callbacks;
static struct cm *cm;

static int open_cm(void **state)
{
	(void)state;
	random_init_repeatable(&generator, 1);
	cm = cm_new(&callbacks, NULL, &generator);
	return cm ? 0 : -1;
}

static int close_cm(void **state)
{
	(void)state;
	cm_free(cm);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static unsigned int repetitions(uint64_t *numbers, unsigned int count)
{
	unsigned int found = 0;

	qsort(numbers, count, sizeof(*numbers), compare);
	for (unsigned int i = 1; i < count; i++)
		found += numbers[i] == numbers[i - 1];
	return found;
}

/*
 * Each bit is set in about half of the numbers, and no difference of neighbours is more frequent
 * than by chance.
 */
static void expect_unrelated(const uint64_t *numbers, unsigned int bits)
{
	static uint64_t differences[COUNT - 1];
	uint64_t mask = UINT64_MAX >> (64 - bits);

	for (unsigned int bit = 0; bit < bits; bit++) {
		unsigned int set = 0;

		for (unsigned int i = 0; i < COUNT; i++)
			set += numbers[i] >> bit & 1;
		assert_in_range(set, COUNT * 2 / 5, COUNT * 3 / 5);
	}
	for (unsigned int i = 1; i < COUNT; i++)
		differences[i - 1] = (numbers[i] - numbers[i - 1]) & mask;
	assert_in_range(repetitions(differences, COUNT - 1), 0, 2);
}

static void cm_conn_new_numbers_of_connections_are_unrelated(void **state)
{
	static uint64_t ids[COUNT], tids[COUNT], psns[COUNT];

	(void)state;
	for (unsigned int i = 0; i < COUNT; i++) {
		struct cm_conn *conn = cm_conn_new(cm, NULL);

		assert_non_null(conn);
		ids[i] = conn->local_comm_id;
		tids[i] = conn->tid;
		psns[i] = conn->psn;
		assert_int_not_equal((uint32_t)tids[i], (uint32_t)ids[i]);
	}
	expect_unrelated(ids, 32);
	expect_unrelated(tids, 64);
	expect_unrelated(psns, 24);
	assert_int_equal(repetitions(ids, COUNT), 0);
	assert_int_equal(repetitions(tids, COUNT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cm_conn_new_numbers_of_connections_are_unrelated,
						open_cm, close_cm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
