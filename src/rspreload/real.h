/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_REAL_H
#define USRDMA_RSPRELOAD_REAL_H

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/syscalls.h"

/*
 * The C library's functions that this module replaces. The first call looks them up with dlsym().
 * Threads that call at the same time also look them up and store the same values.
 */
struct real_functions {
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *addr, socklen_t bytes);
	int (*listen)(int fd, int backlog);
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *bytes, int flags);
	int (*connect)(int fd, const struct sockaddr *addr, socklen_t bytes);
	int (*shutdown)(int fd, int how);
	int (*getpeername)(int fd, struct sockaddr *addr, socklen_t *bytes);
	int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *bytes);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t bytes);
	int (*getsockopt)(int fd, int level, int name, void *value, socklen_t *bytes);
	ssize_t (*read)(int fd, void *buf, size_t count);
	ssize_t (*readv)(int fd, const struct iovec *iov, int count);
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvfrom)(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			    socklen_t *bytes);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	int (*recvmmsg)(int fd, struct mmsghdr *msgs, unsigned count, int flags,
			struct timespec *timeout);
	ssize_t (*write)(int fd, const void *buf, size_t count);
	ssize_t (*writev)(int fd, const struct iovec *iov, int count);
	ssize_t (*send)(int fd, const void *buf, size_t len, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t len, int flags,
			  const struct sockaddr *addr, socklen_t bytes);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	int (*sendmmsg)(int fd, struct mmsghdr *msgs, unsigned count, int flags);
	ssize_t (*sendfile)(int out, int in, off64_t *offset, size_t count);
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout);
	int (*ppoll)(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		     const sigset_t *mask);
	int (*select)(int count, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout);
	int (*pselect)(int count, fd_set *in, fd_set *out, fd_set *except,
		       const struct timespec *timeout, const sigset_t *mask);
	int (*epoll_ctl)(int epoll, int op, int fd, struct epoll_event *event);
	int (*epoll_wait)(int epoll, struct epoll_event *events, int most, int timeout);
	int (*epoll_pwait)(int epoll, struct epoll_event *events, int most, int timeout,
			   const sigset_t *mask);
	int (*epoll_pwait2)(int epoll, struct epoll_event *events, int most,
			    const struct timespec *timeout, const sigset_t *mask);
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int dir, const char *path, int flags, ...);
	int (*pipe2)(int fds[2], int flags);
	int (*socketpair)(int domain, int type, int protocol, int fds[2]);
	int (*eventfd)(unsigned count, int flags);
	int (*epoll_create1)(int flags);
	int (*timerfd_create)(int clock, int flags);
	int (*signalfd)(int fd, const sigset_t *mask, int flags);
	int (*inotify_init1)(int flags);
	int (*memfd_create)(const char *name, unsigned flags);
	int (*close)(int fd);
	int (*close_range)(unsigned first, unsigned last, int flags);
	int (*dup3)(int fd, int to, int flags);
	int (*fcntl)(int fd, int cmd, ...);
	int (*ioctl)(int fd, unsigned long request, ...);
	int (*fstat)(int fd, struct stat *stat);
	int (*fstat64)(int fd, struct stat64 *stat);
	off64_t (*lseek64)(int fd, off64_t offset, int whence);
	FILE *(*fdopen)(int fd, const char *mode);
	int (*fileno)(FILE *file);
	int (*vdprintf)(int fd, const char *format, va_list arguments);
};

/* The functions, looked up at the first call. */
const struct real_functions *real_calls(void);
#define real (*real_calls())

/* close() that is not a cancellation point. */
static inline int real_close(int fd)
{
	int before = cancel_disable();
	int ret = real.close(fd);

	cancel_restore(before);
	return ret;
}

/*
 * The C library's syscall(). It is looked up separately: memory allocators call it during their
 * initialization, and a failed look-up of another name makes the dynamic loader allocate memory.
 */
typedef long syscall_function(long number, ...);
syscall_function *real_syscall(void);

/*
 * The repoll calls of librdmacm, looked up at run time. librdmacm of rdma-core before v65 does not
 * have them. With undefined symbols the dynamic loader would refuse to start every program for
 * which LD_PRELOAD is set.
 */
struct repoll_calls {
	int (*create)(int flags);
	int (*ctl)(int epfd, int op, int fd, struct epoll_event *event);
	int (*wait)(int epfd, struct epoll_event *events, int maxevents, int timeout);
};

/* NULL: librdmacm does not have them. */
const struct repoll_calls *repoll_calls(void);

/* Marks each function that replaces a function of the C library. */
#define EXPORT __attribute__((visibility("default")))

#endif
