/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_ID_TABLE_H
#define USRDMA_BASE_ID_TABLE_H

#include <stdint.h>

struct id_table_entry;

/*
 * Maps handles, which may be given to somebody who is not trusted, to pointers. A handle is an index
 * in its low bits and a generation above it: a handle that was removed is not found again until its
 * index went through every generation. Handle 0 is never given out. add, get and remove take O(1);
 * memory grows with the highest number of handles that were alive at once, up to the bound. A freed
 * index is reused after all others that were freed before it.
 *
 * Owned by whoever embeds it; it has no lock of its own, the owner's lock guards every call.
 */
struct id_table {
	struct id_table_entry *entries;
	uint32_t max;
	uint32_t used;	/* entries [0, used) were handed out at least once */
	uint32_t room;	/* entries allocated */
	uint32_t count; /* handles alive */
	uint32_t free_head;
	uint32_t free_tail;
	uint32_t index_bits;
	uint32_t generation_mask;
};

/* At most max handles (1 to 2^31) of 64 bits: 32 of index, 32 of generation. Allocates nothing. */
void id_table_init(struct id_table *table, uint32_t max);

/*
 * The same with handles that fit 32 bits: as many of index as max needs, the rest generation. max is
 * at most 2^24, so that at least eight are left.
 */
void id_table_init32(struct id_table *table, uint32_t max);

/* The same with handles that fit `bits` bits, at least four more than max needs. */
void id_table_init_bits(struct id_table *table, uint32_t max, uint32_t bits);

/* Frees the table; what its handles pointed to is the caller's. */
void id_table_fini(struct id_table *table);

/* Gives a pointer, not NULL, a handle. -ENOSPC: max are alive; -ENOMEM. */
int id_table_add(struct id_table *table, void *ptr, uint64_t *handle)
	__attribute__((warn_unused_result));

/* The pointer, or NULL if no such handle is alive. */
void *id_table_get(const struct id_table *table, uint64_t handle);

/* Ends the handle and returns what it pointed to, or NULL. */
void *id_table_remove(struct id_table *table, uint64_t handle);

/*
 * Walks what is alive: start with *cursor 0, ends with NULL. Removing or adding while walking is
 * allowed; what is added may or may not be seen.
 */
void *id_table_next(const struct id_table *table, uint32_t *cursor);

#endif
