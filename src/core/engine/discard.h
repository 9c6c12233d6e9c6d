/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_DISCARD_H
#define USRDMA_CORE_ENGINE_DISCARD_H

#include <stddef.h>

struct engine;

/*
 * Mappings of this process that the engine thread removes without engine.lock: munmap() of memory
 * that a peer has filled frees its pages, which takes milliseconds.
 */

/*
 * Removes the mapping later; at once if the process has no engine thread or there is no memory.
 * engine.lock held.
 */
void discard_mapping(struct engine *engine, void *addr, size_t bytes);

/* One mapping to remove, which the caller owns. NULL: none. engine.lock held. */
struct discard *discard_next(struct engine *engine);
/* Removes the mapping. */
void discard_finish(struct discard *discard);

/* The engine closes. */
void discard_all(struct engine *engine);

#endif
