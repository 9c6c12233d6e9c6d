/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/restarts.h"
#include "base/select.h"
#include "base/spin.h"
#include "base/syscalls.h"
#include "rsocket/calls.h"
#include "rsocket/poll.h"
#include "rsocket/repoll_poll.h"
#include "rsocket/socket.h"
#include "rsocket/wait.h"

/* Events that are reported even if they were not requested (poll(2)). */
#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)

/* Up to this number of descriptors the arrays are on the stack. */
#define FEW 16

/* One descriptor of the call. sock: NULL if the descriptor is not an rsocket. */
struct member {
	struct rsock *sock;
	struct wait_link link;
};

/*
 * One call of rpoll(), on the stack of its thread. kernel[0] is for the waiter's eventfd and
 * kernel[1 + i] for fds[i]. For an rsocket, kernel[1 + i] watches the rsocket's descriptor for
 * POLLIN; for another descriptor it is a copy of fds[i]. ids[j] is the id of the object behind
 * kernel[j].fd (watch_poll()).
 */
struct polling {
	struct pollfd *fds;
	struct rsock_edge *edges; /* NULL: level-triggered */
	size_t count;
	struct member *members;
	int cancel_state; /* the caller's state, restored in kernel_poll() only */
	struct pollfd *kernel;
	uint64_t *ids;
	/* of one of the rsockets; NULL: none has a completion channel */
	struct ibv_context *context;
	struct waiter *waiter; /* NULL: not in the list of any rsocket */
	bool has_plain;
	bool has_memory; /* members, kernel and ids are allocated */
};

/* The number of edges for these events. */
static uint64_t poll_edges_of(const struct rsock *sock, short events)
{
	uint64_t edges = sock->changes;

	if (events & (POLLIN | POLLRDNORM))
		edges += sock->arrivals;
	if (events & (POLLOUT | POLLWRNORM))
		edges += sock->full_sends;
	return edges;
}

static short poll_events_of(const struct polling *polling, size_t i)
{
	struct rsock *sock = polling->members[i].sock;
	short events;

	if (atomic_load(&sock->is_closing))
		return POLLNVAL;
	events = (short)(sock->ops->events(sock) & (polling->fds[i].events | ALWAYS));
	if (polling->edges) {
		struct rsock_edge *edge = &polling->edges[i];

		edge->changes = poll_edges_of(sock, polling->fds[i].events);
		if (edge->reported && edge->changes == edge->reported_changes)
			events = (short)(events & ~edge->reported);
	}
	return events;
}

static bool poll_is_ours(const struct polling *polling, size_t i)
{
	return polling->members[i].sock && !atomic_load(&polling->members[i].sock->is_inherited);
}

/* Polls the descriptors that are not rsockets, without waiting. */
static int look_at_plain(struct polling *polling)
{
	int cancel_state, ret;

	if (!polling->has_plain)
		return 0;
	for (size_t i = 0; i < polling->count; i++) {
		struct pollfd *kernel = &polling->kernel[1 + i];

		kernel->fd = polling->members[i].sock ? -1 : polling->fds[i].fd;
		kernel->events = polling->fds[i].events;
		kernel->revents = 0;
	}
	cancel_state = cancel_disable();
	ret = poll(polling->kernel + 1, polling->count, 0) < 0 ? -errno : 0;
	cancel_restore(cancel_state);
	return ret;
}

/*
 * Stores the events that hold now and returns the number of descriptors with events. For other
 * descriptors than rsockets, `kernel` has the events.
 */
static int count_events(struct polling *polling)
{
	int count = 0;

	for (size_t i = 0; i < polling->count; i++) {
		short revents = polling->kernel[1 + i].revents;

		/*
		 * In a child of a fork(), a thread of the parent may have held the lock of an
		 * inherited rsocket.
		 */
		if (polling->members[i].sock && !poll_is_ours(polling, i)) {
			revents = POLLNVAL;
		} else if (polling->members[i].sock) {
			rsock_lock(polling->members[i].sock);
			revents = poll_events_of(polling, i);
			rsock_unlock(polling->members[i].sock);
		}
		polling->fds[i].revents = revents;
		count += revents != 0;
	}
	return count;
}

static int poll_look(struct polling *polling)
{
	uint64_t now_ns = clock_now_ns();
	int ret = look_at_plain(polling);

	if (ret)
		return ret;
	for (size_t i = 0; i < polling->count; i++) {
		struct rsock *sock = polling->members[i].sock;

		if (!poll_is_ours(polling, i))
			continue;
		rsock_lock(sock);
		rsock_progress(sock, rsock_is_due(sock, now_ns));
		rsock_unlock(sock);
	}
	return count_events(polling);
}

