/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_MEMFD_H
#define USRDMA_ARENA_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Creates an empty memfd that cannot shrink, with FD_CLOEXEC and a high descriptor number: programs
 * expect the lowest numbers for their own descriptors. The descriptor; -errno.
 */
int memfd_open(void) __attribute__((warn_unused_result));

/*
 * Makes the file at least `needed` bytes long. *bytes is its size, and changes. The size doubles,
 * because a peer maps the whole file and maps it again when it has grown. The size itself costs no
 * memory. 0; -errno.
 */
int memfd_grow(int fd, uint64_t *bytes, uint64_t needed) __attribute__((warn_unused_result));

/* Frees the pages of a part of the file; they are read as 0 afterwards. */
bool memfd_discard(int fd, uint64_t offset, size_t bytes);

/*
 * Returns the first part of the file with data in [offset, end), and its length in *bytes; `end`
 * and 0: no data. The parts before it are read as 0.
 */
uint64_t memfd_data(int fd, uint64_t offset, uint64_t end, size_t *bytes);

/* Reads a part of the file. */
bool memfd_read(int fd, void *to, uint64_t offset, size_t bytes)
	__attribute__((warn_unused_result));

/*
 * Whether the kernel has reserved memory for each mapping (vm.overcommit_memory is 2). Then malloc
 * functions fail when memory is scarce, whereas an access to a memfd would end the program with
 * SIGBUS. true also if the setting cannot be read.
 */
bool memory_is_not_overcommitted(void);

#endif
