/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_ID_TABLE_H
#define USRDMA_BASE_ID_TABLE_H

#include <stdint.h>

struct id_table_entry;
struct random;

/*
 * Maps handles to pointers; handles may be passed to untrusted processes. A handle has an index in
 * its low bits and a generation in its high bits. A removed handle is invalid until its index has
 * used all generations. Handle 0 is never assigned. add, get and remove take O(1). Memory grows
 * with the highest number of handles in use at one time, up to the limit. Freed indices are reused
 * in the order in which they were freed.
 *
 * Owned by the object that embeds it, whose lock guards all calls.
 */
struct id_table {
	struct id_table_entry *entries;
	uint32_t max;
	uint32_t used;	/* entries [0, used) were assigned at least once */
	uint32_t room;	/* entries allocated */
	uint32_t count; /* handles in use */
	uint32_t free_head;
	uint32_t free_tail;
	uint32_t index_bits;
	uint32_t generation_mask;
	struct random *random; /* NULL: handles are assigned in sequence */
	/* random number by which indices are XORed, see id_table_init_random() */
	uint32_t index_mask;
};

/*
 * Initialises a table of at most max handles (1 to 2^31) of 64 bits: 32 of index, 32 of generation.
 * Allocates no memory.
 */
void id_table_init(struct id_table *table, uint32_t max);

/*
 * The same with handles of 32 bits: the index has as many bits as max requires, the generation the
 * remaining bits, at least 8: max is at most 2^24.
 */
void id_table_init32(struct id_table *table, uint32_t max);

/* The same with handles of `bits` bits, at least 4 more than max requires. */
void id_table_init_bits(struct id_table *table, uint32_t max, uint32_t bits);

/*
 * The same with unpredictable handles: generations are random, and free indices are chosen at
 * random. Until half of max is in use, there are at least as many free indices as handles. The
 * index in a handle is XORed with a random number, so that the upper index bits of a small table
 * are unpredictable, too. A freed index may be reused soon, but with another generation. The caller
 * owns `random`, which must outlive the table.
 */
void id_table_init_random(struct id_table *table, uint32_t max, uint32_t bits,
			  struct random *random);

/* Frees the table, but not the objects of its handles. */
void id_table_fini(struct id_table *table);

/* Assigns a handle to a pointer, which is not NULL. 0; -ENOSPC: max handles are in use; -ENOMEM. */
int id_table_add(struct id_table *table, void *ptr, uint64_t *handle)
	__attribute__((warn_unused_result));

/* The pointer of a handle; NULL: invalid handle. */
void *id_table_get(const struct id_table *table, uint64_t handle);

/* Removes the handle and returns its pointer; NULL: invalid handle. */
void *id_table_remove(struct id_table *table, uint64_t handle);

/*
 * Iterates over the pointers, starting with *cursor 0; NULL: the end. Handles may be removed and
 * added during the iteration; it may miss the added ones.
 */
void *id_table_next(const struct id_table *table, uint32_t *cursor);

#endif
