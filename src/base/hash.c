/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

#define HASH_BUCKETS_MIN 16u
#define HASH_BUCKETS_MAX (1u << 24)

int hash_init(struct hash *table)
{
	table->buckets = calloc(HASH_BUCKETS_MIN, sizeof(struct hash_node *));
	if (!table->buckets)
		return -ENOMEM;
	table->mask = HASH_BUCKETS_MIN - 1;
	table->count = 0;
	return 0;
}

void hash_fini(struct hash *table)
{
	free(table->buckets);
	table->buckets = NULL;
}

static struct hash_node **bucket_of(const struct hash *table, uint64_t hash)
{
	return &table->buckets[hash & table->mask];
}

static void hash_grow(struct hash *table)
{
	uint32_t room = table->mask + 1;
	struct hash bigger = {.mask = room * 2 - 1};

	if (room >= HASH_BUCKETS_MAX)
		return;
	bigger.buckets = calloc(room * 2, sizeof(struct hash_node *));
	if (!bigger.buckets)
		return;
	for (uint32_t i = 0; i < room; i++) {
		struct hash_node *node = table->buckets[i];

		while (node) {
			struct hash_node *next = node->next;
			struct hash_node **bucket = bucket_of(&bigger, node->hash);

			node->next = *bucket;
			*bucket = node;
			node = next;
		}
	}
	free(table->buckets);
	table->buckets = bigger.buckets;
	table->mask = bigger.mask;
}

void hash_add(struct hash *table, struct hash_node *node, uint64_t hash)
{
	struct hash_node **bucket;

	if (table->count > table->mask)
		hash_grow(table);
	bucket = bucket_of(table, hash);
	node->hash = hash;
	node->next = *bucket;
	node->is_linked = true;
	*bucket = node;
	table->count++;
}

void hash_del(struct hash *table, struct hash_node *node)
{
	struct hash_node **at;

	if (!node->is_linked)
		return;
	for (at = bucket_of(table, node->hash); *at != node; at = &(*at)->next)
		;
	*at = node->next;
	node->next = NULL;
	node->is_linked = false;
	table->count--;
}

static struct hash_node *same_hash(struct hash_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

struct hash_node *hash_first(const struct hash *table, uint64_t hash)
{
	return same_hash(*bucket_of(table, hash), hash);
}

struct hash_node *hash_next(const struct hash_node *node)
{
	return same_hash(node->next, node->hash);
}
