/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_HASH_H
#define USRDMA_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A chained hash table. Its nodes are embedded in objects; the key is a 64-bit hash that the caller
 * computes with hash_mix(). After hash_init(), adding cannot fail: the table doubles when it is
 * full; without memory, its chains get longer. Owned by the object that embeds it, whose lock
 * guards it.
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

/* Adds a node, which must not be in a table. A node of zeros is not in a table. */
void hash_add(struct hash *table, struct hash_node *node, uint64_t hash);

/* Removes a node; no effect if it is not in a table. */
void hash_del(struct hash *table, struct hash_node *node);

/*
 * The first node with this hash, and the next one; NULL: the end. The caller compares the keys:
 * hashes can collide.
 */
struct hash_node *hash_first(const struct hash *table, uint64_t hash);
struct hash_node *hash_next(const struct hash_node *node);

#define hash_for_each(pos, table, key) \
	for ((pos) = hash_first((table), (key)); (pos); (pos) = hash_next(pos))

/*
 * Adds one word to a hash. The initial hash is any constant; if a peer can choose the keys, it is a
 * secret random number, which prevents deliberate collisions.
 */
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
