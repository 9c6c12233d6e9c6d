/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "rsocket/calls.h"
#include "rsocket/repoll.h"
#include "rsocket/repoll_look.h"

/*
 * One repoll_wait(). Entry KERNEL of the look is the kernel descriptor of the set; the entries
 * after it belong to the members.
 */
struct set_wait {
	struct repoll *set;
	struct repoll_wait wait;
	struct look look;
	uint32_t version; /* of the set, when the look was filled */
	bool is_stale;	  /* the members have changed since then, and their events are unknown */
};

#define KERNEL 1

/* Locked. */
static int set_wait_fill(struct set_wait *wait)
{
	if (wait->set->is_closed)
		return -EBADF;
	wait->version = wait->set->version;
	return look_add_set(&wait->look, wait->set);
}

/* Collects the events of the members that are rsockets or sets. */
static int collect_members(struct set_wait *wait, struct epoll_event *events, int most)
{
	const struct look *look = &wait->look;
	int count = 0;

	pthread_mutex_lock(&repoll_lock);
	wait->is_stale = wait->version != wait->set->version;
	if (!wait->is_stale) {
		for (size_t i = KERNEL + 1, end; i < look->count && count < most; i = end) {
			uint32_t bits = look_events(look, i, &end);

			if (bits && look_report(look, i, bits))
				events[count++] = (struct epoll_event){
					.events = bits, .data = look->entries[i].member->data};
		}
	}
	pthread_mutex_unlock(&repoll_lock);
	return count;
}

/* Collects the events of ordinary descriptors. Returns their number, or -errno. */
static int collect_kernel(const struct set_wait *wait, struct epoll_event *events, int most)
{
	int count = 0;

	if (wait->look.fds[KERNEL].revents & POLLIN && most)
		count = sys_epoll_look(wait->set->fd, events, most);
	return count < 0 ? -errno : count;
}

/*
 * Returns the number of events, or -errno. An error of the kernel is reported if there are no other
 * events.
 */
static int repoll_wait_collect(struct set_wait *wait, struct epoll_event *events, int most)
{
	bool kernel_first = atomic_load(&wait->set->kernel_first);
	int count, more;

	atomic_store(&wait->set->kernel_first, !kernel_first);
	if (kernel_first) {
		count = collect_kernel(wait, events, most);
		if (count < 0)
			return count;
		return count + collect_members(wait, events + count, most - count);
	}
	count = collect_members(wait, events, most);
	more = collect_kernel(wait, events + count, most - count);
	if (more < 0)
		return count ? count : more;
	return count + more;
}

static int look_once(struct set_wait *wait, int timeout_ms)
{
	int ret = look_clear(&wait->look);

	if (ret)
		return ret;
	pthread_mutex_lock(&repoll_lock);
	ret = set_wait_fill(wait);
	pthread_mutex_unlock(&repoll_lock);
	return ret ? ret :
		     rsock_poll_edges(wait->look.fds, wait->look.edges, wait->look.count,
				      timeout_ms);
}

static int wait_for_members(struct set_wait *wait, struct epoll_event *events, int most,
			    int timeout_ms)
{
	uint64_t deadline_ns = WAIT_FOR_EVER;

	if (timeout_ms >= 0)
		deadline_ns = clock_now_ns() + (unsigned int)timeout_ms * CLOCK_NS_PER_MS;
	for (;;) {
		int left_ms = -1;
		int ret;

		if (deadline_ns != WAIT_FOR_EVER)
			left_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
		wait->is_stale = false;
		ret = look_once(wait, left_ms);
		if (ret > 0)
			ret = repoll_wait_collect(wait, events, most);
		if (ret)
			return ret;
		if (!wait->is_stale && deadline_ns != WAIT_FOR_EVER &&
		    clock_now_ns() >= deadline_ns)
			return 0;
	}
}

/* Ends a wait; also the cleanup handler of a cancelled thread. */
static void wait_end(void *arg)
{
	struct set_wait *wait = arg;

	pthread_mutex_lock(&repoll_lock);
	list_del(&wait->wait.node);
	pthread_mutex_unlock(&repoll_lock);
	look_end(&wait->look);
	repoll_put(wait->set);
}

/* The wait takes over the reference to the set. */
static int wait_in_set(struct repoll *set, struct epoll_event *events, int most, int timeout_ms)
{
	struct set_wait wait = {.set = set};
	int ret = look_begin(&wait.look);

	if (ret) {
		repoll_put(set);
		return ret;
	}
	wait.wait.waiter = wait.look.waiter;
	pthread_mutex_lock(&repoll_lock);
	list_add_tail(&wait.wait.node, &set->waits);
	pthread_mutex_unlock(&repoll_lock);
	pthread_cleanup_push(wait_end, &wait);
	ret = wait_for_members(&wait, events, most, timeout_ms);
	pthread_cleanup_pop(1);
	return ret;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	struct repoll *set = repoll_find(epfd);
	int ret;

	/* rdma-core's repoll_wait() returns a positive errno for this error only. */
	if (!set)
		return EINVAL;
	ret = events ? 0 : -EFAULT;
	if (maxevents <= 0 || maxevents > SYS_EPOLL_EVENTS_MAX)
		ret = -EINVAL;
	if (ret) {
		repoll_put(set);
		return (int)call_result(ret);
	}
	return (int)call_result(wait_in_set(set, events, maxevents, timeout));
}
