/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/clock.h"
#include "rsocket/calls.h"
#include "rsocket/poll.h"
#include "rsocket/socket.h"
#include "rsocket/wait.h"

/* Reported whether they were asked for or not (poll(2)). */
#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)

/* So many descriptors need no memory of their own. */
#define FEW 16

/* One descriptor that is waited for. sock: NULL, it is none of ours. */
struct member {
	struct rsock *sock;
	struct wait_link link;
};

/*
 * One call of rpoll(), on the stack of its thread. kernel[0] is the waiter's, kernel[1 + i] is that
 * of fds[i]: of an rsocket the descriptor that announces, of anything else what was asked for.
 */
struct polling {
	struct pollfd *fds;
	size_t count;
	struct member *members;
	struct pollfd *kernel;
	struct waiter *waiter;
	bool has_plain;
};

static short events_of(const struct polling *polling, size_t i)
{
	struct rsock *sock = polling->members[i].sock;

	if (atomic_load(&sock->is_closing) || atomic_load(&sock->is_inherited))
		return POLLNVAL;
	return (short)(sock->ops->events(sock) & (polling->fds[i].events | ALWAYS));
}

static bool is_ours(const struct polling *polling, size_t i)
{
	return polling->members[i].sock && !atomic_load(&polling->members[i].sock->is_inherited);
}

/* What the kernel says of descriptors that are none of ours, without waiting. */
static int look_at_plain(struct polling *polling)
{
	if (!polling->has_plain)
		return 0;
	for (size_t i = 0; i < polling->count; i++) {
		struct pollfd *kernel = &polling->kernel[1 + i];

		kernel->fd = polling->members[i].sock ? -1 : polling->fds[i].fd;
		kernel->events = polling->fds[i].events;
		kernel->revents = 0;
	}
	return poll(polling->kernel + 1, polling->count, 0) < 0 ? -errno : 0;
}

/* Everything that holds now; how many descriptors have something. kernel has the others' answers. */
static int count_events(struct polling *polling)
{
	int count = 0;

	for (size_t i = 0; i < polling->count; i++) {
		short revents = polling->kernel[1 + i].revents;

		if (polling->members[i].sock) {
			rsock_lock(polling->members[i].sock);
			revents = events_of(polling, i);
			rsock_unlock(polling->members[i].sock);
		}
		polling->fds[i].revents = revents;
		count += revents != 0;
	}
	return count;
}

static int look(struct polling *polling)
{
	int ret = look_at_plain(polling);

	if (ret)
		return ret;
	for (size_t i = 0; i < polling->count; i++) {
		struct rsock *sock = polling->members[i].sock;

		if (!is_ours(polling, i))
			continue;
		rsock_lock(sock);
		rsock_progress(sock, rsock_is_due(sock));
		rsock_unlock(sock);
	}
	return count_events(polling);
}

/* From here on whatever happens to an rsocket wakes this thread. True: it has happened already. */
static bool go_to_sleep(struct polling *polling)
{
	bool has_events = false;

	polling->kernel[0] = (struct pollfd){.fd = polling->waiter->event_fd, .events = POLLIN};
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];
		struct pollfd *kernel = &polling->kernel[1 + i];

		*kernel = polling->fds[i];
		kernel->revents = 0;
		if (!member->sock)
			continue;
		kernel->fd = member->sock->fd;
		kernel->events = POLLIN;
		if (!is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		member->link.is_asleep = true;
		rsock_arm(member->sock);
		has_events = has_events || events_of(polling, i);
		rsock_unlock(member->sock);
	}
	return has_events;
}

/* Takes what woke this thread. */
static void wake_up(struct polling *polling, bool is_late)
{
	if (polling->kernel[0].revents)
		waiter_hear(polling->waiter);
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];

		if (!is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		member->link.is_asleep = false;
		if (polling->kernel[1 + i].revents || is_late)
			rsock_progress(member->sock, true);
		rsock_unlock(member->sock);
	}
}

static int sleep_until_events(struct polling *polling, uint64_t deadline_ns)
{
	uint32_t most_ms = rsock_config()->wake_up_ms;
	int ret;

	for (;;) {
		uint64_t now_ns = clock_now_ns();
		int timeout_ms = wait_timeout_ms(now_ns, deadline_ns, most_ms);

		if (go_to_sleep(polling))
			timeout_ms = 0;
		ret = poll(polling->kernel, 1 + polling->count, timeout_ms);
		if (ret < 0)
			return -errno;
		wake_up(polling, !ret);
		ret = count_events(polling);
		if (ret || (deadline_ns != WAIT_FOR_EVER && clock_now_ns() >= deadline_ns))
			return ret;
	}
}

static void link_all(struct polling *polling)
{
	for (size_t i = 0; i < polling->count; i++) {
		struct member *member = &polling->members[i];

		if (!is_ours(polling, i))
			continue;
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

		if (!is_ours(polling, i))
			continue;
		rsock_lock(member->sock);
		list_del(&member->link.node);
		rsock_unlock(member->sock);
	}
}

static int wait_for_events(struct polling *polling, uint64_t deadline_ns)
{
	int ret;

	polling->waiter = waiter_get();
	if (!polling->waiter)
		return -ENOMEM;
	link_all(polling);
	ret = sleep_until_events(polling, deadline_ns);
	unlink_all(polling);
	waiter_put(polling->waiter);
	return ret;
}

static int poll_members(struct polling *polling, int timeout_ms)
{
	uint64_t spin_ns = rsock_config()->polling_us * CLOCK_NS_PER_US;
	uint64_t start_ns = clock_now_ns();
	uint64_t deadline_ns = WAIT_FOR_EVER;
	int ret;

	if (timeout_ms >= 0)
		deadline_ns = start_ns + (unsigned)timeout_ms * CLOCK_NS_PER_MS;
	do {
		ret = look(polling);
		if (ret || !timeout_ms)
			return ret;
	} while (clock_now_ns() - start_ns < spin_ns);
	return wait_for_events(polling, deadline_ns);
}

/* References to all rsockets among them; how many there are. */
static size_t find_members(struct polling *polling)
{
	size_t count = 0;

	for (size_t i = 0; i < polling->count; i++) {
		struct rsock *sock = rsock_find(polling->fds[i].fd);

		/* One that this thread cannot look at is only a descriptor. */
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

	if (!find_members(polling)) {
		ret = poll(polling->fds, polling->count, timeout_ms);
		return ret < 0 ? -errno : ret;
	}
	for (size_t i = 0; i < polling->count; i++)
		polling->kernel[1 + i].revents = 0;
	ret = poll_members(polling, timeout_ms);
	for (size_t i = 0; i < polling->count; i++)
		if (polling->members[i].sock)
			rsock_put(polling->members[i].sock);
	return ret;
}

static int poll_many(struct polling *polling, int timeout_ms)
{
	int ret = -ENOMEM;

	polling->members = calloc(polling->count, sizeof(*polling->members));
	polling->kernel = calloc(1 + polling->count, sizeof(*polling->kernel));
	if (polling->members && polling->kernel)
		ret = poll_some(polling, timeout_ms);
	free(polling->members);
	free(polling->kernel);
	return ret;
}

int rsock_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
	struct member members[FEW];
	struct pollfd kernel[1 + FEW];
	struct polling polling = {.fds = fds, .count = nfds, .members = members, .kernel = kernel};

	if (nfds && !fds)
		return -EFAULT;
	if (nfds > INT_MAX)
		return -EINVAL;
	return nfds > FEW ? poll_many(&polling, timeout_ms) : poll_some(&polling, timeout_ms);
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return (int)call_result(rsock_poll(fds, nfds, timeout));
}
