/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_ARENA_H
#define USRDMA_ARENA_ARENA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena/pages.h"

/*
 * Blocks of memory that another process can map: a memfd that is mapped with MAP_SHARED, each page
 * at the same offset from `base` and from the beginning of the file. Adjacent blocks are therefore
 * one mapping of the kernel (ADR 0041).
 *
 * `lock` guards all other members except `base` and `bytes`, which are set once. Fork handlers take
 * the lock (inherit.c).
 */
struct arena {
	uintptr_t base;
	uintptr_t bytes; /* of the address range that may have blocks; 0: no block was allocated */
	pthread_mutex_t lock;
	struct pages pages;
	size_t page_bytes;
	uint64_t private_pages;	  /* of used spans that are copies of a parent's */
	bool is_off;		  /* no further blocks in this process */
	atomic_bool is_uncertain; /* a signal handler changed mappings, but not the spans */
	int fd;			  /* -1: none yet */
	uint64_t file_bytes;	  /* the size of the memfd */
	uint64_t limit_bytes;	  /* maximum of all used blocks */
	/* of the memfd, because the program may close `fd` and use its number again */
	uint64_t dev;
	uint64_t ino;
};

extern struct arena arena;

/*
 * Free spans from this size are unmapped. Smaller ones remain mapped, so that mappings of the
 * kernel stay few.
 */
#define ARENA_UNMAP_BYTES_MIN (256u << 10)

/*
 * Whether a pointer is in the address range of the arena. Any thread may call this without the
 * lock.
 */
static inline bool arena_has(const void *memory)
{
	return (uintptr_t)memory - arena.base < arena.bytes;
}

void arena_lock(void);
void arena_unlock(void);

/*
 * In the child of fork(), whose other threads do not exist. is_released: the thread had taken the
 * lock for fork().
 */
void arena_lock_reset(bool is_released);

/*
 * Whether this thread runs a signal handler that has interrupted a function of the arena. The
 * handler must not take the lock, and the spans may be inconsistent.
 */
bool arena_is_interrupted(void);

/* Allows allocations from now on. */
void arena_enable(void);

/*
 * Allocates a block of at least `bytes` bytes, at a multiple of `align` (a power of two). NULL: the
 * caller takes the memory from the C library. errno is not changed.
 */
void *arena_alloc(size_t bytes, size_t align);

/* Returns the size of the block that begins here, bytes; 0: no block. */
size_t arena_size(const void *memory);

/* Frees a block. false: no block begins here. errno is not changed. */
bool arena_free(void *memory);

/* Frees the end of a block, of which the program uses the first `bytes` bytes, at least 1. */
void arena_shrink(void *memory, size_t bytes);

/*
 * Whether arena.fd is still the descriptor of the memfd. The caller holds the lock, as for the next
 * functions.
 */
bool arena_fd_is_valid(void);

/*
 * Frees the pages that the file stores for this range of a span, so that they are read as 0.
 * is_mapped: the file is mapped at the whole range, so that it can be found without the descriptor.
 * false: failed.
 */
bool arena_discard(uintptr_t addr, size_t bytes, bool is_mapped);

/* Whether a span is a block in the arena's file, which a child must take. */
static inline bool arena_block_is_shared(const struct span *span)
{
	return span->state == SPAN_USED && !span->is_private && !span->is_foreign;
}

/* The next span in the order of addresses, or NULL; the first one after NULL. */
static inline struct span *arena_span_after(const struct span *span)
{
	return pages_at(&arena.pages, span ? span->first + span->count : 0);
}

/* Returns the address and the length of a span. */
uintptr_t arena_span_addr(const struct span *span);
size_t arena_span_bytes(const struct span *span);

#endif
