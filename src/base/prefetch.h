/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PREFETCH_H
#define USRDMA_BASE_PREFETCH_H

/*
 * Fetches a cache line with the intention to write to it, so that a store does not wait until
 * another processor has given up the line. Only a hint. GCC emits prefetchw only if the build
 * requires a processor that has it; all others ignore it.
 */
static inline void prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

#endif
