/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would
 * rename some of them.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "rspreload/epoll.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/wrap.h"

/* Calls for any descriptor: close, duplicate, flags. */

EXPORT int close(int fd)
{
	DEFERS_CANCEL;
	struct sock *sock;
	bool is_last;
	int ret;

	if (sock_in_vfork_child())
		return real.close(fd);
	sock_end_stale(__builtin_return_address(0));
	epoll_unmark(fd);
	sock = sock_unname(fd, &is_last);
	if (!sock)
		return real.close(fd);
	real_close(fd);
	/* The result is that of the rsocket, not that of the placeholder. */
	ret = is_last ? sock_end(sock) : 0;
	return (int)wrap_done(sock, ret);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	DEFERS_CANCEL;

	if (!(flags & (int)CLOSE_RANGE_CLOEXEC) && !sock_in_vfork_child()) {
		epoll_unmark_range(first, last);
		sock_unname_range(first, last);
	}
	return real.close_range(first, last, flags);
}

/* An alias in the C library. */
int __close(int fd);
EXPORT int __close(int fd)
{
	DEFERS_CANCEL;

	return close(fd);
}

/*
 * libuv, and therefore Node.js, closes descriptors with syscall(SYS_close), which is not a
 * cancellation point. Six arguments are always read; the kernel ignores those that the system call
 * does not have. The library calls it also in a thread with a descriptor table of its own
 * (local/peer_file.c), in which the numbers are not those of the application.
 *
 * The last argument is read from the caller's stack. If the caller passed fewer, AddressSanitizer
 * may have a redzone there.
 */
