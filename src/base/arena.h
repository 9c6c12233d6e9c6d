/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_ARENA_H
#define USRDMA_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds the file that backs memory of this process, and keeps it. The library that `usrdma run`
 * preloads (src/arena) defines these functions; their addresses are NULL in a process without that
 * library.
 *
 * The library allocates memory from one memfd, which can grow and is sealed against shrinking. The
 * memory is mapped with MAP_SHARED at its offset in the memfd. A block keeps its offset until the
 * program frees it. Memory that a child inherited through fork() is a private copy, which has no
 * file.
 *
 * address, length: the memory, at least 1 byte. fd: receives the descriptor, which belongs to the
 * library. It has the flag FD_CLOEXEC and remains valid until the process ends, or until the
 * program closes descriptors that are not its own. The caller duplicates it if it stores it.
 * offset: receives the offset of `address` in the file, bytes.
 *
 * Returns a handle for usrdma_arena_unkeep(), or NULL: not all of the memory was allocated by the
 * library, the program has mapped other memory at this address or closed the descriptor, or there
 * is no memory. The functions do not call the allocator. Until usrdma_arena_unkeep(), the library
 * does not replace the memory by memory of another kind, for example for huge pages, also if the
 * program frees the block and gets another one at the same address: its memory region may still be
 * registered. Threads: any thread may call them. They take the lock of the library for a short time
 * and do not block otherwise.
 */
void *usrdma_arena_keep(const void *address, size_t length, int *fd, uint64_t *offset)
	__attribute__((weak, warn_unused_result));
void usrdma_arena_unkeep(void *kept) __attribute__((weak));

#endif