/*
 * Arms all rsockets: every later event wakes this thread. Returns true if an event holds already.
 */
static bool poll_go_to_sleep(struct polling *polling)
{
	bool has_events = false;

	polling->kernel[0] = (struct pollfd){.fd = polling->waiter->event_fd, .events = POLLIN};
	polling->ids[0] = polling->waiter->id;
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];
		struct pollfd *kernel = &polling->kernel[1 + i];

		*kernel = polling->fds[i];
		kernel->revents = 0;
		polling->ids[1 + i] = polling->edges && !member->sock ? polling->edges[i].id : 0;
		if (!member->sock)
			continue;
		polling->ids[1 + i] = member->sock->id;
		kernel->fd = member->sock->fd;
		kernel->events = POLLIN;
		if (!poll_is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		member->link.is_asleep = true;
		rsock_arm(member->sock);
		if (member->sock->context)
			polling->context = member->sock->context;
		has_events = has_events || poll_events_of(polling, i);
		rsock_unlock(member->sock);
	}
	return has_events;
}

/* Processes the events that woke this thread. */
static void wake_up(struct polling *polling, bool is_late)
{
	if (polling->kernel[0].revents)
		waiter_drain(polling->waiter);
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];

		if (!poll_is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		member->link.is_asleep = false;
		if (polling->kernel[1 + i].revents || is_late)
			rsock_progress(member->sock, true);
		rsock_unlock(member->sock);
	}
}

static void link_all(struct polling *polling)
{
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];

		if (!poll_is_ours(polling, i))
			continue;
		member->link.sock = member->sock;
		member->link.waiter = polling->waiter;
		member->link.is_asleep = false;
		rsock_lock(member->sock);
		list_add_tail(&member->link.node, &member->sock->waiters);
		rsock_unlock(member->sock);
	}
}

static void unlink_all(struct polling *polling)
{
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];

		if (!poll_is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		list_del(&member->link.node);
		rsock_unlock(member->sock);
	}
	waiter_put(polling->waiter);
	polling->waiter = NULL;
}

static void put_members(struct polling *polling)
{
	for (size_t i = 0; i < polling->count; i++)
		if (polling->members[i].sock)
			rsock_put(polling->members[i].sock);
}

static void free_memory(struct polling *polling)
{
	free(polling->members);
	free(polling->kernel);
	free(polling->ids);
}

/* Cleanup handler of a cancelled thread: releases what its call holds. */
static void poll_cancelled(void *arg)
{
	struct polling *polling = arg;

	if (polling->waiter)
		unlink_all(polling);
	put_members(polling);
	if (polling->has_memory)
		free_memory(polling);
}

/* The only cancellation point of a call for rsockets. */
static int kernel_poll(struct polling *polling, int timeout_ms)
{
	int ret;

	pthread_cleanup_push(poll_cancelled, polling);
	cancel_restore(polling->cancel_state);
	ret = watch_poll(&polling->waiter->watch, polling->context, polling->kernel, polling->ids,
			 1 + polling->count, timeout_ms);
	cancel_disable();
	pthread_cleanup_pop(0);
	return ret;
}

/* The only cancellation point of a call without rsockets. */
static int poll_plain(struct polling *polling, int timeout_ms)
{
	int ret;

	pthread_cleanup_push(poll_cancelled, polling);
	cancel_restore(polling->cancel_state);
	ret = poll(polling->fds, polling->count, timeout_ms);
	cancel_disable();
	pthread_cleanup_pop(0);
	return ret < 0 ? -errno : ret;
}

static int sleep_until_events(struct polling *polling, uint64_t deadline_ns)
{
	uint32_t most_ms = rsock_config()->wake_up_ms;
	int ret;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		int timeout_ms = wait_timeout_ms(now_ns, deadline_ns, most_ms);

		if (poll_go_to_sleep(polling))
			timeout_ms = 0;
		ret = kernel_poll(polling, timeout_ms);
		if (ret == -EINTR && !wait_has_handler())
			ret = 0;
		if (ret < 0)
			return ret;
		wake_up(polling, !ret);
		ret = count_events(polling);
		if (ret || (deadline_ns != WAIT_FOR_EVER && clock_now_ns() >= deadline_ns))
			return ret;
	}
}

static int wait_for_events(struct polling *polling, uint64_t deadline_ns)
{
	int ret;

	polling->waiter = waiter_get();
	if (!polling->waiter)
		return -errno;
	link_all(polling);
	ret = sleep_until_events(polling, deadline_ns);
	unlink_all(polling);
	return ret;
}

