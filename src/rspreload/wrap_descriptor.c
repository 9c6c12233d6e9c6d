/* SPDX-License-Identifier: BSD-2-Clause */

/* The names below are those of the C library's own symbols: none may be renamed by what asks for large files. */
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
#include <unistd.h>

#include "rspreload/real.h"
#include "rspreload/wrap.h"

/* What can be done to any descriptor: closing, duplicating, flags. */

EXPORT int close(int fd)
{
	struct sock *sock;
	bool is_last;
	int ret;

	if (sock_is_borrowed())
		return real.close(fd);
	sock = sock_unname(fd, &is_last);
	ret = real.close(fd);
	if (!sock)
		return ret;
	/* What stood behind the number says nothing; the rsocket does. */
	ret = is_last ? sock_end(sock) : 0;
	return (int)wrap_done(sock, ret);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	if (!(flags & (int)CLOSE_RANGE_CLOEXEC) && !sock_is_borrowed())
		sock_unname_range(first, last);
	return real.close_range(first, last, flags);
}

EXPORT void closefrom(int first)
{
	close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
}

/* A new number of the same. If there is no memory for that, the number is not given. */
static int name(struct sock *sock, int number)
{
	int ret = number < 0 ? 0 : sock_name(sock, number);

	if (ret) {
		real.close(number);
		errno = -ret;
		number = -1;
	}
	return (int)wrap_done(sock, number);
}

/* Place-holders do not outlive execve(); what can become an rsocket afterwards may. */
static int cloexec_of(const struct sock *sock)
{
	return sock_kind_of(sock) == SOCK_RDMA ? O_CLOEXEC : 0;
}

static int duplicate_from(int fd, int least, int flags)
{
	struct sock *sock = sock_is_borrowed() ? NULL : sock_find(fd);
	int cmd;

	if (sock)
		flags |= cloexec_of(sock);
	cmd = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
	if (!sock)
		return real.fcntl(fd, cmd, least);
	return name(sock, real.fcntl(fd, cmd, least));
}

static int duplicate_to(int fd, int to, int flags)
{
	struct sock *sock = sock_is_borrowed() ? NULL : sock_find(fd);
	struct sock *before = NULL;
	bool is_last = false;
	int ret;

	ret = real.dup3(fd, to, flags | (sock ? cloexec_of(sock) : 0));
	if (ret >= 0 && !sock_is_borrowed())
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
	return duplicate_from(fd, 0, 0);
}

EXPORT int dup2(int fd, int to)
{
	if (fd == to)
		return real.fcntl(fd, F_GETFD) < 0 ? -1 : to;
	return duplicate_to(fd, to, 0);
}

EXPORT int dup3(int fd, int to, int flags)
{
	if (fd == to) {
		errno = EINVAL;
		return -1;
	}
	return duplicate_to(fd, to, flags);
}

static int control(int fd, int cmd, void *argument)
{
	struct sock *sock;
	int number = (int)(intptr_t)argument;

	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		return duplicate_from(fd, number, cmd == F_DUPFD ? 0 : O_CLOEXEC);
	sock = wrap_find(fd);
	if (!sock)
		return real.fcntl(fd, cmd, argument);
	switch (cmd) {
	case F_GETFL:
	case F_SETFL:
	case F_GETFD:
	case F_SETFD:
		return (int)wrap_done(sock, rfcntl(sock->rsocket, cmd, number));
	default:
		return (int)wrap_done(sock, real.fcntl(fd, cmd, argument));
	}
}

/* Every argument that there can be fits into a pointer, and who has none leaves it unread. */
EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, cmd, argument);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, cmd);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(fd, cmd, argument);
}

static int set_flag(int rsocket, int get, int set, int flag, bool is_on)
{
	int flags = rfcntl(rsocket, get);

	return rfcntl(rsocket, set, is_on ? flags | flag : flags & ~flag);
}

/* How much could be read at once: a look that neither copies nor takes. */
static int readable_bytes(int rsocket)
{
	ssize_t count = rrecv(rsocket, NULL, INT_MAX, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	return count > 0 ? (int)count : 0;
}

/* Questions about interfaces and routes: any socket answers them, and the kernel knows (netdevice(7)). */
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
	real.close(fd);
	errno = error;
	return ret;
}

/* Who is to be signalled: what stands behind the number remembers that as a socket would. */
static int tell_owner(int fd, int *owner)
{
	*owner = real.fcntl(fd, F_GETOWN, NULL);
	return 0;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
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
		ret = tell_owner(fd, argument);
		break;
	case SIOCATMARK:
		/* There is no urgent data. */
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
	struct sock *sock = wrap_find(fd);
	int ret = real.fstat64(fd, stat);

	if (!sock)
		return ret;
	if (!ret)
		stat->st_mode = as_socket(stat->st_mode);
	return (int)wrap_done(sock, ret);
}
