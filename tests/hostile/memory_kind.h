/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_MEMORY_KIND_H
#define USRDMA_TESTS_MEMORY_KIND_H

#include <stddef.h>
#include <stdint.h>

/*
 * Memory of the kinds that a peer maps, or can only access with a system call: "private"; memfds
 * "sealed" and "unsealed"; "tmpfs", a file of /dev/shm without a name; "huge", a memfd of huge
 * pages; "sysv", a System V segment. NULL is "private". Ends the process if it fails.
 *
 * at: the address, or NULL. fd: receives the descriptor of a file, otherwise -1; may be NULL.
 */
uint8_t *memory_of_kind(const char *kind, void *at, size_t bytes, int *fd);

#endif
