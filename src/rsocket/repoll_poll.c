/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/repoll_poll.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "rsocket/repoll.h"
#include "rsocket/repoll_look.h"

/* One descriptor of the call. [first, end): its entries of the look. */
struct polled {
	struct repoll *set; /* with a reference; NULL: the descriptor is not a set */
	struct repoll_wait wait;
	uint32_t version; /* of the set, when the look was filled */
	size_t first;
	size_t end;
};

/* One call. Owned by its thread. */
struct set_poll {
	struct pollfd *fds;
	struct polled *polled;
	size_t count;
	struct look look;
};

bool repoll_is_among(const struct pollfd *fds, size_t count)
{
	struct repoll *set = NULL;

	for (size_t i = 0; i < count && !set; i++)
		set = repoll_find(fds[i].fd);
	if (set)
		repoll_put(set);
	return set;
}

/* Locked. */
static int set_poll_fill_one(struct set_poll *poll, size_t i)
{
	const struct pollfd *fd = &poll->fds[i];
	struct polled *polled = &poll->polled[i];

	if (!polled->set)
		return look_add_fd(&poll->look, fd->fd, 0, (uint32_t)fd->events);
	polled->version = polled->set->version;
	/* An epoll descriptor has no other events. */
	if (polled->set->is_closed || !(fd->events & (POLLIN | POLLRDNORM)))
		return 0;
	return look_add_set(&poll->look, polled->set);
}

static int set_poll_fill(struct set_poll *poll)
{
	int ret = look_clear(&poll->look);

	if (ret)
		return ret;
	pthread_mutex_lock(&repoll_lock);
	for (size_t i = 0; !ret && i < poll->count; i++) {
		poll->polled[i].first = poll->look.count;
		ret = set_poll_fill_one(poll, i);
		poll->polled[i].end = poll->look.count;
	}
	pthread_mutex_unlock(&repoll_lock);
	return ret;
}

/* Locked. */
static short set_revents(const struct set_poll *poll, const struct polled *polled)
{
	uint32_t bits;

	if (polled->set->is_closed)
		return POLLNVAL;
	bits = polled->first < polled->end ? poll->look.fds[polled->first].revents & POLLIN : 0;
	for (size_t i = polled->first + 1; !bits && i < polled->end;)
		bits = look_events(&poll->look, i, &i);
	return bits ? POLLIN | POLLRDNORM : 0;
}

/*
 * Stores the events and returns the number of descriptors with events. *is_stale: the members of a
 * set have changed since the look was filled, and its events are unknown.
 */
static int set_poll_collect(struct set_poll *poll, bool *is_stale)
{
	int count = 0;

	*is_stale = false;
	pthread_mutex_lock(&repoll_lock);
	for (size_t i = 0; i < poll->count; i++) {
		struct polled *polled = &poll->polled[i];
		struct pollfd *fd = &poll->fds[i];

		if (!polled->set)
			fd->revents = poll->look.fds[polled->first].revents;
		else if (polled->version == polled->set->version)
			fd->revents = (short)(set_revents(poll, polled) & (fd->events | POLLNVAL));
		else
			fd->revents = 0;
		*is_stale = *is_stale || (polled->set && polled->version != polled->set->version);
		count += fd->revents != 0;
	}
	pthread_mutex_unlock(&repoll_lock);
	return count;
}

static int wait_for_sets(struct set_poll *poll, int timeout_ms)
{
	uint64_t deadline_ns = WAIT_FOR_EVER;

	if (timeout_ms >= 0)
		deadline_ns = clock_now_ns() + (unsigned int)timeout_ms * CLOCK_NS_PER_MS;
	for (;;) {
		bool is_stale;
		int left_ms = -1;
		int ret = set_poll_fill(poll);

		if (deadline_ns != WAIT_FOR_EVER)
			left_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
		if (!ret)
			ret = rsock_poll_edges(poll->look.fds, poll->look.edges, poll->look.count,
					       left_ms);
		if (ret < 0)
			return ret;
		ret = set_poll_collect(poll, &is_stale);
		if (ret ||
		    (!is_stale && deadline_ns != WAIT_FOR_EVER && clock_now_ns() >= deadline_ns))
			return ret;
	}
}

/* Ends the call; also the cleanup handler of a cancelled thread. */
static void set_poll_end(void *arg)
{
	struct set_poll *poll = arg;

	pthread_mutex_lock(&repoll_lock);
	for (size_t i = 0; i < poll->count; i++) {
		if (poll->polled[i].set)
			list_del(&poll->polled[i].wait.node);
	}
	pthread_mutex_unlock(&repoll_lock);
	for (size_t i = 0; i < poll->count; i++) {
		if (poll->polled[i].set)
			repoll_put(poll->polled[i].set);
	}
	look_end(&poll->look);
	free(poll->polled);
}

static void set_poll_link(struct set_poll *poll)
{
	for (size_t i = 0; i < poll->count; i++) {
		struct polled *polled = &poll->polled[i];

		polled->set = repoll_find(poll->fds[i].fd);
		if (!polled->set)
			continue;
		polled->wait.waiter = poll->look.waiter;
		pthread_mutex_lock(&repoll_lock);
		list_add_tail(&polled->wait.node, &polled->set->waits);
		pthread_mutex_unlock(&repoll_lock);
	}
}

int repoll_poll(struct pollfd *fds, size_t count, int timeout_ms)
{
	struct set_poll poll = {.fds = fds, .count = count};
	int ret;

	poll.polled = calloc(count, sizeof(*poll.polled));
	if (!poll.polled)
		return -ENOMEM;
	ret = look_begin(&poll.look);
	if (ret) {
		free(poll.polled);
		return ret;
	}
	set_poll_link(&poll);
	pthread_cleanup_push(set_poll_end, &poll);
	ret = wait_for_sets(&poll, timeout_ms);
	pthread_cleanup_pop(1);
	return ret;
}
