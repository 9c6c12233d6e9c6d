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

#include "base/clock.h"
#include "rsocket/config.h"
#include "rsocket/socket.h"

/* Waiters that nobody uses, kept for the next sleeper. */
static struct list_head idle = LIST_HEAD_INIT(idle);
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static struct waiter *waiter_make(void)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return NULL;
	list_init(&waiter->node);
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
	/* It is on no rsocket any more, so that nobody is about to signal it. */
	if (atomic_load(&waiter->is_signalled))
		waiter_hear(waiter);
	pthread_mutex_lock(&idle_lock);
	list_add(&waiter->node, &idle);
	pthread_mutex_unlock(&idle_lock);
}

void waiter_signal(struct waiter *waiter)
{
	if (!atomic_exchange(&waiter->is_signalled, true))
		eventfd_write(waiter->event_fd, 1);
}

/*
 * A signal whose flag was seen and whose write comes later wakes the next sleep, for nothing. One
 * that comes after the flag is down is written again, so none is lost.
 */
void waiter_hear(struct waiter *waiter)
{
	eventfd_t count;

	atomic_store(&waiter->is_signalled, false);
	eventfd_read(waiter->event_fd, &count);
}

void wait_after_fork(void)
{
	struct waiter *waiter, *next;

	pthread_mutex_init(&idle_lock, NULL);
	/* The descriptors are the parent's threads' too: only this copy of them goes. */
	list_for_each_entry_safe(waiter, next, &idle, node) {
		close(waiter->event_fd);
		free(waiter);
	}
	list_init(&idle);
}

/* What a thread does to itself: handlers for that interrupt no wait. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

bool wait_restarts(void)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (is_fault(number) || sigaction(number, NULL, &action))
			continue;
		if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
			continue;
		if (!(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

int wait_timeout_ms(uint64_t now_ns, uint64_t deadline_ns, uint32_t most_ms)
{
	uint64_t left_ns, left_ms;

	if (deadline_ns == WAIT_FOR_EVER)
		return most_ms > INT_MAX ? INT_MAX : (int)most_ms;
	left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	left_ms = left_ns / CLOCK_NS_PER_MS + (left_ns % CLOCK_NS_PER_MS ? 1 : 0);
	return left_ms > most_ms ? (int)most_ms : (int)left_ms;
}

/* Sleeps once, without the lock. 0: look again; -EINTR. */
static int sleep_once(struct rsock *sock, struct wait_link *link, uint64_t deadline_ns)
{
	struct pollfd fds[] = {
		{.fd = link->waiter->event_fd, .events = POLLIN},
		{.fd = sock->fd, .events = POLLIN},
	};
	int timeout_ms = -1;
	int ret = 0;

	if (deadline_ns != WAIT_FOR_EVER)
		timeout_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
	link->is_asleep = true;
	rsock_unlock(sock);
	if (poll(fds, 2, timeout_ms) < 0)
		ret = errno == EINTR && wait_restarts() ? 0 : -errno;
	if (fds[0].revents)
		waiter_hear(link->waiter);
	rsock_lock(sock);
	link->is_asleep = false;
	if (fds[1].revents)
		rsock_progress(sock, true);
	return ret;
}

static int sleep_until(struct rsock *sock, bool (*done)(struct rsock *sock), uint64_t deadline_ns)
{
	struct wait_link link = {.waiter = waiter_get()};
	int ret = 0;

	if (!link.waiter)
		return -ENOMEM;
	list_add_tail(&link.node, &sock->waiters);
	while (!ret) {
		/* Armed first, looked at next: what comes after that wakes. */
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

int rsock_wait(struct rsock *sock, bool (*done)(struct rsock *sock), bool must_not_wait,
	       uint64_t deadline_ns)
{
	uint64_t spin_ns = rsock_config()->polling_us * CLOCK_NS_PER_US;
	uint64_t start_ns;

	if (!done(sock))
		rsock_progress(sock, rsock_is_due(sock));
	if (sock->is_closed)
		return -EBADF;
	if (done(sock))
		return 0;
	if (must_not_wait)
		return -EAGAIN;
	start_ns = clock_now_ns();
	while (clock_now_ns() - start_ns < spin_ns) {
		rsock_unlock(sock);
		rsock_lock(sock);
		rsock_progress(sock, false);
		if (sock->is_closed)
			return -EBADF;
		if (done(sock))
			return 0;
	}
	return sleep_until(sock, done, deadline_ns);
}
