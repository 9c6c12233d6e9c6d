/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * For ThreadSanitizer: a poll(2) that is the C library's own. A thread that is cancelled in ThreadSanitizer's poll() leaves it
 * without ending the section in which ThreadSanitizer ignores the thread's locks, so that the mutexes that the thread's
 * cleanup handlers unlock are reported as locked twice later. poll(2) orders no memory accesses, so nothing else is lost.
 */
#ifdef __SANITIZE_THREAD__

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>

typedef int poll_function(struct pollfd *fds, nfds_t nfds, int timeout_ms);

static poll_function *real_poll;

/* Before main(): no thread is cancelled in dlopen(). */
__attribute__((constructor)) static void tsan_find_poll(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		abort();
	*(void **)&real_poll = dlsym(libc, "poll");
	if (!real_poll)
		abort();
}

__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
	return real_poll(fds, nfds, timeout_ms);
}

#endif
