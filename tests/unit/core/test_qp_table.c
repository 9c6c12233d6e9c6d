/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/qp_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

#define SLOT	  5u
#define FIRST_QPN (SLOT << IPC_SLOT_SHIFT)
#define SEED	  4711
#define STEPS	  200000

static struct qp_table table;
static struct qp qps[IPC_SLOT_QPNS]; /* by the low bits of the QPN */
static bool is_added[IPC_SLOT_QPNS];
static struct random numbers;

static int setup(void **state)
{
	(void)state;
	for (uint32_t low = 0; low < IPC_SLOT_QPNS; low++)
		qps[low].qpn = FIRST_QPN | low;
	memset(is_added, 0, sizeof(is_added));
	random_init_repeatable(&numbers, SEED);
	return qp_table_init(&table);
}

static int teardown(void **state)
{
	(void)state;
	qp_table_fini(&table);
	return 0;
}

static void add(uint32_t low)
{
	assert_int_equal(qp_table_add(&table, &qps[low]), 0);
	is_added[low] = true;
}

static void drop(uint32_t low)
{
	qp_table_remove(&table, &qps[low]);
	is_added[low] = false;
}

static void expect_model(void)
{
	uint32_t cursor = 0, count = 0;
	const struct qp *qp;

	for (uint32_t low = 0; low < IPC_SLOT_QPNS; low++) {
		assert_ptr_equal(qp_table_get(&table, FIRST_QPN | low),
				 is_added[low] ? &qps[low] : NULL);
		count += is_added[low];
	}
	assert_int_equal(table.count, count);
	while ((qp = qp_table_next(&table, &cursor))) {
		assert_true(is_added[qp->qpn % IPC_SLOT_QPNS]);
		count--;
	}
	assert_int_equal(count, 0);
}

/* Low bits of which many have the same hash in a small table. */
static uint32_t colliding_low(void)
{
	return 2 + random_below(&numbers, 8) + 64 * random_below(&numbers, 500);
}

static void qp_table_random_operations_match_array(void **state)
{
	(void)state;
	for (int step = 0; step < STEPS; step++) {
		uint32_t low = colliding_low();

		if (is_added[low])
			drop(low);
		else if (random_below(&numbers, 1 + (uint32_t)step / 1000 % 8) == 0)
			add(low);
		if (step % 8000 == 0)
			expect_model();
	}
	expect_model();
}

static void qp_table_holds_every_qpn_of_slot(void **state)
{
	(void)state;
	for (uint32_t low = 2; low < IPC_SLOT_QPNS; low++)
		add(low);
	assert_int_equal(table.mask + 1, IPC_SLOT_QPNS);
	expect_model();
	for (uint32_t low = 2; low < IPC_SLOT_QPNS; low += 2)
		drop(low);
	expect_model();
}

static void qp_table_get_other_slot_finds_no_qp(void **state)
{
	(void)state;
	add(100);
	assert_null(qp_table_get(&table, 100));
	assert_null(qp_table_get(&table, (SLOT + 1) << IPC_SLOT_SHIFT | 100));
	assert_ptr_equal(qp_table_get(&table, FIRST_QPN | 100), &qps[100]);
}

/* The table of few QPs is small: random QPNs do not spread over memory (docs/adr/0024). */
static void qp_table_memory_follows_count(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		add(2 + i * 32);
	assert_in_range(table.mask + 1, 2000, 4096);
	expect_model();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(qp_table_random_operations_match_array),
		CASE(qp_table_holds_every_qpn_of_slot),
		CASE(qp_table_get_other_slot_finds_no_qp),
		CASE(qp_table_memory_follows_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
