/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_H
#define USRDMA_CORE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether [addr, addr + length) is mapped, and its first and last page are readable (and writable, if is_written). 0;
 * -EFAULT; -EINVAL: the range wraps. Checks mappings, not pages, so that the cost does not grow with the range. The
 * result can be outdated: later accesses must handle unmapped memory.
 */
int memory_check(const void *addr, uint64_t length, bool is_written)
	__attribute__((warn_unused_result));

#endif
