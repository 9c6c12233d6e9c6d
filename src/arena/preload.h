/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_PRELOAD_H
#define USRDMA_ARENA_PRELOAD_H

/*
 * Returns the next definition of a function that this library replaces, and stores it in *next.
 * NULL: the C library does not have it. Several threads may look up one function at the same time.
 */
void *preload_find(void **next, const char *name);

#define PRELOAD_EXPORT __attribute__((visibility("default")))

#endif
