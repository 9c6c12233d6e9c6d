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
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

#include "base/util.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/sock.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* Calls that create, bind and connect sockets. */

#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* Creates an rsocket; if that fails, a socket of the kernel. */
static int open_rdma(int domain, int type, int protocol)
{
	int number = sock_reserve();
	int rsocket;

	if (number < 0)
		return number;
	rsocket = preload_rsocket(domain, type, protocol);
	if (rsocket >= 0)
		return sock_open_rdma(number, rsocket, domain, type & ~TYPE_FLAGS);
	real_close(number);
	return real.socket(domain, type, protocol);
}

static int open_plain(int domain, int type, int protocol, const void *caller)
{
	int fd = real.socket(domain, type, protocol);

	sock_number_reused(fd, caller);
	return fd;
}

EXPORT int socket(int domain, int type, int protocol)
{
	DEFERS_CANCEL;
	const void *caller = __builtin_return_address(0);

	/* Sockets that librdmacm and libibverbs create for themselves do not become rsockets. */
	if (preload_is_ours(caller) || !preload_wants(domain, type, protocol))
		return open_plain(domain, type, protocol, caller);
	if (preload_is_fork_safe() && (type & ~TYPE_FLAGS) == SOCK_STREAM)
		return tcp_open(domain, type, protocol);
	return open_rdma(domain, type, protocol);
}

/* Copies the options of the rsocket to the kernel's socket that replaces it. */
static void wrap_socket_copy_options(int from, int to)
{
	static const struct {
		int level;
		int name;
	} options[] = {{SOL_SOCKET, SO_REUSEADDR},
		       {SOL_SOCKET, SO_KEEPALIVE},
		       {IPPROTO_TCP, TCP_NODELAY},
		       {IPPROTO_IPV6, IPV6_V6ONLY}};

	for (size_t i = 0; i < COUNT(options); i++) {
		int value = 0;
		socklen_t bytes = sizeof(value);

		if (!rgetsockopt(from, options[i].level, options[i].name, &value, &bytes) && value)
			real.setsockopt(to, options[i].level, options[i].name, &value, bytes);
	}
	real.fcntl(to, F_SETFL, rfcntl(from, F_GETFL) & O_NONBLOCK);
}

/* The address cannot be reached by RDMA: replaces the rsocket with a socket of the kernel. */
static int fall_back(struct sock *sock)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);
	int fd = real.socket(sock->domain, sock->type, 0);

	if (fd < 0)
		return fd;
	wrap_socket_copy_options(sock->rsocket, fd);
	if (sock->was_bound && !rgetsockname(sock->rsocket, (struct sockaddr *)&addr, &bytes))
		real.bind(fd, (struct sockaddr *)&addr, bytes);
	sock_become_plain(sock, fd);
	return 0;
}

EXPORT int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);
	int ret;

	if (!sock)
		return real.bind(fd, addr.__sockaddr__, bytes);
	ret = rbind(sock->rsocket, addr.__sockaddr__, bytes);
	sock->was_bound = !ret;
	/* No RDMA device has this address. */
	if (ret && errno == ENODEV && !fall_back(sock))
		ret = real.bind(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, ret);
}

EXPORT int listen(int fd, int backlog)
{
	DEFERS_CANCEL;
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

static void accept_cancelled(void *number)
{
	real_close(*(int *)number);
}

static int accept_rdma(struct wrap_rsocket listener, struct sockaddr *addr, socklen_t *bytes,
		       int flags)
{
	int number = sock_reserve();
	int rsocket;

	if (number < 0)
		return number;
	pthread_cleanup_push(accept_cancelled, &number);
	rsocket = raccept(listener.fd, addr, bytes);
	pthread_cleanup_pop(0);
	if (rsocket < 0) {
		int error = errno;

		real_close(number);
		errno = error;
		return rsocket;
	}
	if (flags & SOCK_NONBLOCK)
		rfcntl(rsocket, F_SETFL, O_NONBLOCK);
	if (flags & SOCK_CLOEXEC)
		rfcntl(rsocket, F_SETFD, FD_CLOEXEC);
	return sock_open_rdma(number, rsocket, listener.domain, listener.type);
}

static int accept_plain(int fd, struct sockaddr *addr, socklen_t *bytes, int flags,
			const void *caller)
{
	int ret = real.accept4(fd, addr, bytes, flags);

	sock_number_reused(ret, caller);
	return ret;
}

static int accept_flags(int fd, struct sockaddr *addr, socklen_t *bytes, int flags,
			const void *caller)
{
	struct wrap_rsocket listener;
	struct sock *sock;
	int ret;

	if (wrap_is_rsocket(fd, &listener))
		return accept_rdma(listener, addr, bytes, flags);
	sock = sock_find(fd);
	if (!sock)
		return accept_plain(fd, addr, bytes, flags, caller);
	pthread_cleanup_push(wrap_cancelled, sock);
	ret = accept_plain(fd, addr, bytes, flags, caller);
	pthread_cleanup_pop(0);
	if (ret >= 0 && sock_kind_of(sock) == SOCK_TCP_LISTENS)
		ret = tcp_accepted(sock, ret);
	return (int)wrap_done(sock, ret);
}

EXPORT int accept(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	DEFERS_CANCEL;

	return accept_flags(fd, addr.__sockaddr__, bytes, 0, __builtin_return_address(0));
}

EXPORT int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *bytes, int flags)
{
	DEFERS_CANCEL;

	return accept_flags(fd, addr.__sockaddr__, bytes, flags, __builtin_return_address(0));
}

/*
 * Whether to report this result to the program: success, in progress, or an error that TCP would
 * return, too.
 */
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

static int connect_tcp(struct sock *sock, int fd, const struct sockaddr *addr, socklen_t bytes)
{
	int ret = real.connect(fd, addr, bytes);

	if (!ret || errno == EINPROGRESS)
		tcp_connects(sock, fd);
	return ret;
}

EXPORT int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = sock_find(fd);
	int ret;

	if (!sock)
		return real.connect(fd, addr.__sockaddr__, bytes);
	pthread_cleanup_push(wrap_cancelled, sock);
	if (sock_kind_of(sock) == SOCK_RDMA)
		ret = connect_rdma(sock, fd, addr.__sockaddr__, bytes);
	else
		ret = connect_tcp(sock, fd, addr.__sockaddr__, bytes);
	pthread_cleanup_pop(0);
	return (int)wrap_done(sock, ret);
}

EXPORT int shutdown(int fd, int how)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.shutdown(fd, how);
	return (int)wrap_done(sock, rshutdown(sock->rsocket, how));
}

EXPORT int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getpeername(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, rgetpeername(sock->rsocket, addr.__sockaddr__, bytes));
}

EXPORT int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getsockname(fd, addr.__sockaddr__, bytes);
	return (int)wrap_done(sock, rgetsockname(sock->rsocket, addr.__sockaddr__, bytes));
}

/*
 * An option that rsockets do not support gets the errno with which TCP rejects an unknown option.
 */
static ssize_t option_done(struct sock *sock, int ret)
{
	if (ret < 0 && errno == ENOTSUP && sock->type == SOCK_STREAM)
		errno = ENOPROTOOPT;
	return wrap_done(sock, ret);
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.setsockopt(fd, level, name, value, bytes);
	return (int)option_done(sock, rsetsockopt(sock->rsocket, level, name, value, bytes));
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	DEFERS_CANCEL;
	struct sock *sock = wrap_find(fd);

	if (!sock)
		return real.getsockopt(fd, level, name, value, bytes);
	return (int)option_done(sock, rgetsockopt(sock->rsocket, level, name, value, bytes));
}
