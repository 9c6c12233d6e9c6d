/* SPDX-License-Identifier: BSD-2-Clause */
/* The table against an array with the same contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/list.h"

#define ITEMS 5000

struct item {
	struct hash_node node;
	uint64_t key;
};

static struct item items[ITEMS];

static struct item *find(const struct hash *table, uint64_t hash, uint64_t key)
{
	struct hash_node *node;

	hash_for_each(node, table, hash)
	{
		struct item *item = container_of(node, struct item, node);

		if (item->key == key)
			return item;
	}
	return NULL;
}

/*
 * Every third element has the same hash, so that chains are long and equal hashes are distinguished
 * by key.
 */
static uint64_t hash_of(uint64_t key)
{
	return key % 3 == 0 ? 42 : hash_mix(7, key);
}

static void hash_add_entry_is_found_until_removed(void **state)
{
	struct hash table;

	(void)state;
	memset(items, 0, sizeof(items));
	assert_int_equal(hash_init(&table), 0);
	for (uint64_t i = 0; i < ITEMS; i++) {
		items[i].key = i;
		assert_null(find(&table, hash_of(i), i));
		hash_add(&table, &items[i].node, hash_of(i));
	}
	assert_int_equal(table.count, ITEMS);
	assert_true(table.mask >= ITEMS / 2);
	for (uint64_t i = 0; i < ITEMS; i++)
		assert_ptr_equal(find(&table, hash_of(i), i), &items[i]);
	for (uint64_t i = 0; i < ITEMS; i += 2) {
		hash_del(&table, &items[i].node);
		hash_del(&table, &items[i].node);
	}
	assert_int_equal(table.count, ITEMS / 2);
	for (uint64_t i = 0; i < ITEMS; i++)
		assert_ptr_equal(find(&table, hash_of(i), i), i % 2 ? &items[i] : NULL);
	hash_fini(&table);
}

static void hash_mix_similar_keys_spread(void **state)
{
	unsigned counts[16] = {0};

	(void)state;
	for (uint64_t i = 0; i < 16000; i++)
		counts[hash_mix(1, i) % 16]++;
	for (int i = 0; i < 16; i++)
		assert_in_range(counts[i], 800, 1200);
	assert_true(hash_mix(1, 5) != hash_mix(2, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash_add_entry_is_found_until_removed),
		cmocka_unit_test(hash_mix_similar_keys_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
