/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/page.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An aligned address in the page, for 8 bytes. NULL is the address of page 0. */
static uintptr_t page_word(const void *at)
{
	return (uintptr_t)at & ~(uintptr_t)7;
}

/*
 * The kernel copies the set before it checks `how`, which is invalid here: EFAULT means that the
 * page is not readable. It does not copy from NULL, so the second word of page 0 is read.
 */
bool page_is_readable(const void *at)
{
	enum { KERNEL_SIGSET_BYTES = 8, NO_SUCH_REQUEST = -1 };
	uintptr_t word = page_word(at);
	int saved = errno;
	bool is_readable;

	is_readable = syscall(SYS_rt_sigprocmask, NO_SUCH_REQUEST,
			      word ? word : KERNEL_SIGSET_BYTES, NULL, KERNEL_SIGSET_BYTES) == 0 ||
		      errno != EFAULT;
	errno = saved;
	return is_readable;
}

/*
 * Makes the kernel OR a word of the page with 0, atomically. The word does not change, but write
 * permission is required.
 */
bool page_is_writable(void *at)
{
	static uint32_t nobody_waits;
	int saved = errno;
	bool is_writable;

	is_writable = syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, NULL,
			      page_word(at), FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
		      errno != EFAULT;
	errno = saved;
	return is_writable;
}
