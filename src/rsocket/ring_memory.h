/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_RING_MEMORY_H
#define USRDMA_RSOCKET_RING_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Memory that peers write to, for the rings of rsockets. It comes from sealed memfds, so that a
 * peer on the same host can map it and write without a system call (docs/adr/0042). One memfd
 * serves many rsockets. Any thread may call these functions.
 */

/*
 * Returns zeroed memory of whole pages, or NULL with errno. If no memfd can be created, if
 * RLIMIT_AS is set, or for large blocks, the memory is anonymous.
 */
uint8_t *ring_memory_alloc(size_t bytes) __attribute__((warn_unused_result));

/* bytes: as at ring_memory_alloc(). */
void ring_memory_free(uint8_t *memory, size_t bytes);

/* In the child of a fork(): the parent's memory is not used for rsockets of the child. */
void ring_memory_after_fork(void);

#endif
