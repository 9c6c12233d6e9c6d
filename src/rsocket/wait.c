/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/restarts.h"
#include "base/clock.h"
#include "base/spin.h"
#include "base/syscalls.h"
#include "rsocket/config.h"
#include "rsocket/socket.h"

/* Idle waiters, kept for reuse. */
static struct list_head idle = LIST_HEAD_INIT(idle);
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static struct waiter *waiter_make(void)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return NULL;
	list_init(&waiter->node);
	waiter->id = watch_new_id() | WATCH_PERMANENT;
	waiter->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waiter->event_fd >= 0)
		return waiter;
	free(waiter);
	return NULL;
}

struct waiter *waiter_get(void)
{
	struct waiter *waiter = NULL;

	pthread_mutex_lock(&idle_lock);
	if (!list_is_empty(&idle)) {
		waiter = list_first_entry(&idle, struct waiter, node);
		list_del(&waiter->node);
	}
	pthread_mutex_unlock(&idle_lock);
	return waiter ? waiter : waiter_make();
}

void waiter_put(struct waiter *waiter)
{
	/* The waiter is not in the list of any rsocket, so no thread can signal it. */
	if (atomic_load(&waiter->is_signalled))
		waiter_drain(waiter);
	pthread_mutex_lock(&idle_lock);
	list_add(&waiter->node, &idle);
	pthread_mutex_unlock(&idle_lock);
}

void waiter_signal(struct waiter *waiter)
{
	if (!atomic_exchange(&waiter->is_signalled, true))
		sys_eventfd_write(waiter->event_fd, 1);
}

/*
 * If the flag is cleared between a signaller's store to the flag and its write to the eventfd, the
 * next sleep ends early, without an event. A signal after the flag is cleared writes to the eventfd
 * again, so no signal is lost.
 */
void waiter_drain(struct waiter *waiter)
{
	eventfd_t count;

	atomic_store(&waiter->is_signalled, false);
	sys_eventfd_read(waiter->event_fd, &count);
}

void wait_before_fork(void)
{
	pthread_mutex_lock(&idle_lock);
}

void wait_after_fork_in_parent(void)
{
	pthread_mutex_unlock(&idle_lock);
}

void wait_after_fork_in_child(void)
{
	struct waiter *waiter, *next;

	pthread_mutex_init(&idle_lock, NULL);
	/* Threads of the parent use the descriptors, too: only the child's copies are closed. */
	list_for_each_entry_safe(waiter, next, &idle, node) {
		sys_close(waiter->event_fd);
		watch_forget(&waiter->watch);
		free(waiter);
	}
	list_init(&idle);
}

int wait_timeout_ms(uint64_t now_ns, uint64_t deadline_ns, uint32_t most_ms)
{
	int left_ms = INT_MAX;

	if (deadline_ns != WAIT_FOR_EVER)
		left_ms = clock_left_ms(now_ns, deadline_ns);
	return (uint32_t)left_ms > most_ms ? (int)most_ms : left_ms;
}

/*
 * Cleanup handler of a cancelled thread: releases what its call holds, including the reference that
 * the call took.
 */
static void sleep_cancelled(void *arg)
{
	struct wait_link *link = arg;
	struct rsock *sock = link->sock;

	rsock_lock(sock);
	list_del(&link->node);
	rsock_unlock(sock);
	waiter_put(link->waiter);
	if (sock->ops->abandon)
		sock->ops->abandon(sock);
	rsock_put(sock);
}

/* The only cancellation point of calls that wait for one rsocket. */
static int poll_cancellable(struct wait_link *link, struct ibv_context *context,
			    struct pollfd fds[2], int timeout_ms)
{
	const uint64_t ids[] = {link->waiter->id, link->sock->id};
	int ret;

	pthread_cleanup_push(sleep_cancelled, link);
	ret = watch_poll(&link->waiter->watch, context, fds, ids, 2, timeout_ms);
	pthread_cleanup_pop(0);
	return ret;
}

/* Sleeps once with the lock released. 0: check the condition again; -EINTR. */
static int sleep_once(struct rsock *sock, struct wait_link *link, uint64_t deadline_ns)
{
	struct pollfd fds[] = {
		{.fd = link->waiter->event_fd, .events = POLLIN},
		{.fd = sock->fd, .events = POLLIN},
	};
	struct ibv_context *context = sock->context;
	int timeout_ms = -1;
	int ret;

	if (deadline_ns != WAIT_FOR_EVER)
		timeout_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
	link->is_asleep = true;
	rsock_unlock(sock);
	ret = poll_cancellable(link, context, fds, timeout_ms);
	if (ret >= 0 || (ret == -EINTR && wait_restarts()))
		ret = 0;
	if (fds[0].revents)
		waiter_drain(link->waiter);
	rsock_lock(sock);
	link->is_asleep = false;
	if (fds[1].revents)
		rsock_progress(sock, true);
	return ret;
}

static int sleep_until(struct rsock *sock, bool (*done)(struct rsock *sock), uint64_t deadline_ns)
{
	struct wait_link link = {.sock = sock, .waiter = waiter_get()};
	int ret = 0;

	if (!link.waiter)
		return -errno;
	list_add_tail(&link.node, &sock->waiters);
	while (!ret) {
		/* Arms first and then checks: events after the check wake the thread. */
		rsock_arm(sock);
		if (sock->is_closed)
			ret = -EBADF;
		else if (done(sock))
			break;
		else if (deadline_ns != WAIT_FOR_EVER && clock_now_ns() >= deadline_ns)
			ret = -EAGAIN;
		else
			ret = sleep_once(sock, &link, deadline_ns);
	}
	list_del(&link.node);
	waiter_put(link.waiter);
	return ret;
}

/*
 * Without success, one of five waits polls SPIN_NS: 16 us for each wait on average, of the order of
 * `polling_time`.
 */
#define SHORT_WAITS_MAX 4

bool wait_spin_begin(struct spin *spin, uint64_t now_ns)
{
	uint64_t least_ns = rsock_config()->polling_us * CLOCK_NS_PER_US;

	return least_ns && spin_begin(spin, now_ns, least_ns, SHORT_WAITS_MAX);
}

int rsock_wait(struct rsock *sock, bool (*done)(struct rsock *sock), bool must_not_wait,
	       uint64_t deadline_ns)
{
	struct spin spin;
	bool spins;

	if (!done(sock))
		rsock_progress(sock, rsock_is_due(sock, clock_now_ns()));
	if (sock->is_closed)
		return -EBADF;
	if (done(sock))
		return 0;
	if (must_not_wait)
		return -EAGAIN;
	spins = wait_spin_begin(&spin, clock_now_ns());
	while (spins && spin_continue(&spin, clock_now_ns())) {
		rsock_unlock(sock);
		rsock_lock(sock);
		rsock_progress(sock, false);
		if (sock->is_closed)
			return -EBADF;
		if (done(sock)) {
			spin_succeed(&spin);
			return 0;
		}
	}
	return sleep_until(sock, done, deadline_ns);
}
