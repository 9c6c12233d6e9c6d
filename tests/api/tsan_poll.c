/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * For ThreadSanitizer: poll(2) and epoll_wait(2) that are the C library's own. A thread that is
 * cancelled in ThreadSanitizer's functions leaves them without ending the section in which
 * ThreadSanitizer ignores the thread's locks, so that it then reports the locks of the thread's
 * cleanup handlers as missing or as taken twice. The library orders memory accesses by its locks,
 * not by these calls, so nothing else is lost.
 */
#ifdef __SANITIZE_THREAD__

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

typedef int poll_function(struct pollfd *fds, nfds_t nfds, int timeout_ms);
typedef int epoll_wait_function(int fd, struct epoll_event *events, int max, int timeout_ms);

static poll_function *real_poll;
static epoll_wait_function *real_epoll_wait;

/* Before main(): no thread is cancelled in dlopen(). */
__attribute__((constructor)) static void tsan_find_poll(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (!libc)
		abort();
	*(void **)&real_poll = dlsym(libc, "poll");
	*(void **)&real_epoll_wait = dlsym(libc, "epoll_wait");
	if (!real_poll || !real_epoll_wait)
		abort();
}

__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
	return real_poll(fds, nfds, timeout_ms);
}

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events, int max,
						      int timeout_ms)
{
	return real_epoll_wait(fd, events, max, timeout_ms);
}

#endif
