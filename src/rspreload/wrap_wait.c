/* SPDX-License-Identifier: BSD-2-Clause */

/* The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would rename some of them. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "base/clock.h"
#include "base/select.h"
#include "rspreload/epoll.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* Calls that wait for several descriptors. */

/* The rsocket of a number, or -1. A SOCK_TCP_PASSIVE socket has no events before it becomes an rsocket. */
static int rsocket_of(int number)
{
	struct sock *sock = sock_find(number);
	int rsocket = -1;

	if (!sock)
		return -1;
	/* tcp_settle() returns 0 for this call. */
	if (sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		(void)!tcp_settle(sock, TCP_CALL_POLL);
	if (sock_kind_of(sock) == SOCK_RDMA)
		rsocket = sock->rsocket;
	sock_put(sock);
	return rsocket;
}

static bool has_any(const struct pollfd *fds, size_t count)
{
	bool has = false;

	for (size_t i = 0; i < count && !has; i++) {
		struct sock *sock = sock_find(fds[i].fd);

		has = sock != NULL;
		if (sock)
			sock_put(sock);
	}
	return has;
}

static int poll_replaced(struct pollfd *replaced, struct pollfd *fds, nfds_t count, int timeout_ms,
			 const sigset_t *mask)
{
	bool has_rdma = false;
	int ret;

	for (size_t i = 0; i < count; i++) {
		int rsocket = rsocket_of(fds[i].fd);

		replaced[i] = fds[i];
		if (rsocket < 0)
			continue;
		replaced[i].fd = rsocket;
		has_rdma = true;
	}
	ret = has_rdma ? preload_rpoll(replaced, count, timeout_ms, mask) :
			 preload_poll(replaced, count, timeout_ms, mask);
	for (size_t i = 0; ret >= 0 && i < count; i++)
		fds[i].revents = replaced[i].revents;
	return ret;
}

/* poll() with the numbers of rsockets replaced by the rsockets. */
static int poll_crowd(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask)
{
	struct pollfd *replaced = calloc(count + 1, sizeof(*replaced));
	int ret;

	if (!replaced) {
		errno = ENOMEM;
		return -1;
	}
	pthread_cleanup_push(free, replaced);
	ret = poll_replaced(replaced, fds, count, timeout_ms, mask);
	/* free() does not change errno. */
	pthread_cleanup_pop(1);
	return ret;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	DEFERS_CANCEL;

	if (preload_is_polling())
		return preload_sleep(fds, count, timeout);
	return has_any(fds, count) ? poll_crowd(fds, count, timeout, NULL) :
				     real.poll(fds, count, timeout);
}

/* Converts a timeout. -1 and errno: the timeout is invalid. */
static int wrap_wait_to_ms(const struct timespec *time, int *timeout_ms)
{
	int ret = select_timeout_ms(time, timeout_ms);

	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	DEFERS_CANCEL;
	int timeout_ms;

	if (!has_any(fds, count))
		return real.ppoll(fds, count, timeout, mask);
	return wrap_wait_to_ms(timeout, &timeout_ms) ? -1 :
						       poll_crowd(fds, count, timeout_ms, mask);
}

static void wrap_wait_select_cancelled(void *call)
{
	select_end(call);
}

/* Executes and ends the call. Returns its result, or -errno. */
static int select_once(struct select_call *call, const struct timespec *timeout,
		       const sigset_t *mask)
{
	int timeout_ms;
	int ret = select_timeout_ms(timeout, &timeout_ms);

	pthread_cleanup_push(wrap_wait_select_cancelled, call);
	if (!ret && poll_crowd(call->fds, call->count, timeout_ms, mask) < 0)
		ret = -errno;
	if (!ret)
		ret = select_report(call);
	pthread_cleanup_pop(1);
	return ret;
}

/* True: a set contains a socket of this module; *ret is the result of the call, or -errno. */
static bool select_crowd(int most, fd_set *const sets[SELECT_SETS], const struct timespec *timeout,
			 const sigset_t *mask, int *ret)
{
	struct select_call call;

	/* If the arguments are invalid or memory is exhausted, the call is passed to the kernel. */
	if (select_begin(&call, most, sets))
		return false;
	if (has_any(call.fds, call.count)) {
		*ret = select_once(&call, timeout, mask);
		return true;
	}
	select_end(&call);
	return false;
}

static int select_result(int ret)
{
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

EXPORT int select(int most, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	DEFERS_CANCEL;
	fd_set *const sets[SELECT_SETS] = {in, out, except};
	uint64_t start_ns = clock_now_ns();
	struct timespec time;
	int ret;

	if (timeout && select_timespec(timeout, &time))
		return select_result(-EINVAL);
	if (!select_crowd(most, sets, timeout ? &time : NULL, NULL, &ret))
		return real.select(most, in, out, except, timeout);
	if (timeout)
		select_take(timeout, clock_now_ns() - start_ns);
	return select_result(ret);
}

EXPORT int pselect(int most, fd_set *in, fd_set *out, fd_set *except,
		   const struct timespec *timeout, const sigset_t *mask)
{
	DEFERS_CANCEL;
	fd_set *const sets[SELECT_SETS] = {in, out, except};
	int ret;

	if (!select_crowd(most, sets, timeout, mask, &ret))
		return real.pselect(most, in, out, except, timeout, mask);
	return select_result(ret);
}

/* Whether the kernel cannot report all events of this descriptor. A SOCK_EPOLL without a set has no rsockets. */
static bool epoll_has_rdma(struct sock *sock)
{
	if (!sock || sock_kind_of(sock) == SOCK_PLAIN)
		return false;
	return sock_kind_of(sock) != SOCK_EPOLL || atomic_load(&sock->set);
}

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	DEFERS_CANCEL;
	struct sock *sock = sock_find(fd);
	int ret;

	/* In the child of a vfork() all calls are passed to the kernel. */
	if (sock && sock_in_vfork_child()) {
		sock_put(sock);
		return real.epoll_ctl(epoll, op, fd, event);
	}
	if (sock && sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		tcp_settle_uncancelled(sock);
	if (!epoll_has_rdma(sock)) {
		if (sock)
			sock_put(sock);
		return real.epoll_ctl(epoll, op, fd, event);
	}
	ret = epoll_control(epoll, op, fd, sock, event);
	if (ret)
		errno = -ret;
	return (int)wrap_done(sock, ret ? -1 : 0);
}

/* The sock of an epoll descriptor that has a set, with a reference; else NULL. */
static struct sock *find_set(int epoll)
{
	struct sock *sock = sock_find(epoll);

	if (sock && atomic_load(&sock->set) && !sock_in_vfork_child())
		return sock;
	if (sock)
		sock_put(sock);
	return NULL;
}

static int wait_in(struct sock *set, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask)
{
	int ret;

	pthread_cleanup_push(wrap_cancelled, set);
	ret = epoll_set_wait(set, events, most, timeout_ms, mask);
	pthread_cleanup_pop(0);
	if (ret < 0) {
		errno = -ret;
		ret = -1;
	}
	return (int)wrap_done(set, ret);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	DEFERS_CANCEL;
	struct sock *set;

	if (preload_is_polling())
		return preload_sleep_in_epoll(epoll, events, most, timeout);
	set = find_set(epoll);
	return set ? wait_in(set, events, most, timeout, NULL) :
		     real.epoll_wait(epoll, events, most, timeout);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
		       const sigset_t *mask)
{
	DEFERS_CANCEL;
	struct sock *set = find_set(epoll);

	return set ? wait_in(set, events, most, timeout, mask) :
		     real.epoll_pwait(epoll, events, most, timeout, mask);
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask)
{
	DEFERS_CANCEL;
	struct sock *set = find_set(epoll);
	int timeout_ms;

	if (!set)
		return real.epoll_pwait2(epoll, events, most, timeout, mask);
	if (wrap_wait_to_ms(timeout, &timeout_ms))
		return (int)wrap_done(set, -1);
	return wait_in(set, events, most, timeout_ms, mask);
}

/* Programs compiled with _FORTIFY_SOURCE call these functions. `room` is the size of the array in bytes. */
void __chk_fail(void) __attribute__((noreturn));
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	DEFERS_CANCEL;

	if (count > room / sizeof(*fds))
		__chk_fail();
	return poll(fds, count, timeout);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t room)
{
	DEFERS_CANCEL;

	if (count > room / sizeof(*fds))
		__chk_fail();
	return ppoll(fds, count, timeout, mask);
}
