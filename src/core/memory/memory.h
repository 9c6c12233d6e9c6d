/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_MEMORY_H
#define USRDMA_CORE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether each page of [addr, addr + length) can be read (and written, if is_written), as an
 * adapter's driver finds out when it pins the pages. 0; -EFAULT: a page is not mapped, is
 * protected, is a guard page or is behind the end of its file; -EINVAL: the range wraps. Examines
 * mappings, not pages, if the range is long, and populates only pages at the ends of mappings
 * (docs/adr/0072). The result can be outdated: later accesses must handle memory that has changed
 * (base/user_copy.h).
 */
int memory_check(const void *addr, uint64_t length, bool is_written)
	__attribute__((warn_unused_result));

#endif
