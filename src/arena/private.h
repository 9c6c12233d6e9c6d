/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_PRIVATE_H
#define USRDMA_ARENA_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena/arena.h"
#include "arena/vmas.h"

/* Replaces memory of the arena's file by private memory. The caller holds the lock. */

/* A part of a block that is in the arena's file. */
struct part {
	struct span *span;
	uintptr_t addr;
	size_t bytes;
};

/* Whether a mapping is one of the arena's file. */
bool private_is_of_arena(const struct vma_item *item);

/* Gives the memory the protection and the attributes of the mapping that it replaces. */
void private_restore(const struct vma_item *item, uintptr_t addr, size_t bytes);

/*
 * Replaces a part by anonymous memory with the same content, protection and attributes. Values that
 * other threads write during the call may be lost. is_untouched: the part has no data. 0; -1.
 */
int private_copy(const struct part *part, bool is_untouched);

/*
 * Maps a whole block as private memory in place: threads may use it during the call, also as their
 * stack. Does nothing if the program has closed the descriptor or replaced a part of the block.
 */
void private_detach(struct span *span);

#endif
