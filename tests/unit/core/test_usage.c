/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/engine/engine.h"
#include "core/object/objects.h"

static struct segment_cqs table;
static struct engine engine;
static struct cq cqs[3];
static struct qp qp;

static int reset(void **state)
{
	(void)state;
	table = (struct segment_cqs){.end = 0};
	engine = (struct engine){.segment.cqs = &table};
	biased_lock_init(&engine.lock);
	engine_init_lists(&engine);
	engine_lock(&engine);
	for (size_t i = 0; i < 3; i++) {
		cqs[i] = (struct cq){
			.usage = &usage_unread_cq, .capacity = 15, .head = 5, .tail = 2};
		biased_lock_init(&cqs[i].lock);
		list_add_tail(&cqs[i].node, &engine.tables.cqs);
	}
	qp = (struct qp){.send_cq = &cqs[0], .recv_cq = &cqs[1]};
	return 0;
}

static int release(void **state)
{
	(void)state;
	engine_unlock(&engine);
	biased_lock_fini(&engine.lock);
	return 0;
}

static void usage_show_cqs_assigns_an_entry_to_each_cq(void **state)
{
	(void)state;
	usage_show_cqs(&engine, &qp);
	assert_int_equal(usage_place(&engine, &cqs[0]), 1);
	assert_int_equal(usage_place(&engine, &cqs[1]), 2);
	assert_int_equal(usage_place(&engine, &cqs[2]), 0);
	assert_int_equal(usage_place(&engine, NULL), 0);
	assert_int_equal(table.entries[0].pending, 3);
	assert_int_equal(table.entries[0].capacity, 15);
	usage_show_cqs(&engine, &qp);
	assert_int_equal(table.end, 2);
}

static void usage_show_cqs_of_one_cq_assigns_one_entry(void **state)
{
	(void)state;
	qp.recv_cq = qp.send_cq;
	usage_show_cqs(&engine, &qp);
	assert_int_equal(table.end, 1);
	qp.send_cq = NULL;
	usage_show_cqs(&engine, &qp);
	assert_int_equal(table.end, 1);
}

static void usage_hide_cq_entry_is_used_again(void **state)
{
	(void)state;
	usage_show_cqs(&engine, &qp);
	usage_hide_cq(&engine, &cqs[0]);
	assert_int_equal(table.entries[0].capacity, 0);
	usage_hide_cq(&engine, &cqs[1]);
	assert_int_equal(usage_place(&engine, &cqs[1]), 0);
	qp.send_cq = &cqs[2];
	usage_show_cqs(&engine, &qp);
	assert_int_equal(usage_place(&engine, &cqs[2]), 2);
	assert_int_equal(usage_place(&engine, &cqs[1]), 1);
	assert_int_equal(table.end, 2);
}

static void usage_show_cqs_full_table_leaves_the_cq_without_entry(void **state)
{
	(void)state;
	table.end = SEGMENT_CQS;
	usage_show_cqs(&engine, &qp);
	assert_int_equal(usage_place(&engine, &cqs[0]), 0);
	engine.segment.cqs = NULL;
	usage_show_cqs(&engine, &qp);
	assert_ptr_equal(cqs[0].usage, &usage_unread_cq);
}

static void usage_hide_cqs_in_child_leaves_the_parents_entries(void **state)
{
	(void)state;
	usage_show_cqs(&engine, &qp);
	usage_hide_cqs_in_child(&engine);
	assert_ptr_equal(cqs[0].usage, &usage_unread_cq);
	assert_int_equal(table.entries[0].pending, 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(usage_show_cqs_assigns_an_entry_to_each_cq, reset,
						release),
		cmocka_unit_test_setup_teardown(usage_show_cqs_of_one_cq_assigns_one_entry, reset,
						release),
		cmocka_unit_test_setup_teardown(usage_hide_cq_entry_is_used_again, reset, release),
		cmocka_unit_test_setup_teardown(
			usage_show_cqs_full_table_leaves_the_cq_without_entry, reset, release),
		cmocka_unit_test_setup_teardown(usage_hide_cqs_in_child_leaves_the_parents_entries,
						reset, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