__attribute__((no_sanitize("address"))) EXPORT long syscall(long number, ...)
{
	bool is_library = preload_is_ours(__builtin_return_address(0));
	va_list arguments;
	long given[6];

	va_start(arguments, number);
	for (size_t i = 0; i < COUNT(given); i++)
		given[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_close && !is_library)
		return close((int)given[0]);
	if (number == SYS_close_range && !is_library)
		return close_range((unsigned)given[0], (unsigned)given[1], (int)given[2]);
	return real_syscall()(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

EXPORT void closefrom(int first)
{
	DEFERS_CANCEL;

	close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
}

/*
 * Adds a duplicated number to the sock and releases the reference. If memory is exhausted, the
 * number is closed.
 */
static int name(struct sock *sock, int number)
{
	int ret = number < 0 ? 0 : sock_name(sock, number);

	if (ret) {
		real_close(number);
		errno = -ret;
		number = -1;
	}
	return (int)wrap_done(sock, number);
}

/*
 * Placeholders are closed by execve(), because an rsocket is lost. TCP sockets can become rsockets
 * afterwards.
 */
static int cloexec_of(const struct sock *sock)
{
	return sock_kind_of(sock) == SOCK_RDMA ? O_CLOEXEC : 0;
}

/* The sock of a number that is to be duplicated, with a reference, or NULL. */
static struct sock *duplicated(int fd)
{
	struct sock *sock;

	if (sock_in_vfork_child())
		return NULL;
	sock = sock_find(fd);
	return sock ? sock : epoll_sock(fd);
}

static int duplicate_from(int fd, int least, int flags, const void *caller)
{
	struct sock *sock = preload_is_ours(caller) ? NULL : duplicated(fd);
	int cmd;

	if (sock)
		flags |= cloexec_of(sock);
	cmd = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
	if (!sock) {
		int number = real.fcntl(fd, cmd, least);

		sock_number_reused(number, caller);
		return number;
	}
	return name(sock, real.fcntl(fd, cmd, least));
}

static int duplicate_to(int fd, int to, int flags)
{
	struct sock *sock = duplicated(fd);
	struct sock *before = NULL;
	bool is_last = false;
	int ret;

	ret = real.dup3(fd, to, flags | (sock ? cloexec_of(sock) : 0));
	if (ret >= 0)
		epoll_unmark(to);
	if (ret >= 0 && !sock_in_vfork_child())
		before = sock_unname(to, &is_last);
	if (sock)
		ret = name(sock, ret);
	if (!before)
		return ret;
	if (is_last)
		sock_end(before);
	return (int)wrap_done(before, ret);
}

EXPORT int dup(int fd)
{
	DEFERS_CANCEL;

	return duplicate_from(fd, 0, 0, __builtin_return_address(0));
}

EXPORT int dup2(int fd, int to)
{
	DEFERS_CANCEL;

	if (fd == to)
		return real.fcntl(fd, F_GETFD) < 0 ? -1 : to;
	return duplicate_to(fd, to, 0);
}

EXPORT int dup3(int fd, int to, int flags)
{
	DEFERS_CANCEL;

	if (fd == to) {
		errno = EINVAL;
		return -1;
	}
	return duplicate_to(fd, to, flags);
}

static int wrap_descriptor_control(int fd, int cmd, void *argument, const void *caller)
{
	struct wrap_rsocket rsocket;
	int number = (int)(intptr_t)argument;

	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		return duplicate_from(fd, number, cmd == F_DUPFD ? 0 : O_CLOEXEC, caller);
	if (!wrap_is_rsocket(fd, &rsocket))
		return real.fcntl(fd, cmd, argument);
	switch (cmd) {
	case F_GETFL:
	case F_SETFL:
	case F_GETFD:
	case F_SETFD:
		return rfcntl(rsocket.fd, cmd, number);
	default:
		return real.fcntl(fd, cmd, argument);
	}
}

/* Every argument of fcntl() fits into a pointer. Commands without an argument ignore it. */
EXPORT int fcntl(int fd, int cmd, ...)
{
	DEFERS_CANCEL;
	va_list arguments;
	void *argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return wrap_descriptor_control(fd, cmd, argument, __builtin_return_address(0));
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	DEFERS_CANCEL;
	va_list arguments;
	void *argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return wrap_descriptor_control(fd, cmd, argument, __builtin_return_address(0));
}

static int set_flag(int rsocket, int get, int set, int flag, bool is_on)
{
	int flags = rfcntl(rsocket, get);

	return rfcntl(rsocket, set, is_on ? flags | flag : flags & ~flag);
}

/* The number of bytes that can be read now; the data is neither copied nor dequeued. */
static int readable_bytes(int rsocket)
{
	ssize_t count = rrecv(rsocket, NULL, INT_MAX, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	return count > 0 ? (int)count : 0;
}

/*
 * Requests about interfaces and routes (netdevice(7)): they do not depend on the socket and are
 * passed to the kernel.
 */
static bool is_of_network(unsigned long request)
{
	return request >= SIOCADDRT && request >> 8 == SIOCADDRT >> 8;
}

static int ask_kernel(int domain, unsigned long request, void *argument)
{
	int fd = real.socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error, ret;

	if (fd < 0)
		return -1;
	ret = real.ioctl(fd, request, argument);
	error = errno;
	real_close(fd);
	errno = error;
	return ret;
}

/*
 * The process that receives signals of the descriptor. The placeholder stores it as a socket does.
 */
static int notify_owner(int fd, int *owner)
{
	*owner = real.fcntl(fd, F_GETOWN, NULL);
	return 0;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);
	va_list arguments;
	void *argument;
	int ret = 0;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!sock)
		return real.ioctl(fd, request, argument);
	switch (request) {
	case FIONBIO:
		ret = set_flag(sock->rsocket, F_GETFL, F_SETFL, O_NONBLOCK, *(int *)argument);
		break;
	case FIOCLEX:
	case FIONCLEX:
		ret = set_flag(sock->rsocket, F_GETFD, F_SETFD, FD_CLOEXEC, request == FIOCLEX);
		break;
	case FIONREAD:
		*(int *)argument = readable_bytes(sock->rsocket);
		break;
	case TIOCOUTQ:
		*(int *)argument = 0;
		break;
	case FIOSETOWN:
	case SIOCSPGRP:
		ret = real.fcntl(fd, F_SETOWN, (void *)(intptr_t) * (int *)argument);
		break;
	case FIOGETOWN:
	case SIOCGPGRP:
		ret = notify_owner(fd, argument);
		break;
	case SIOCATMARK:
		/* Rsockets have no urgent data. */
		*(int *)argument = 0;
		break;
	default:
		ret = is_of_network(request) ? ask_kernel(sock->domain, request, argument) :
					       real.ioctl(fd, request, argument);
		break;
	}
	return (int)wrap_done(sock, ret);
}

static mode_t as_socket(mode_t mode)
{
	return (mode & ~(mode_t)S_IFMT) | S_IFSOCK;
}

EXPORT int fstat(int fd, struct stat *stat)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);
	int ret = real.fstat(fd, stat);

	if (!sock)
		return ret;
	if (!ret)
		stat->st_mode = as_socket(stat->st_mode);
	return (int)wrap_done(sock, ret);
}

EXPORT int fstat64(int fd, struct stat64 *stat)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);
	int ret = real.fstat64(fd, stat);

	if (!sock)
		return ret;
	if (!ret)
		stat->st_mode = as_socket(stat->st_mode);
	return (int)wrap_done(sock, ret);
}

/* The placeholder may be seekable; a socket is not. */
EXPORT off64_t lseek64(int fd, off64_t offset, int whence)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.lseek64(fd, offset, whence);
	sock_put(sock);
	errno = ESPIPE;
	return -1;
}

EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	DEFERS_CANCEL;
	off64_t at = lseek64(fd, offset, whence);

	/* A 32-bit off_t can overflow. */
	if (at == (off_t)at)
		return (off_t)at;
	errno = EOVERFLOW;
	return -1;
}
