/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/addr.h"
#include "rsocket/calls.h"
#include "rsocket/dgram.h"
#include "rsocket/iov.h"
#include "rsocket/service.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

/* The public calls: each finds its rsocket and turns -errno into the convention of system calls. */

ssize_t call_result(ssize_t ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

static int result(int ret)
{
	return (int)call_result(ret);
}

static int check(const struct rsock *sock)
{
	if (atomic_load(&sock->is_closing))
		return -EBADF;
	if (atomic_load(&sock->is_inherited))
		return -ENODEV;
	return rsock_is_interrupted(sock) ? -EDEADLK : 0;
}

int call_begin(int fd, struct rsock **sock)
{
	int ret;

	*sock = rsock_find(fd);
	if (!*sock)
		return -EBADF;
	ret = check(*sock);
	if (ret)
		rsock_put(*sock);
	return ret;
}

/*
 * As a kernel would do it, a process that ends in order closes what it leaves open. It does not wait
 * long for a peer that does not take part.
 */
#define LEAVE_NS (2 * CLOCK_NS_PER_S)

__attribute__((destructor)) static void leave(void)
{
	rsock_leave_all(clock_now_ns() + LEAVE_NS);
}

static void after_fork(void)
{
	rsock_after_fork();
	wait_after_fork();
	service_after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

static int make(int domain, int type, int protocol, struct rsock **sock)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (domain != AF_INET && domain != AF_INET6)
		return -EAFNOSUPPORT;
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return -ESOCKTNOSUPPORT;
	if (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return -EPROTONOSUPPORT;
	return kind == SOCK_STREAM ? stream_create(domain, NULL, sock) : dgram_create(domain, sock);
}

/* Makes a new rsocket findable; it is the map's from then on. */
static int publish(struct rsock *sock)
{
	int ret = rsock_publish(sock);

	if (!ret)
		return sock->fd;
	sock->ops->close(sock);
	rsock_put(sock);
	return ret;
}

int rsocket(int domain, int type, int protocol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rsock *sock;
	int ret;

	pthread_once(&once, watch_forks);
	ret = make(domain, type, protocol, &sock);
	if (ret)
		return result(ret);
	if (type & SOCK_NONBLOCK)
		atomic_fetch_or(&sock->status_flags, O_NONBLOCK);
	if (type & SOCK_CLOEXEC)
		atomic_store(&sock->descriptor_flags, FD_CLOEXEC);
	return result(publish(sock));
}

int rclose(int socket)
{
	struct rsock *sock = rsock_find(socket);
	int ret = 0;

	if (!sock)
		return result(-EBADF);
	if (rsock_is_interrupted(sock))
		ret = -EDEADLK;
	else if (atomic_exchange(&sock->is_closing, true))
		ret = -EBADF;
	if (ret) {
		rsock_put(sock);
		return result(ret);
	}
	/* Its memory stays: a thread that was left behind may have had it in its hands. */
	if (atomic_load(&sock->is_inherited)) {
		rsock_unpublish(socket);
		sock->ops->disown(sock);
		close(sock->fd);
		return 0;
	}
	rsock_lock(sock);
	rsock_wake(sock);
	rsock_unlock(sock);
	sock->ops->close(sock);
	rsock_put(rsock_unpublish(socket));
	rsock_put(sock);
	return 0;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = sock->ops->bind(sock, addr, addrlen);
	rsock_put(sock);
	return result(ret);
}

int rlisten(int socket, int backlog)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = sock->ops->listen(sock, backlog);
	rsock_put(sock);
	return result(ret);
}

static int tell_name(struct rsock *sock, bool is_peer, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sockaddr_storage name;
	int ret;

	/* Without room for anything nobody looks where it is. */
	if (!addrlen || (!addr && *addrlen))
		return -EFAULT;
	ret = sock->ops->name(sock, is_peer, &name);
	if (!ret)
		addr_give(&name, addr, addrlen);
	return ret;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *sock, *accepted;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = addr && !addrlen ? -EFAULT : sock->ops->accept(sock, &accepted);
	rsock_put(sock);
	if (ret)
		return result(ret);
	/* Who is gone already has no name any more, but was here. */
	if (addr && tell_name(accepted, true, addr, addrlen))
		*addrlen = 0;
	return result(publish(accepted));
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = sock->ops->connect(sock, addr, addrlen);
	rsock_put(sock);
	return result(ret);
}

int rshutdown(int socket, int how)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = sock->ops->shutdown(sock, how);
	rsock_put(sock);
	return result(ret);
}

static int name_of(int socket, bool is_peer, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = tell_name(sock, is_peer, addr, addrlen);
	rsock_put(sock);
	return result(ret);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_of(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return name_of(socket, false, addr, addrlen);
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	rsock_lock(sock);
	ret = option_set(sock, level, optname, optval, optlen);
	rsock_unlock(sock);
	rsock_put(sock);
	return result(ret);
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	rsock_lock(sock);
	ret = option_get(sock, level, optname, optval, optlen);
	rsock_unlock(sock);
	rsock_put(sock);
	return result(ret);
}

/* What F_SETFL can change; the rest of what F_GETFL says stays. */
#define SETTABLE (O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME)

static int control(struct rsock *sock, int cmd, int argument)
{
	switch (cmd) {
	case F_GETFL:
		return atomic_load(&sock->status_flags);
	case F_SETFL:
		atomic_store(&sock->status_flags, O_RDWR | (argument & SETTABLE));
		return 0;
	case F_GETFD:
		return atomic_load(&sock->descriptor_flags);
	case F_SETFD:
		atomic_store(&sock->descriptor_flags, argument & FD_CLOEXEC);
		return 0;
	default:
		return -ENOTSUP;
	}
}

int rfcntl(int socket, int cmd, ...)
{
	struct rsock *sock;
	va_list arguments;
	int argument = 0;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	if (cmd == F_SETFL || cmd == F_SETFD) {
		va_start(arguments, cmd);
		argument = va_arg(arguments, int);
		va_end(arguments);
	}
	ret = control(sock, cmd, argument);
	rsock_put(sock);
	return result(ret);
}
