/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "rsocket/calls.h"
#include "rsocket/poll.h"
#include "rsocket/repoll.h"
#include "rsocket/socket.h"
#include "rsocket/wait.h"

/* The epoll events that poll(2) also has, with the same values. */
#define POLL_BITS                                                                         \
	(EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLRDNORM | \
	 EPOLLRDBAND | EPOLLWRNORM | EPOLLWRBAND)

/*
 * The member that one entry of a poll belongs to. top: the member of the polled set; leaf: the rsocket, which is top
 * itself or is in a set nested in top. leaf is NULL for the kernel descriptor of a nested set.
 */
struct entry {
	struct repoll_member *top;
	struct repoll_member *leaf;
};

/*
 * One poll of a set: the arguments of rsock_poll_edges() and the member of each entry. fds[0] is the set's kernel
 * descriptor, fds[1] the waiter's eventfd. The members are valid only while the version of the set is the same.
 */
struct look {
	struct repoll *set;
	struct repoll_wait wait;
	struct pollfd *fds;
	struct rsock_edge *edges;
	struct entry *entries;
	size_t count;
	size_t room;
	uint32_t version;
};

#define FIXED	   2
#define ROOM_LEAST 32

static bool repoll_wait_grow(void **array, size_t count, size_t bytes)
{
	void *larger = realloc(*array, count * bytes);

	if (larger)
		*array = larger;
	return larger;
}

static int look_grow(struct look *look)
{
	size_t room = look->room ? 2 * look->room : ROOM_LEAST;

	if (!repoll_wait_grow((void **)&look->fds, room, sizeof(*look->fds)) ||
	    !repoll_wait_grow((void **)&look->edges, room, sizeof(*look->edges)) ||
	    !repoll_wait_grow((void **)&look->entries, room, sizeof(*look->entries)))
		return -ENOMEM;
	look->room = room;
	return 0;
}

/* id: of a descriptor that is not an rsocket (struct rsock_edge). */
static int look_add(struct look *look, int fd, uint64_t id, uint32_t events, struct entry entry)
{
	size_t i = look->count;

	if (i == look->room && look_grow(look))
		return -ENOMEM;
	look->fds[i] = (struct pollfd){.fd = fd, .events = (short)(events & POLL_BITS)};
	look->edges[i] = (struct rsock_edge){.id = id};
	if (entry.leaf) {
		look->edges[i].reported = (short)entry.leaf->reported;
		look->edges[i].reported_changes = entry.leaf->reported_changes;
	}
	look->entries[i] = entry;
	look->count++;
	return 0;
}

/* Adds the members of a set. top: the member of the polled set through which `set` was reached; NULL: `set` is the
 * polled set. Locked. */
static int look_add_members(struct look *look, struct repoll *set, struct repoll_member *top)
{
	struct repoll_member *member;
	int ret = 0;

	list_for_each_entry(member, &set->members, in_set) {
		struct entry entry = {.top = top ? top : member};

		/* An rsocket that the process inherited from its parent is skipped. */
		if (member->is_spent || (member->sock && atomic_load(&member->sock->is_inherited)))
			continue;
		if (member->sock) {
			entry.leaf = member;
			ret = look_add(look, member->fd, 0, member->events, entry);
		} else if (member->events & EPOLLIN) {
			ret = look_add(look, member->nested->fd, member->nested->id, EPOLLIN,
				       entry);
			if (!ret)
				ret = look_add_members(look, member->nested, entry.top);
		}
		if (ret)
			return ret;
	}
	return 0;
}

/* Locked. */
static int look_fill(struct look *look)
{
	const struct entry none = {0};
	int ret;

	if (look->set->is_closed)
		return -EBADF;
	look->count = 0;
	look->version = look->set->version;
	ret = look_add(look, look->set->fd, look->set->id, EPOLLIN, none);
	if (!ret)
		ret = look_add(look, look->wait.waiter->event_fd, look->wait.waiter->id, EPOLLIN,
			       none);
	return ret ? ret : look_add_members(look, look->set, NULL);
}

/* The events of one entry that are to be reported. Another thread may have reported some of them since the poll.
 * Locked. */
static uint32_t entry_events(const struct look *look, size_t i)
{
	const struct repoll_member *leaf = look->entries[i].leaf;
	uint32_t bits = (uint32_t)look->fds[i].revents & POLL_BITS;

	if (look->entries[i].top->is_spent || (leaf && leaf->is_spent))
		return 0;
	if (leaf && leaf->reported && leaf->reported_changes == look->edges[i].changes)
		bits &= ~leaf->reported;
	if (!bits || leaf == look->entries[i].top)
		return bits;
	/* A nested set is readable while it has events to report. look_add_members() checked that EPOLLIN was
	 * requested. */
	return EPOLLIN;
}

