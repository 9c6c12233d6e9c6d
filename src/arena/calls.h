/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_CALLS_H
#define USRDMA_ARENA_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * System calls for the module's own mappings. The library defines the C library's functions of
 * these names for the program (preload_memory.c), and the module must not call its own definitions.
 */

static inline void *call_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
			      uint64_t offset)
{
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

static inline int call_munmap(void *addr, size_t bytes)
{
	return (int)syscall(SYS_munmap, addr, bytes);
}

/* Moves private memory over the mappings at another address. */
static inline void *call_mremap(void *addr, size_t bytes, void *to)
{
	return (void *)syscall(SYS_mremap, addr, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

static inline int call_mprotect(void *addr, size_t bytes, int prot)
{
	return (int)syscall(SYS_mprotect, addr, bytes, prot);
}

static inline int call_madvise(void *addr, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, addr, bytes, advice);
}

#endif
