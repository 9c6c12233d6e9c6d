/* SPDX-License-Identifier: BSD-2-Clause */

/* The names below are those of the C library's own symbols: none may be renamed by what asks for large files. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/sock.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* How sockets come to be, and by an address and a peer. */

#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* A rsocket if there can be one; the kernel's if not. */
static int open_rdma(int domain, int type, int protocol)
{
	int number = sock_reserve();
	int rsocket;

	if (number < 0)
		return number;
	rsocket = preload_rsocket(domain, type, protocol);
	if (rsocket >= 0)
		return sock_open_rdma(number, rsocket, domain, type & ~TYPE_FLAGS);
	real.close(number);
	return real.socket(domain, type, protocol);
}

EXPORT int socket(int domain, int type, int protocol)
{
	/* Those that the libraries need for themselves are none. */
	if (preload_is_ours(__builtin_return_address(0)) || !preload_wants(domain, type, protocol))
		return real.socket(domain, type, protocol);
	if (preload_is_fork_safe() && (type & ~TYPE_FLAGS) == SOCK_STREAM)
		return tcp_open(domain, type, protocol);
	return open_rdma(domain, type, protocol);
}

/* What was set on the rsocket, for the kernel's that takes its place. */
static void copy_options(int from, int to)
{
	static const struct {
		int level;
		int name;
	} options[] = {{SOL_SOCKET, SO_REUSEADDR},
		       {SOL_SOCKET, SO_KEEPALIVE},
		       {IPPROTO_TCP, TCP_NODELAY},
		       {IPPROTO_IPV6, IPV6_V6ONLY}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		int value = 0;
		socklen_t bytes = sizeof(value);

		if (!rgetsockopt(from, options[i].level, options[i].name, &value, &bytes) && value)
			real.setsockopt(to, options[i].level, options[i].name, &value, bytes);
	}
	real.fcntl(to, F_SETFL, rfcntl(from, F_GETFL) & O_NONBLOCK);
}

/* No RDMA leads there: from now on it is the kernel's. */
static int fall_back(struct sock *sock)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);
	int fd = real.socket(sock->domain, sock->type, 0);

	if (fd < 0)
		return fd;
	copy_options(sock->rsocket, fd);
	if (sock->was_bound && !rgetsockname(sock->rsocket, (struct sockaddr *)&addr, &bytes))
		real.bind(fd, (struct sockaddr *)&addr, bytes);
	sock_become_plain(sock, fd);
	return 0;
}

EXPORT int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	struct sock *sock = wrap_find(fd);
	int ret;

	if (!sock)
		return real.bind(fd, addr.__sockaddr__, bytes);
	ret = rbind(sock->rsocket, addr.__sockaddr__, bytes);
	sock->was_bound = !ret;
	/* An address that no RDMA device has. */
	if (ret && errno == ENODEV && !fall_back(sock))
		ret = real.bind(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, ret);
}

EXPORT int listen(int fd, int backlog)
{
	struct sock *sock = sock_find(fd);
	int ret;

	if (!sock)
		return real.listen(fd, backlog);
	if (sock_kind_of(sock) == SOCK_RDMA)
		return (int)wrap_done(sock, rlisten(sock->rsocket, backlog));
	ret = real.listen(fd, backlog);
	if (!ret)
		tcp_listens(sock, fd);
	return (int)wrap_done(sock, ret);
}

static int accept_rdma(const struct sock *sock, struct sockaddr *addr, socklen_t *bytes, int flags)
{
	int number = sock_reserve();
	int rsocket;

	if (number < 0)
		return number;
	rsocket = raccept(sock->rsocket, addr, bytes);
	if (rsocket < 0) {
		int error = errno;

		real.close(number);
		errno = error;
		return rsocket;
	}
	if (flags & SOCK_NONBLOCK)
		rfcntl(rsocket, F_SETFL, O_NONBLOCK);
	if (flags & SOCK_CLOEXEC)
		rfcntl(rsocket, F_SETFD, FD_CLOEXEC);
	return sock_open_rdma(number, rsocket, sock->domain, sock->type);
}

static int accept_flags(int fd, struct sockaddr *addr, socklen_t *bytes, int flags)
{
	struct sock *sock = sock_find(fd);
	int ret;

	if (!sock)
		return real.accept4(fd, addr, bytes, flags);
	if (sock_kind_of(sock) == SOCK_RDMA)
		return (int)wrap_has_read(sock, accept_rdma(sock, addr, bytes, flags));
	ret = real.accept4(fd, addr, bytes, flags);
	if (ret >= 0 && sock_kind_of(sock) == SOCK_TCP_LISTENS)
		ret = tcp_accepted(sock, ret);
	return (int)wrap_done(sock, ret);
}

EXPORT int accept(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	return accept_flags(fd, addr.__sockaddr__, bytes, 0);
}

EXPORT int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *bytes, int flags)
{
	return accept_flags(fd, addr.__sockaddr__, bytes, flags);
}

/* Whether this outcome is a program's own, so that TCP would not do better. */
static bool is_outcome(int ret)
{
	return !ret || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN ||
	       errno == EINTR || errno == EFAULT || errno == EINVAL || errno == EAFNOSUPPORT;
}

static int connect_rdma(struct sock *sock, int fd, const struct sockaddr *addr, socklen_t bytes)
{
	int ret = rconnect(sock->rsocket, addr, bytes);

	if (is_outcome(ret) || fall_back(sock))
		return ret;
	return real.connect(fd, addr, bytes);
}

EXPORT int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	struct sock *sock = sock_find(fd);
	int ret;

	if (!sock)
		return real.connect(fd, addr.__sockaddr__, bytes);
	if (sock_kind_of(sock) == SOCK_RDMA)
		return (int)wrap_done(sock, connect_rdma(sock, fd, addr.__sockaddr__, bytes));
	ret = real.connect(fd, addr.__sockaddr__, bytes);
	if (!ret || errno == EINPROGRESS)
		tcp_connects(sock, fd);
	return (int)wrap_done(sock, ret);
}

EXPORT int shutdown(int fd, int how)
{
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.shutdown(fd, how);
	return (int)wrap_done(sock, rshutdown(sock->rsocket, how));
}

EXPORT int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getpeername(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, rgetpeername(sock->rsocket, addr.__sockaddr__, bytes));
}

EXPORT int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getsockname(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, rgetsockname(sock->rsocket, addr.__sockaddr__, bytes));
}

/* An option that rsockets do not have is one that a kernel's TCP does not have. */
static ssize_t option_done(struct sock *sock, int ret)
{
	if (ret < 0 && errno == ENOTSUP && sock->type == SOCK_STREAM)
		errno = ENOPROTOOPT;
	return wrap_done(sock, ret);
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.setsockopt(fd, level, name, value, bytes);
	return (int)option_done(sock, rsetsockopt(sock->rsocket, level, name, value, bytes));
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getsockopt(fd, level, name, value, bytes);
	return (int)option_done(sock, rgetsockopt(sock->rsocket, level, name, value, bytes));
}
