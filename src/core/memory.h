/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_H
#define USRDMA_CORE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether [addr, addr + length) is mapped, and its first and last page may be read (and written, if is_written): 0,
 * -EFAULT, -EINVAL for a range that wraps. Walks mappings, not pages, so that the cost does not grow with the range.
 * Whoever uses the memory later must still be ready to find it gone.
 */
int memory_check(const void *addr, uint64_t length, bool is_written)
	__attribute__((warn_unused_result));

#endif