static int poll_members(struct polling *polling, int timeout_ms)
{
	uint64_t start_ns = clock_now_ns();
	uint64_t deadline_ns = WAIT_FOR_EVER;
	struct spin spin;
	bool spins;
	int ret = poll_look(polling);

	if (ret || !timeout_ms)
		return ret;
	if (timeout_ms >= 0)
		deadline_ns = start_ns + (unsigned)timeout_ms * CLOCK_NS_PER_MS;
	spins = wait_spin_begin(&spin, start_ns);
	while (spins && spin_continue(&spin, clock_now_ns())) {
		ret = poll_look(polling);
		if (ret > 0)
			spin_succeed(&spin);
		if (ret)
			return ret;
	}
	return wait_for_events(polling, deadline_ns);
}

/* Takes references to all rsockets among the descriptors; returns their number. */
static size_t find_members(struct polling *polling)
{
	size_t count = 0;

	for (size_t i = 0; i < polling->count; i++) {
		struct rsock *sock = rsock_find(polling->fds[i].fd);

		/*
		 * The caller is a signal handler and this thread holds the rsocket's lock: it is
		 * polled as an ordinary descriptor.
		 */
		if (sock && rsock_is_interrupted(sock)) {
			rsock_put(sock);
			sock = NULL;
		}
		polling->members[i].sock = sock;
		if (sock)
			count++;
		else
			polling->has_plain = true;
	}
	return count;
}

static int poll_some(struct polling *polling, int timeout_ms)
{
	int ret;

	if (!find_members(polling))
		return poll_plain(polling, timeout_ms);
	for (size_t i = 0; i < polling->count; i++)
		polling->kernel[1 + i].revents = 0;
	ret = poll_members(polling, timeout_ms);
	put_members(polling);
	return ret;
}

static int poll_many(struct polling *polling, int timeout_ms)
{
	int ret = -ENOMEM;

	polling->has_memory = true;
	polling->members = calloc(polling->count, sizeof(*polling->members));
	polling->kernel = calloc(1 + polling->count, sizeof(*polling->kernel));
	polling->ids = calloc(1 + polling->count, sizeof(*polling->ids));
	if (polling->members && polling->kernel && polling->ids)
		ret = poll_some(polling, timeout_ms);
	free_memory(polling);
	return ret;
}

int rsock_poll_edges(struct pollfd *fds, struct rsock_edge *edges, nfds_t nfds, int timeout_ms)
{
	struct member members[FEW];
	struct pollfd kernel[1 + FEW];
	uint64_t ids[1 + FEW];
	struct polling polling = {
		.fds = fds,
		.edges = edges,
		.count = nfds,
		.members = members,
		.kernel = kernel,
		.ids = ids,
	};
	int ret;

	if (nfds && !fds)
		return -EFAULT;
	if (nfds > INT_MAX)
		return -EINVAL;
	/*
	 * Calls of librdmacm are cancellation points and are made with the lock of an rsocket held.
	 */
	polling.cancel_state = cancel_disable();
	ret = nfds > FEW ? poll_many(&polling, timeout_ms) : poll_some(&polling, timeout_ms);
	cancel_restore(polling.cancel_state);
	return ret;
}

/*
 * rpoll() without the conversion of the result: the number of descriptors with events, or -errno.
 */
static int rsock_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
	if (fds && nfds <= INT_MAX && repoll_is_among(fds, nfds))
		return repoll_poll(fds, nfds, timeout_ms);
	return rsock_poll_edges(fds, NULL, nfds, timeout_ms);
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return (int)call_result(rsock_poll(fds, nfds, timeout));
}

static int rselect_to_ms(const struct timeval *timeout, int *timeout_ms)
{
	struct timespec time;
	int ret = timeout ? select_timespec(timeout, &time) : 0;

	return ret ? ret : select_timeout_ms(timeout ? &time : NULL, timeout_ms);
}

static void rselect_cancelled(void *call)
{
	select_end(call);
}

static int select_sets(int nfds, fd_set *const sets[SELECT_SETS], struct timeval *timeout)
{
	uint64_t start_ns = clock_now_ns();
	struct select_call call;
	int timeout_ms;
	int ret = rselect_to_ms(timeout, &timeout_ms);

	if (!ret)
		ret = select_begin(&call, nfds, sets);
	if (ret)
		return ret;
	pthread_cleanup_push(rselect_cancelled, &call);
	ret = rsock_poll(call.fds, call.count, timeout_ms);
	pthread_cleanup_pop(0);
	if (ret >= 0)
		ret = select_report(&call);
	select_end(&call);
	if (timeout)
		select_take(timeout, clock_now_ns() - start_ns);
	return ret;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	fd_set *const sets[SELECT_SETS] = {readfds, writefds, exceptfds};

	return (int)call_result(select_sets(nfds, sets, timeout));
}