/* Stores the events of an entry in `event` and updates the edge-triggered and one-shot state. Locked. */
static void repoll_wait_report(const struct look *look, size_t i, uint32_t bits,
			       struct epoll_event *event)
{
	struct repoll_member *top = look->entries[i].top;

	*event = (struct epoll_event){.events = bits, .data = top->data};
	if (top->sock && top->events & EPOLLET) {
		uint32_t before = top->reported_changes == look->edges[i].changes ? top->reported :
										    0;

		top->reported = before | bits;
		top->reported_changes = look->edges[i].changes;
	}
	top->is_spent = top->events & EPOLLONESHOT;
	/* The next poll begins with the members that were not reported. */
	list_move_tail(&top->in_set, &top->set->members);
}

/* Collects the events of the members that are rsockets or sets. */
static int collect_members(const struct look *look, struct epoll_event *events, int most)
{
	const struct repoll_member *last = NULL;
	int count = 0;

	pthread_mutex_lock(&repoll_lock);
	if (look->version == look->set->version) {
		for (size_t i = FIXED; i < look->count && count < most; i++) {
			uint32_t bits = look->entries[i].top == last ? 0 : entry_events(look, i);

			if (!bits)
				continue;
			/* The entries of a nested set are contiguous; the set is reported once. */
			last = look->entries[i].top;
			repoll_wait_report(look, i, bits, &events[count++]);
		}
	}
	pthread_mutex_unlock(&repoll_lock);
	return count;
}

/* Collects the events of ordinary descriptors. Returns their number, or -errno. */
static int collect_kernel(const struct look *look, struct epoll_event *events, int most)
{
	int count = 0;

	if (look->fds[0].revents & POLLIN && most)
		count = sys_epoll_look(look->set->fd, events, most);
	return count < 0 ? -errno : count;
}

/* Returns the number of events, or -errno. An error of the kernel is reported if there are no other events. */
static int repoll_wait_collect(const struct look *look, struct epoll_event *events, int most)
{
	bool kernel_first = atomic_load(&look->set->kernel_first);
	int count, more;

	atomic_store(&look->set->kernel_first, !kernel_first);
	if (kernel_first) {
		count = collect_kernel(look, events, most);
		if (count < 0)
			return count;
		return count + collect_members(look, events + count, most - count);
	}
	count = collect_members(look, events, most);
	more = collect_kernel(look, events + count, most - count);
	if (more < 0)
		return count ? count : more;
	return count + more;
}

static int look_once(struct look *look, int timeout_ms)
{
	int ret;

	/* A signal may arrive after its flag was read: see waiter_drain(). */
	if (atomic_load(&look->wait.waiter->is_signalled) || (look->count && look->fds[1].revents))
		waiter_drain(look->wait.waiter);
	pthread_mutex_lock(&repoll_lock);
	ret = look_fill(look);
	pthread_mutex_unlock(&repoll_lock);
	return ret ? ret : rsock_poll_edges(look->fds, look->edges, look->count, timeout_ms);
}

static int wait_for_members(struct look *look, struct epoll_event *events, int most, int timeout_ms)
{
	uint64_t deadline_ns = WAIT_FOR_EVER;

	if (timeout_ms >= 0)
		deadline_ns = clock_now_ns() + (unsigned int)timeout_ms * CLOCK_NS_PER_MS;
	for (;;) {
		int left_ms = -1;
		int ret;

		if (deadline_ns != WAIT_FOR_EVER)
			left_ms = wait_timeout_ms(clock_now_ns(), deadline_ns, INT_MAX);
		ret = look_once(look, left_ms);
		if (ret > 0)
			ret = repoll_wait_collect(look, events, most);
		if (ret)
			return ret;
		if (deadline_ns != WAIT_FOR_EVER && clock_now_ns() >= deadline_ns)
			return 0;
	}
}

/* Ends a wait; also the cleanup handler of a cancelled thread. */
static void wait_end(void *arg)
{
	struct look *look = arg;

	pthread_mutex_lock(&repoll_lock);
	list_del(&look->wait.node);
	pthread_mutex_unlock(&repoll_lock);
	waiter_put(look->wait.waiter);
	free(look->fds);
	free(look->edges);
	free(look->entries);
	repoll_put(look->set);
}

/* The wait takes over the reference to the set. */
static int wait_in_set(struct repoll *set, struct epoll_event *events, int most, int timeout_ms)
{
	struct look look = {.set = set};
	int ret;

	look.wait.waiter = waiter_get();
	if (!look.wait.waiter) {
		ret = -errno;
		repoll_put(set);
		return ret;
	}
	pthread_mutex_lock(&repoll_lock);
	list_add_tail(&look.wait.node, &set->waits);
	pthread_mutex_unlock(&repoll_lock);
	pthread_cleanup_push(wait_end, &look);
	ret = wait_for_members(&look, events, most, timeout_ms);
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
