/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "base/util.h"

/*
 * The kernel copies the set before it checks `how`, which is invalid here: EFAULT means that the page is not readable.
 */
static bool page_is_readable(const void *page)
{
	enum { KERNEL_SIGSET_BYTES = 8, NO_SUCH_REQUEST = -1 };

	return syscall(SYS_rt_sigprocmask, NO_SUCH_REQUEST, page, NULL, KERNEL_SIGSET_BYTES) == 0 ||
	       errno != EFAULT;
}

/*
 * Makes the kernel OR a word of the page with 0, atomically. The word does not change, but write permission is
 * required.
 */
static bool page_is_writable(void *page)
{
	static uint32_t nobody_waits;

	return syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, NULL, page,
		       FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
	       errno != EFAULT;
}

static bool page_is_usable(uintptr_t page, bool is_written)
{
	/* The application passed the address as an integer. */
	void *at = (void *)page;

	return is_written ? page_is_writable(at) : page_is_readable(at);
}

/* MS_ASYNC starts no I/O; msync(2) only fails if a page is not mapped. */
static bool pages_are_mapped(uintptr_t first, uintptr_t end)
{
	return first >= end || !sys_msync((void *)first, end - first, MS_ASYNC);
}

int memory_check(const void *addr, uint64_t length, bool is_written)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page_mask = ~(page_bytes - 1);
	uintptr_t first = (uintptr_t)addr & page_mask;
	uintptr_t last;
	int saved = errno;
	int ret = 0;

	if (!length)
		return 0;
	if ((uintptr_t)addr + length - 1 < (uintptr_t)addr)
		return -EINVAL;
	last = ((uintptr_t)addr + length - 1) & page_mask;
	/* page_is_readable() does not detect that page 0 is not mapped. */
	if (!page_is_usable(first, is_written) ||
	    (last != first && !page_is_usable(last, is_written)) ||
	    !pages_are_mapped(first ? first + page_bytes : 0, first ? last : last + page_bytes))
		ret = -EFAULT;
	errno = saved;
	return ret;
}

bool memory_is_there(struct memory_checked *checked, const void *addr, uint64_t length,
		     uint64_t ahead_bytes, bool is_written)
{
	uintptr_t start = (uintptr_t)addr;

	if (start >= checked->range[is_written].start && start <= checked->range[is_written].end &&
	    length <= checked->range[is_written].end - start)
		return true;
	ahead_bytes = min_u64(ahead_bytes, MEMORY_AHEAD_BYTES);
	/* A page behind the range may be unmapped. */
	if (ahead_bytes <= length || memory_check(addr, ahead_bytes, is_written)) {
		ahead_bytes = length;
		if (memory_check(addr, length, is_written))
			return false;
	}
	checked->range[is_written].start = start;
	checked->range[is_written].end = start + ahead_bytes;
	return true;
}
