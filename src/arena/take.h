/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_TAKE_H
#define USRDMA_ARENA_TAKE_H

#include <stdbool.h>

/*
 * In the child of a fork(): replaces the shared memory of the blocks by private memory with the
 * same content, protection and attributes. The parent waits for the end, but its other threads may
 * write.
 */
struct take_source {
	/*
	 * The parent's copy of all blocks, in the order of addresses, which it makes if it has no
	 * pipe; else NULL.
	 */
	char *staging;
	bool has_threads; /* other threads of the parent may write during the copy */
};

/* Takes all blocks. Ends the process if one cannot be taken. */
void take_blocks(const struct take_source *from);

/*
 * Takes all mappings of the arena's file, if the spans may be inconsistent. Ends the process if one
 * cannot be taken.
 */
void take_mappings(const struct take_source *from);

/*
 * Ends the process: it cannot continue with memory that differs from the parent's, and fork()
 * cannot fail any more.
 */
void take_abort(void) __attribute__((noreturn));

#endif
