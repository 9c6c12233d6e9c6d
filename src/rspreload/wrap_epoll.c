/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/select.h"
#include "rspreload/epoll.h"
#include "rspreload/epoll_sleep.h"
#include "rspreload/preload.h"
#include "rspreload/real.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

/* epoll_ctl() and the calls that wait for an epoll descriptor. */

/*
 * The sock that epoll_ctl() adds, changes or removes, with a reference. NULL: the call is passed to
 * the kernel.
 */
static struct sock *epoll_target(int fd, const void *caller)
{
	struct sock *sock = sock_find(fd);

	if (!sock && epoll_is_marked(fd) && !preload_is_ours(caller))
		sock = epoll_sock(fd);
	/* In the child of a vfork() all calls are passed to the kernel. */
	if (sock && !sock_in_vfork_child()) {
		if (sock_kind_of(sock) == SOCK_TCP_PASSIVE)
			tcp_settle_uncancelled(sock);
		if (sock_kind_of(sock) != SOCK_PLAIN)
			return sock;
	}
	if (sock)
		sock_put(sock);
	return NULL;
}

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	DEFERS_CANCEL;
	struct sock *sock = epoll_target(fd, __builtin_return_address(0));
	int ret;

	if (!sock)
		return real.epoll_ctl(epoll, op, fd, event);
	ret = epoll_control(epoll, op, fd, sock, event);
	if (ret)
		errno = -ret;
	return (int)wrap_done(sock, ret ? -1 : 0);
}

/* The sock of an epoll descriptor whose set is active, with a reference; else NULL. */
static struct sock *find_active(int epoll)
{
	struct sock *sock = sock_find(epoll);

	if (sock && sock_kind_of(sock) == SOCK_EPOLL && epoll_is_active(sock) &&
	    !sock_in_vfork_child())
		return sock;
	if (sock)
		sock_put(sock);
	return NULL;
}

/* The arguments of a call. */
struct epoll_wait_call {
	int epoll;
	struct epoll_event *events;
	int most;
	int timeout_ms;
	const struct timespec *time; /* the timeout of epoll_pwait2(); NULL: timeout_ms */
	const sigset_t *mask;
};

static int wait_in_active(struct sock *sock, const struct epoll_wait_call *call)
{
	int ret;

	pthread_cleanup_push(wrap_cancelled, sock);
	ret = epoll_set_wait(sock, call->events, call->most, call->timeout_ms, call->mask);
	pthread_cleanup_pop(0);
	if (ret < 0) {
		errno = -ret;
		ret = -1;
	}
	return (int)wrap_done(sock, ret);
}

static int wait_in_kernel(const struct epoll_wait_call *call)
{
	if (call->time)
		return real.epoll_pwait2(call->epoll, call->events, call->most, call->time,
					 call->mask);
	if (call->mask)
		return real.epoll_pwait(call->epoll, call->events, call->most, call->timeout_ms,
					call->mask);
	return real.epoll_wait(call->epoll, call->events, call->most, call->timeout_ms);
}

/*
 * Returns as epoll_wait(2). *active: the set is active, the thread has not waited, and the caller
 * gets the sock with a reference; NULL: inactive. *is_woken: there was the event of a wake-up
 * descriptor.
 */
static int sleep_in_kernel(const struct epoll_wait_call *call, struct sock **active, bool *is_woken)
{
	struct epoll_sleeper *sleeper = epoll_sleep_begin(call->epoll);
	int ret = 0, kept;

	if (!sleeper)
		return wrap_fail(ENOMEM);
	pthread_cleanup_push(epoll_sleep_end, sleeper);
	*active = find_active(call->epoll);
	if (!*active)
		ret = wait_in_kernel(call);
	pthread_cleanup_pop(0);
	epoll_sleep_end(sleeper);
	kept = ret > 0 ? epoll_sleep_filter(call->events, ret) : ret;
	*is_woken = kept != ret;
	return kept;
}

/* The same for a call that does not wait. */
static int look_in_kernel(const struct epoll_wait_call *call, struct sock **active, bool *is_woken)
{
	int ret = 0, kept;

	*active = find_active(call->epoll);
	if (!*active)
		ret = wait_in_kernel(call);
	kept = ret > 0 ? epoll_sleep_filter(call->events, ret) : ret;
	*is_woken = kept != ret;
	return kept;
}

/* The clock with the least cost. It advances at least every COARSE_MS. */
#define COARSE_MS 10

static int64_t coarse_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / (long)CLOCK_NS_PER_MS;
}

/* The rest of a timeout, of which the thread may have waited up to COARSE_MS less. */
static int rest_ms(int timeout_ms, int64_t start_ms)
{
	int64_t passed_ms = coarse_ms() - start_ms - COARSE_MS;

	if (passed_ms <= 0)
		return timeout_ms;
	return passed_ms < timeout_ms ? timeout_ms - (int)passed_ms : 0;
}

/* A call that does not wait and has found only a wake-up descriptor. */
static int wrap_epoll_look_again(const struct epoll_wait_call *call)
{
	struct sock *active = find_active(call->epoll);

	return active ? wait_in_active(active, call) :
			epoll_sleep_look(call->epoll, call->events, call->most);
}

static int epoll_wait_by(struct epoll_wait_call *call)
{
	int timeout_ms = call->timeout_ms;
	int64_t start_ms = timeout_ms > 0 ? coarse_ms() : 0;

	for (;;) {
		struct sock *active = NULL;
		bool is_woken = false;
		int ret = timeout_ms ? sleep_in_kernel(call, &active, &is_woken) :
				       look_in_kernel(call, &active, &is_woken);

		if (active)
			return wait_in_active(active, call);
		if (ret || !is_woken)
			return ret;
		/*
		 * If the set is inactive, the wake-up descriptor belongs to another process with
		 * the same kernel's set.
		 */
		if (!timeout_ms)
			return wrap_epoll_look_again(call);
		if (timeout_ms > 0) {
			call->timeout_ms = rest_ms(timeout_ms, start_ms);
			call->time = NULL;
		}
	}
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	DEFERS_CANCEL;
	struct epoll_wait_call call = {epoll, events, most, timeout, NULL, NULL};

	if (preload_is_polling())
		return preload_sleep_in_epoll(epoll, events, most, timeout);
	return epoll_wait_by(&call);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
		       const sigset_t *mask)
{
	DEFERS_CANCEL;
	struct epoll_wait_call call = {epoll, events, most, timeout, NULL, mask};

	return epoll_wait_by(&call);
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
			const struct timespec *timeout, const sigset_t *mask)
{
	DEFERS_CANCEL;
	struct epoll_wait_call call = {epoll, events, most, -1, timeout, mask};

	if (!timeout)
		return epoll_pwait(epoll, events, most, -1, mask);
	if (wrap_timeout_ms(timeout, &call.timeout_ms))
		return -1;
	return epoll_wait_by(&call);
}
