/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The functions below must have the symbol names of the C library. _FILE_OFFSET_BITS=64 would
 * rename some of them.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/select.h>

#include "base/clock.h"
#include "base/select.h"
#include "rspreload/epoll.h"
#include "rspreload/epoll_set.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* Calls that wait for several descriptors. */

/*
 * The descriptor by which rpoll() polls this number: an rsocket, or the repoll set of an epoll
 * descriptor. -1: the number itself. A SOCK_TCP_PASSIVE socket has no events before it becomes an
 * rsocket. -errno: fails.
 */
static int polled_by_rpoll(int number, int *fd)
{
	struct sock *sock = sock_find(number);
	int ret = 0;

	*fd = -1;
	if (!sock)
		return 0;
	/* tcp_settle() returns 0 for this call. */
	if (sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		(void)!tcp_settle(sock, TCP_CALL_POLL);
	if (sock_kind_of(sock) == SOCK_RDMA)
		*fd = sock->rsocket;
	else if (sock_kind_of(sock) == SOCK_EPOLL && epoll_is_active(sock))
		ret = *fd = epoll_repoll(sock);
	sock_put(sock);
	return ret < 0 ? ret : 0;
}

/* What a call that waits for several descriptors has among them. */
enum crowd {
	CROWD_PLAIN, /* only descriptors of the kernel */
	CROWD_SOCKETS,
	/* an epoll descriptor, which may get its first rsocket while the thread waits */
	CROWD_SETS,
};

static enum crowd crowd_of(const struct pollfd *fds, size_t count)
{
	enum crowd crowd = CROWD_PLAIN;

	for (size_t i = 0; i < count && crowd != CROWD_SETS; i++) {
		struct sock *sock = sock_find(fds[i].fd);

		if (epoll_is_marked(fds[i].fd) || (sock && sock_kind_of(sock) == SOCK_EPOLL))
			crowd = CROWD_SETS;
		else if (sock)
			crowd = CROWD_SOCKETS;
		if (sock)
			sock_put(sock);
	}
	return crowd;
}

/*
 * Polls again, without waiting, so that wake-up descriptors are not reported as events of their
 * sets. Returns 0 if there is no other event.
 */
static int poll_without_wakes(struct pollfd *replaced, nfds_t count)
{
	int cancel_state = cancel_disable();
	int ret;

	/* The threads that the wake-up descriptors wake can leave the kernel now. */
	sched_yield();
	pthread_mutex_lock(&epoll_sets_lock);
	epoll_wake_pause();
	ret = preload_rpoll(replaced, count, 0, NULL);
	epoll_wake_resume();
	pthread_mutex_unlock(&epoll_sets_lock);
	cancel_restore(cancel_state);
	return ret;
}

/* *is_spurious: there was a wake-up descriptor and no event, and the call returns 0. */
static int poll_replaced(struct pollfd *replaced, struct pollfd *fds, nfds_t count, int timeout_ms,
			 const sigset_t *mask, bool *is_spurious)
{
	unsigned wakes = epoll_wake_now();
	bool has_rdma = false;
	int ret;

	*is_spurious = false;
	for (size_t i = 0; i < count; i++) {
		int fd;

		ret = polled_by_rpoll(fds[i].fd, &fd);
		if (ret)
			return wrap_fail(-ret);
		replaced[i] = fds[i];
		if (fd < 0)
			continue;
		replaced[i].fd = fd;
		has_rdma = true;
	}
	ret = has_rdma ? preload_rpoll(replaced, count, timeout_ms, mask) :
			 preload_poll(replaced, count, timeout_ms, mask);
	if (ret > 0 && has_rdma && epoll_wake_since(wakes)) {
		ret = poll_without_wakes(replaced, count);
		*is_spurious = !ret;
	}
	for (size_t i = 0; ret >= 0 && i < count; i++)
		fds[i].revents = replaced[i].revents;
	return ret;
}

/*
 * One wait in which an epoll descriptor may get its first rsocket. *again: the thread was woken for
 * this reason.
 */
static int poll_sets_once(struct pollfd *replaced, struct pollfd *fds, nfds_t count, int timeout_ms,
			  const sigset_t *mask, bool *again)
{
	struct epoll_poll *poll = epoll_poll_begin(fds, count);
	bool is_spurious;
	int ret, error;

	*again = false;
	if (!poll)
		return wrap_fail(ENOMEM);
	pthread_cleanup_push(epoll_poll_cancel, poll);
	ret = poll_replaced(replaced, fds, count, timeout_ms, mask, &is_spurious);
	pthread_cleanup_pop(0);
	error = errno;
	/* The events are level-triggered: those that were found are found again. */
	*again = (epoll_poll_end(poll) && ret >= 0) || is_spurious;
	errno = error;
	return ret;
}

static int poll_sets(struct pollfd *replaced, struct pollfd *fds, nfds_t count, int timeout_ms,
		     const sigset_t *mask)
{
	uint64_t start_ns = clock_now_ns();
	int left_ms = timeout_ms;
	bool again;

	for (;;) {
		int ret = poll_sets_once(replaced, fds, count, left_ms, mask, &again);

		if (!again)
			return ret;
		if (timeout_ms >= 0)
			left_ms = clock_left_ms(clock_now_ns(),
						start_ns + (unsigned)timeout_ms * CLOCK_NS_PER_MS);
	}
}

/* poll() with the numbers of rsockets replaced by the rsockets. */
static int poll_crowd(struct pollfd *fds, nfds_t count, enum crowd crowd, int timeout_ms,
		      const sigset_t *mask)
{
	struct pollfd *replaced = calloc(count ? count : 1, sizeof(*replaced));
	bool is_spurious;
	int ret;

	if (!replaced)
		return wrap_fail(ENOMEM);
	pthread_cleanup_push(free, replaced);
	/* A call that does not wait finds the sets as they are. */
	ret = crowd == CROWD_SETS && timeout_ms ?
		      poll_sets(replaced, fds, count, timeout_ms, mask) :
		      poll_replaced(replaced, fds, count, timeout_ms, mask, &is_spurious);
	/* free() does not change errno. */
	pthread_cleanup_pop(1);
	return ret;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	DEFERS_CANCEL;

	enum crowd crowd;

	if (preload_is_polling())
		return preload_sleep(fds, count, timeout);
	crowd = crowd_of(fds, count);
	return crowd ? poll_crowd(fds, count, crowd, timeout, NULL) :
		       real.poll(fds, count, timeout);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask)
{
	DEFERS_CANCEL;
	enum crowd crowd = crowd_of(fds, count);
	int timeout_ms;

	if (!crowd)
		return real.ppoll(fds, count, timeout, mask);
	if (wrap_timeout_ms(timeout, &timeout_ms))
		return -1;
	return poll_crowd(fds, count, crowd, timeout_ms, mask);
}

static void wrap_wait_select_cancelled(void *call)
{
	select_end(call);
}

/* Executes and ends the call. Returns its result, or -errno. */
static int select_once(struct select_call *call, enum crowd crowd, const struct timespec *timeout,
		       const sigset_t *mask)
{
	int timeout_ms;
	int ret = select_timeout_ms(timeout, &timeout_ms);

	pthread_cleanup_push(wrap_wait_select_cancelled, call);
	if (!ret && poll_crowd(call->fds, call->count, crowd, timeout_ms, mask) < 0)
		ret = -errno;
	if (!ret)
		ret = select_report(call);
	pthread_cleanup_pop(1);
	return ret;
}

/*
 * True: a set contains a socket of this module or an epoll descriptor; *ret is the result of the
 * call, or -errno.
 */
static bool select_crowd(int most, fd_set *const sets[SELECT_SETS], const struct timespec *timeout,
			 const sigset_t *mask, int *ret)
{
	struct select_call call;
	enum crowd crowd;

	/* If the arguments are invalid or memory is exhausted, the call is passed to the kernel. */
	if (select_begin(&call, most, sets))
		return false;
	crowd = crowd_of(call.fds, call.count);
	if (crowd) {
		*ret = select_once(&call, crowd, timeout, mask);
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

/*
 * Programs compiled with _FORTIFY_SOURCE call these functions. `room` is the size of the array in
 * bytes.
 */
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
