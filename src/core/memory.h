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

/* The ranges that memory_check() has accepted last, one for reading and one for writing. */
struct memory_checked {
	struct {
		uintptr_t start, end;
	} range[2]; /* by is_written */
};

/*
 * As memory_check(), and stores the range in *checked: a further call for a part of it makes no system call. The caller clears
 * *checked before the application may have unmapped the memory. If the caller will access the bytes up to `ahead_bytes` soon (at least
 * length), up to MEMORY_AHEAD_BYTES of them are checked and stored, too.
 */
bool memory_is_there(struct memory_checked *checked, const void *addr, uint64_t length,
		     uint64_t ahead_bytes, bool is_written);

#define MEMORY_AHEAD_BYTES (256u * 1024)

static inline void memory_forget(struct memory_checked *checked)
{
	*checked = (struct memory_checked){0};
}

#endif
