/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
	int value;
	struct list_head node;
};

static void items_make(struct item *items, int count, struct list_head *head)
{
	list_init(head);
	for (int i = 0; i < count; i++) {
		items[i].value = i;
		list_add_tail(&items[i].node, head);
	}
}

static void list_add_keeps_order(void **state)
{
	struct item items[4], first = {.value = -1}, *pos;
	struct list_head head;
	int expected = -1;

	(void)state;
	items_make(items, 4, &head);
	list_add(&first.node, &head);
	list_for_each_entry(pos, &head, node)
		assert_int_equal(pos->value, expected++);
	assert_int_equal(expected, 4);
	assert_ptr_equal(list_first_entry(&head, struct item, node), &first);
	assert_ptr_equal(list_last_entry(&head, struct item, node), &items[3]);
}

static void list_del_twice_is_harmless(void **state)
{
	struct item items[2];
	struct list_head head;

	(void)state;
	items_make(items, 2, &head);
	assert_true(list_is_linked(&items[0].node));
	list_del(&items[0].node);
	list_del(&items[0].node);
	assert_false(list_is_linked(&items[0].node));
	assert_false(list_is_empty(&head));
	list_del(&items[1].node);
	assert_true(list_is_empty(&head));
}

static void list_for_each_entry_safe_allows_removal(void **state)
{
	struct item items[5], *pos, *tmp;
	struct list_head head;
	int seen = 0;

	(void)state;
	items_make(items, 5, &head);
	list_for_each_entry_safe(pos, tmp, &head, node) {
		if (pos->value % 2 == 0)
			list_del(&pos->node);
		seen++;
	}
	assert_int_equal(seen, 5);
	assert_ptr_equal(list_first_entry(&head, struct item, node), &items[1]);
	assert_ptr_equal(list_last_entry(&head, struct item, node), &items[3]);
}

static void list_splice_tail_and_move_tail_keep_order(void **state)
{
	struct item a[2], b[2], *pos;
	struct list_head to, from;
	int sum = 0, count = 0;

	(void)state;
	items_make(a, 2, &to);
	items_make(b, 2, &from);
	list_splice_tail(&from, &to);
	assert_true(list_is_empty(&from));
	list_splice_tail(&from, &to);
	list_move_tail(&a[0].node, &to);
	list_for_each_entry(pos, &to, node) {
		sum = sum * 10 + pos->value;
		count++;
	}
	assert_int_equal(count, 4);
	assert_int_equal(sum, 1010);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_add_keeps_order),
		cmocka_unit_test(list_del_twice_is_harmless),
		cmocka_unit_test(list_for_each_entry_safe_allows_removal),
		cmocka_unit_test(list_splice_tail_and_move_tail_keep_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
