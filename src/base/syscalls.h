/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SYSCALLS_H
#define USRDMA_BASE_SYSCALLS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Disables thread cancellation up to cancel_restore(), for code that cannot use the calls below. */
static inline int cancel_disable(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

/*
 * System calls whose C library functions are cancellation points. The functions below are not,
 * because syscall(2) is not a cancellation point. A thread that pthread_cancel() terminates inside
 * a library call would not release its locks and leave structures inconsistent. The functions
 * return -1 and set errno, as those of the C library do. tests/arch/check.py finds calls of the C
 * library's functions.
 *
 * They block only if the descriptor is in blocking mode. Such a wait cannot be cancelled.
 */

/*
 * Calls the C library's function, so that ThreadSanitizer detects that the descriptor number may be
 * reused.
 */
static inline int sys_close(int fd)
{
	int before = cancel_disable();
	int ret = close(fd);

	cancel_restore(before);
	return ret;
}

static inline int sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

static inline ssize_t sys_read(int fd, void *to, size_t bytes)
{
	return syscall(SYS_read, fd, to, bytes);
}

/* Reads up to the end of the file or up to this many bytes. The number of bytes, or -errno. */
static inline ssize_t sys_read_all(int fd, void *to, size_t bytes)
{
	size_t filled = 0;

	while (filled < bytes) {
		ssize_t got = sys_read(fd, (char *)to + filled, bytes - filled);

		if (got == 0)
			break;
		if (got > 0)
			filled += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)filled;
}

static inline ssize_t sys_write(int fd, const void *from, size_t bytes)
{
	return syscall(SYS_write, fd, from, bytes);
}

static inline ssize_t sys_pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
	return syscall(SYS_pwrite64, fd, from, bytes, offset);
}

/* read() that fails with EAGAIN instead of blocking, also if the descriptor is in blocking mode. */
static inline ssize_t sys_read_nowait(int fd, void *to, size_t bytes)
{
	struct iovec iov = {.iov_base = to, .iov_len = bytes};

	return syscall(SYS_preadv2, fd, &iov, 1L, -1L, -1L, RWF_NOWAIT);
}

static inline int sys_eventfd_write(int fd, uint64_t count)
{
	return sys_write(fd, &count, sizeof(count)) == (ssize_t)sizeof(count) ? 0 : -1;
}

static inline int sys_eventfd_read(int fd, uint64_t *count)
{
	return sys_read(fd, count, sizeof(*count)) == (ssize_t)sizeof(*count) ? 0 : -1;
}

static inline int sys_connect(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	return (int)syscall(SYS_connect, fd, addr, bytes);
}

static inline ssize_t sys_sendto(int fd, const void *from, size_t bytes, int flags,
				 const struct sockaddr *addr, socklen_t addr_bytes)
{
	return syscall(SYS_sendto, fd, from, bytes, flags, addr, addr_bytes);
}

static inline ssize_t sys_send(int fd, const void *from, size_t bytes, int flags)
{
	return sys_sendto(fd, from, bytes, flags, NULL, 0);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static inline ssize_t sys_recvfrom(int fd, void *to, size_t bytes, int flags, struct sockaddr *addr,
				   socklen_t *addr_bytes)
{
	return syscall(SYS_recvfrom, fd, to, bytes, flags, addr, addr_bytes);
}

static inline ssize_t sys_recv(int fd, void *to, size_t bytes, int flags)
{
	return sys_recvfrom(fd, to, bytes, flags, NULL, NULL);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return syscall(SYS_recvmsg, fd, msg, flags);
}

/* recvmmsg() without a timeout. */
static inline int sys_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int count, int flags)
{
	return (int)syscall(SYS_recvmmsg, fd, msgs, count, flags, NULL);
}

/* Maximum number of events of one call of epoll_wait(2); a larger value fails with EINVAL. */
#define SYS_EPOLL_EVENTS_MAX ((int)(INT_MAX / sizeof(struct epoll_event)))

/* Returns pending events; does not wait. */
static inline int sys_epoll_look(int fd, struct epoll_event *events, int max)
{
	return (int)syscall(SYS_epoll_pwait, fd, events, max, 0, NULL, (size_t)(_NSIG / 8));
}

static inline ssize_t sys_getrandom(void *to, size_t bytes)
{
	return syscall(SYS_getrandom, to, bytes, 0);
}

static inline void sys_nap(long ns)
{
	const struct timespec nap = {.tv_nsec = ns};
	int cancel_state = cancel_disable();

	nanosleep(&nap, NULL);
	cancel_restore(cancel_state);
}

/* Sleeps for the whole time, also if signal handlers run. */
static inline void sys_sleep_ns(uint64_t ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};
	int cancel_state = cancel_disable();

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	cancel_restore(cancel_state);
}

static inline int sys_msync(void *addr, size_t bytes, int flags)
{
	return (int)syscall(SYS_msync, addr, bytes, flags);
}

#endif
