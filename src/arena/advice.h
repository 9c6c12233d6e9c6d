/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_ADVICE_H
#define USRDMA_ARENA_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Calls of the program that change mappings of the arena. The program expects the behaviour of
 * private anonymous memory.
 */

/* Whether the range has pages in the address range of the arena. */
bool advice_concerns(const void *addr, size_t bytes);

/* madvise() for such a range. `real` is the C library's function. */
int advice_apply(void *addr, size_t bytes, int advice, int (*real)(void *, size_t, int));

/* The program is about to change the protection of the range. */
void advice_will_change(const void *addr, size_t bytes);

/* The program is about to replace or remove the mapping of the range. */
void advice_will_replace(const void *addr, size_t bytes);

/* Before the program moves or extends the mapping of this range. */
void advice_will_move(const void *addr, size_t bytes);

#endif
