/* SPDX-License-Identifier: BSD-2-Clause */

/* The names below are those of the C library's own symbols: none may be renamed by what asks for large files. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#define _LARGEFILE64_SOURCE 1

#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "base/clock.h"
#include "base/select.h"
#include "rspreload/epoll.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* Waiting for several descriptors, by any of the calls that there are for that. */

/* The descriptors of one call, with rsockets in the place of their numbers. */
struct crowd {
	struct pollfd *fds;
	struct sock **socks; /* of the rsockets, with a reference each */
	size_t count;
	bool has_rdma;
};

/* A TCP socket that waits to become an rsocket hears nothing before it is one. */
static struct sock *find(int number)
{
	struct sock *sock = sock_find(number);

	if (sock && sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		tcp_settle(sock);
	if (sock && sock_kind_of(sock) != SOCK_RDMA) {
		sock_put(sock);
		sock = NULL;
	}
	return sock;
}

static int crowd_make(struct crowd *crowd, const struct pollfd *fds, size_t count)
{
	memset(crowd, 0, sizeof(*crowd));
	crowd->fds = calloc(count + 1, sizeof(*crowd->fds));
	crowd->socks = calloc(count + 1, sizeof(*crowd->socks));
	if (!crowd->fds || !crowd->socks) {
		free(crowd->fds);
		free(crowd->socks);
		errno = ENOMEM;
		return -1;
	}
	crowd->count = count;
	for (size_t i = 0; i < count; i++) {
		crowd->fds[i] = fds[i];
		crowd->socks[i] = find(fds[i].fd);
		if (!crowd->socks[i])
			continue;
		crowd->fds[i].fd = crowd->socks[i]->rsocket;
		crowd->has_rdma = true;
	}
	return 0;
}

static void crowd_end(struct crowd *crowd)
{
	int error = errno;

	for (size_t i = 0; i < crowd->count; i++)
		if (crowd->socks[i])
			sock_put(crowd->socks[i]);
	free(crowd->fds);
	free(crowd->socks);
	errno = error;
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

static int poll_crowd(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask)
{
	struct crowd crowd;
	int ret;

	if (crowd_make(&crowd, fds, count))
		return -1;
	ret = crowd.has_rdma ? preload_rpoll(crowd.fds, count, timeout_ms, mask) :
			       preload_poll(crowd.fds, count, timeout_ms, mask);
	for (size_t i = 0; ret >= 0 && i < count; i++)
		fds[i].revents = crowd.fds[i].revents;
	crowd_end(&crowd);
	return ret;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	if (preload_is_polling())
		return preload_sleep(fds, count, timeout);
	return has_any(fds, count) ? poll_crowd(fds, count, timeout, NULL) :
				     real.poll(fds, count, timeout);
}

/* -1 with errno, as a call with such a time answers. */
static int to_ms(const struct timespec *time, int *timeout_ms)
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
	int timeout_ms;

	if (!has_any(fds, count))
		return real.ppoll(fds, count, timeout, mask);
	return to_ms(timeout, &timeout_ms) ? -1 : poll_crowd(fds, count, timeout_ms, mask);
}

/* True if a set has something of ours, and then the call's answer, or -errno, in *ret. */
static bool select_crowd(int most, fd_set *const sets[SELECT_SETS], const struct timespec *timeout,
			 const sigset_t *mask, int *ret)
{
	struct select_call call;
	int timeout_ms;
	bool is_ours;

	/* What cannot be looked at is for the kernel to say. */
	if (select_begin(&call, most, sets))
		return false;
	is_ours = has_any(call.fds, call.count);
	if (is_ours) {
		*ret = select_timeout_ms(timeout, &timeout_ms);
		if (!*ret && poll_crowd(call.fds, call.count, timeout_ms, mask) < 0)
			*ret = -errno;
		if (!*ret)
			*ret = select_answer(&call);
	}
	select_end(&call);
	return is_ours;
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
	fd_set *const sets[SELECT_SETS] = {in, out, except};
	int ret;

	if (!select_crowd(most, sets, timeout, mask, &ret))
		return real.pselect(most, in, out, except, timeout, mask);
	return select_result(ret);
}

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct sock *sock = sock_find(fd);
	int ret;

	if (sock && sock_kind_of(sock) == SOCK_TCP_PASSIVE)
		tcp_settle(sock);
	if (!sock || sock_kind_of(sock) == SOCK_EPOLL || sock_kind_of(sock) == SOCK_PLAIN) {
		if (sock)
			sock_put(sock);
		return real.epoll_ctl(epoll, op, fd, event);
	}
	ret = epoll_control(epoll, op, fd, sock, event);
	if (ret)
		errno = -ret;
	return (int)wrap_done(sock, ret ? -1 : 0);
}

/* The set of an epoll descriptor that has rsockets in it, with a reference. */
static struct sock *find_set(int epoll)
{
	struct sock *sock = sock_find(epoll);

	if (sock && sock_kind_of(sock) == SOCK_EPOLL && epoll_has_rdma(sock))
		return sock;
	if (sock)
		sock_put(sock);
	return NULL;
}

static int wait_in(struct sock *set, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask)
{
	int ret = epoll_set_wait(set, events, most, timeout_ms, mask);

	if (ret < 0) {
		errno = -ret;
		ret = -1;
	}
	return (int)wrap_done(set, ret);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	struct sock *set = find_set(epoll);

	return set ? wait_in(set, events, most, timeout, NULL) :
		     real.epoll_wait(epoll, events, most, timeout);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
		       const sigset_t *mask)
{
	struct sock *set = find_set(epoll);

	return set ? wait_in(set, events, most, timeout, mask) :
		     real.epoll_pwait(epoll, events, most, timeout, mask);
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask)
{
	struct sock *set = find_set(epoll);
	int timeout_ms;

	if (!set)
		return real.epoll_pwait2(epoll, events, most, timeout, mask);
	if (to_ms(timeout, &timeout_ms))
		return (int)wrap_done(set, -1);
	return wait_in(set, events, most, timeout_ms, mask);
}

/* What fortified programs call instead: the last number is the size of the array. */
void __chk_fail(void) __attribute__((noreturn));
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room)
{
	if (count > room / sizeof(*fds))
		__chk_fail();
	return poll(fds, count, timeout);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		       const sigset_t *mask, size_t room)
{
	if (count > room / sizeof(*fds))
		__chk_fail();
	return ppoll(fds, count, timeout, mask);
}
