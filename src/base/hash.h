/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_HASH_H
#define USRDMA_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A chained hash table of nodes embedded in the objects it finds, by a 64-bit hash that the caller makes
 * with hash_mix(). Adding cannot fail once the table is there: it doubles when it is full, and where
 * memory is short its chains grow instead. Owned by whoever embeds it; no lock inside.
 */
struct hash_node {
	struct hash_node *next;
	uint64_t hash;
	bool is_linked;
};

struct hash {
	struct hash_node **buckets;
	uint32_t mask;
	uint32_t count;
};

int hash_init(struct hash *table) __attribute__((warn_unused_result));
void hash_fini(struct hash *table);

/* The node must not be on any table; all-zero memory is a node that is on none. */
void hash_add(struct hash *table, struct hash_node *node, uint64_t hash);

/* Harmless if the node is on no table. */
void hash_del(struct hash *table, struct hash_node *node);

/* The first node with this hash, then each after it; NULL ends. Equal hashes are not equal keys. */
struct hash_node *hash_first(const struct hash *table, uint64_t hash);
struct hash_node *hash_next(const struct hash_node *node);

#define hash_for_each(pos, table, key) \
	for ((pos) = hash_first((table), (key)); (pos); (pos) = hash_next(pos))

/* Folds one more word into a hash; start from any constant. Peers choose some of the words, so a table
 * whose keys come from outside starts from a secret. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
	uint64_t x = hash ^ word;

	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}

#endif
