/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "rsocket/addr.h"
#include "rsocket/calls.h"
#include "rsocket/dgram.h"
#include "rsocket/iov.h"
#include "rsocket/repoll.h"
#include "rsocket/ring_memory.h"
#include "rsocket/service.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

/*
 * The public calls. Each call finds its rsocket and converts -errno to the convention of system
 * calls.
 */

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

static int calls_check(const struct rsock *sock)
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
	ret = calls_check(*sock);
	if (ret)
		rsock_put(*sock);
	return ret;
}

/*
 * At a normal exit of the process, open rsockets are closed, as the kernel does with sockets. The
 * exit waits at most this long for peers that do not respond.
 */
#define LEAVE_NS (2 * CLOCK_NS_PER_S)

__attribute__((destructor)) static void leave(void)
{
	int cancel_state = cancel_disable();

	rsock_leave_all(clock_now_ns() + LEAVE_NS);
	cancel_restore(cancel_state);
}

/*
 * The locks of the lists that the child traverses. No thread that holds one of them waits for a
 * lock of librdmacm or libibverbs, so the order of the fork() handlers of these libraries does not
 * matter. The locks of rsockets are not taken: the child only closes its copies.
 */
static void calls_before_fork(void)
{
	repoll_before_fork();
	wait_before_fork();
	service_before_fork();
}

static void calls_after_fork_in_parent(void)
{
	service_after_fork_in_parent();
	wait_after_fork_in_parent();
	repoll_after_fork_in_parent();
}

static void calls_after_fork_in_child(void)
{
	rsock_after_fork();
	repoll_after_fork_in_child();
	wait_after_fork_in_child();
	service_after_fork_in_child();
	ring_memory_after_fork();
}

static void calls_watch_forks(void)
{
	pthread_atfork(calls_before_fork, calls_after_fork_in_parent, calls_after_fork_in_child);
}

void calls_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, calls_watch_forks);
}

static int make(int domain, int type, int protocol, struct rsock **sock)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* socket(2) has three other errnos for these cases. rsocket() of rdma-core has one. */
	if ((domain != AF_INET && domain != AF_INET6) ||
	    (kind != SOCK_STREAM && kind != SOCK_DGRAM) ||
	    (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)))
		return -EOPNOTSUPP;
	return kind == SOCK_STREAM ? stream_create(domain, NULL, sock) : dgram_create(domain, sock);
}

/* Publishes a new rsocket; the map owns the first reference from then on. */
static int calls_publish(struct rsock *sock)
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
	struct rsock *sock;
	int ret;

	calls_init();
	ret = make(domain, type, protocol, &sock);
	if (ret)
		return result(ret);
	if (type & SOCK_NONBLOCK)
		atomic_fetch_or(&sock->status_flags, O_NONBLOCK);
	if (type & SOCK_CLOEXEC)
		atomic_store(&sock->descriptor_flags, FD_CLOEXEC);
	return result(calls_publish(sock));
}

int rclose(int socket)
{
	struct rsock *sock = rsock_find(socket);
	int cancel_state, ret = 0;

	if (!sock)
		return result(repoll_close(socket));
	if (rsock_is_interrupted(sock))
		ret = -EDEADLK;
	else if (atomic_exchange(&sock->is_closing, true))
		ret = -EBADF;
	if (ret) {
		rsock_put(sock);
		return result(ret);
	}
	repoll_forget(sock);
	/*
	 * The memory is not freed: a thread of the parent may have used it at the time of the
	 * fork().
	 */
	if (atomic_load(&sock->is_inherited)) {
		rsock_unpublish(socket);
		sock->ops->disown(sock);
		sys_close(sock->fd);
		return 0;
	}
	/* If the thread were cancelled during the close, no other thread could complete it. */
	cancel_state = cancel_disable();
	rsock_lock(sock);
	rsock_wake(sock);
	rsock_unlock(sock);
	sock->ops->close(sock);
	rsock_announce_end(sock);
	rsock_put(rsock_unpublish(socket));
	rsock_put(sock);
	cancel_restore(cancel_state);
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

static int copy_name(struct rsock *sock, bool is_peer, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sockaddr_storage name;
	int ret;

	/* With a buffer length of 0, addr is not accessed and may be NULL. */
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
	/* A peer that has disconnected already has no address. raccept() succeeds all the same. */
	if (addr && copy_name(accepted, true, addr, addrlen))
		*addrlen = 0;
	return result(calls_publish(accepted));
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
	int cancel_state;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	/*
	 * The shutdown completes as a whole: the thread is not cancelled while it notifies the
	 * peer.
	 */
	cancel_state = cancel_disable();
	ret = sock->ops->shutdown(sock, how);
	cancel_restore(cancel_state);
	rsock_put(sock);
	return result(ret);
}

static int calls_name_of(int socket, bool is_peer, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *sock;
	int ret = call_begin(socket, &sock);

	if (ret)
		return result(ret);
	ret = copy_name(sock, is_peer, addr, addrlen);
	rsock_put(sock);
	return result(ret);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return calls_name_of(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return calls_name_of(socket, false, addr, addrlen);
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

/* The flags that F_SETFL changes; the others of F_GETFL are constant. */
#define SETTABLE (O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME)

static int calls_control(struct rsock *sock, int cmd, int argument)
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
	ret = calls_control(sock, cmd, argument);
	rsock_put(sock);
	return result(ret);
}
