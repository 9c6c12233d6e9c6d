/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/roce_forward.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/reserve.h"
#include "daemon/udp_feed.h"
#include "link/udp_group.h"

/* Datagrams that are forwarded to one process before the next process is served. */
#define FORWARD_TURN 8

#define FORWARD_EVENTS 32

/*
 * Applications that wait for a datagram may busy-poll on all CPUs. With this priority the
 * forwarding thread runs as soon as a datagram arrives, and not only when the time slice of an
 * application ends.
 */
#define FORWARD_NICE (-10)

/*
 * Encoding of epoll data: the slot, which of its two descriptors is ready, and the generation of
 * the registration.
 */
#define EVENT_SLOT_MASK	       0xffffu
#define EVENT_ROOM	       (1u << 16)
#define EVENT_GENERATION_SHIFT 32
#define EVENT_STOP	       0 /* slot 0 is never forwarded */

/* The forwarding to one process. Owned by roce_forward.forwards. */
struct forward {
	uint32_t slot;
	uint32_t generation;
	bool is_full; /* the ring is full: epoll does not wait for the socket */
	struct udp_feed feed;
	struct udp_groups groups; /* used by the event loop's thread only */
	uint32_t group_count;
};

static uint64_t event_of(const struct forward *one, uint32_t flags)
{
	return (uint64_t)one->generation << EVENT_GENERATION_SHIFT | flags | one->slot;
}

void roce_forward_init(struct roce_forward *forward)
{
	*forward = (struct roce_forward){.epoll_fd = -1, .stop_fd = -1};
	pthread_mutex_init(&forward->gate, NULL);
	pthread_mutex_init(&forward->state, NULL);
}

/*
 * For the event loop's thread: waits for at most one turn of the forwarding thread, which yields at
 * the gate.
 */
static void roce_forward_lock(struct roce_forward *forward)
{
	pthread_mutex_lock(&forward->gate);
	pthread_mutex_lock(&forward->state);
	pthread_mutex_unlock(&forward->gate);
}

static void roce_forward_unlock(struct roce_forward *forward)
{
	pthread_mutex_unlock(&forward->state);
}

/* Enables or disables waiting for the socket's datagrams. */
static void forward_set_full(struct roce_forward *forward, struct forward *one, bool is_full)
{
	struct epoll_event event = {.events = is_full ? 0 : EPOLLIN, .data.u64 = event_of(one, 0)};

	if (one->is_full == is_full)
		return;
	one->is_full = is_full;
	/* Cannot fail: the descriptor is in the set. */
	(void)epoll_ctl(forward->epoll_fd, EPOLL_CTL_MOD, one->feed.socket_fd, &event);
}

static void forward_turn(struct roce_forward *forward, uint64_t what)
{
	struct forward *one;

	/* If the event loop's thread waits for `state`, it has the gate and goes first. */
	pthread_mutex_lock(&forward->gate);
	pthread_mutex_unlock(&forward->gate);
	pthread_mutex_lock(&forward->state);
	one = forward->forwards[what & EVENT_SLOT_MASK];
	if (one && one->generation == what >> EVENT_GENERATION_SHIFT)
		forward_set_full(forward, one,
				 udp_feed_run(&one->feed, FORWARD_TURN) == UDP_FEED_FULL);
	pthread_mutex_unlock(&forward->state);
}

static void *forward_main(void *arg)
{
	struct roce_forward *forward = arg;
	struct epoll_event events[FORWARD_EVENTS];

	pthread_setname_np(pthread_self(), "usrdmad-forward");
	if (setpriority(PRIO_PROCESS, (id_t)gettid(), FORWARD_NICE))
		log_debug("the forwarding thread runs at the daemon's own priority: %m");
	for (;;) {
		int n = epoll_wait(forward->epoll_fd, events, FORWARD_EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == EVENT_STOP)
				return NULL;
			forward_turn(forward, events[i].data.u64);
		}
	}
}

/*
 * Starts the forwarding thread at the first call. 0 or -errno; after a failure the next call reuses
 * the opened descriptors.
 */
static int roce_forward_start(struct roce_forward *forward)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = EVENT_STOP};
	sigset_t all, old;
	int error;

	if (forward->has_thread)
		return 0;
	if (forward->epoll_fd < 0)
		forward->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (forward->epoll_fd < 0)
		return -errno;
	if (forward->stop_fd < 0) {
		forward->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (forward->stop_fd < 0)
			return -errno;
		if (epoll_ctl(forward->epoll_fd, EPOLL_CTL_ADD, forward->stop_fd, &event)) {
			error = -errno;
			close(forward->stop_fd);
			forward->stop_fd = -1;
			return error;
		}
	}
	/* The event loop's thread handles the signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = -pthread_create(&forward->thread, NULL, forward_main, forward);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	forward->has_thread = !error;
	return error;
}

void roce_forward_close(struct roce_forward *forward)
{
	if (forward->has_thread) {
		(void)eventfd_write(forward->stop_fd, 1);
		pthread_join(forward->thread, NULL);
	}
	if (forward->stop_fd >= 0)
		close(forward->stop_fd);
	if (forward->epoll_fd >= 0)
		close(forward->epoll_fd);
	pthread_mutex_destroy(&forward->state);
	pthread_mutex_destroy(&forward->gate);
}

/*
 * Adds both descriptors to epoll. The eventfd is edge-triggered and never read, because its process
 * could write it without end.
 */
static int forward_watch(const struct roce_forward *forward, const struct forward *one)
{
	struct epoll_event room = {.events = EPOLLIN | EPOLLET,
				   .data.u64 = event_of(one, EVENT_ROOM)};
	struct epoll_event datagrams = {.events = EPOLLIN, .data.u64 = event_of(one, 0)};
	int error;

	if (epoll_ctl(forward->epoll_fd, EPOLL_CTL_ADD, one->feed.room_fd, &room))
		return -errno;
	if (!epoll_ctl(forward->epoll_fd, EPOLL_CTL_ADD, one->feed.socket_fd, &datagrams))
		return 0;
	error = -errno;
	(void)epoll_ctl(forward->epoll_fd, EPOLL_CTL_DEL, one->feed.room_fd, NULL);
	return error;
}

int roce_forward_add(struct roce_forward *forward, uint32_t slot, int socket_fd,
		     int fds[IPC_RING_FDS])
{
	struct forward *one;
	int error = roce_forward_start(forward);

	if (error)
		return error;
	one = calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	error = udp_feed_open(&one->feed, socket_fd, fds);
	if (error)
		goto err_feed;
	if (reserve_holds(one->feed.words_fd) || reserve_holds(one->feed.bell_fd) ||
	    reserve_holds(one->feed.room_fd)) {
		error = -EMFILE;
		goto err_watch;
	}
	one->slot = slot;
	one->generation = ++forward->next_generation;
	udp_groups_init(&one->groups, socket_fd);
	roce_forward_lock(forward);
	error = forward_watch(forward, one);
	if (!error)
		forward->forwards[slot] = one;
	roce_forward_unlock(forward);
	if (!error)
		return 0;
err_watch:
	udp_feed_close(&one->feed);
	for (int i = 0; i < IPC_RING_FDS; i++)
		close(fds[i]);
err_feed:
	free(one);
	return error;
}

static void count_one(const struct forward *one, struct forward_counters *counters)
{
	uint32_t memory[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(memory);

	counters->datagrams += one->feed.datagrams;
	counters->ring_full += one->feed.full_count;
	if (!getsockopt(one->feed.socket_fd, SOL_SOCKET, SO_MEMINFO, memory, &len))
		counters->dropped += memory[SK_MEMINFO_DROPS];
}

void roce_forward_remove(struct roce_forward *forward, uint32_t slot)
{
	struct forward *one = forward->forwards[slot];

	if (!one)
		return;
	roce_forward_lock(forward);
	forward->forwards[slot] = NULL;
	(void)epoll_ctl(forward->epoll_fd, EPOLL_CTL_DEL, one->feed.socket_fd, NULL);
	/*
	 * Closing the eventfd would not remove it from epoll, because the process has copies of it.
	 */
	(void)epoll_ctl(forward->epoll_fd, EPOLL_CTL_DEL, one->feed.room_fd, NULL);
	count_one(one, &forward->past);
	roce_forward_unlock(forward);
	udp_groups_fini(&one->groups);
	udp_feed_close(&one->feed);
	free(one);
}

uint32_t roce_forward_groups(const struct roce_forward *forward, uint32_t slot)
{
	return forward->forwards[slot] ? forward->forwards[slot]->group_count : 0;
}

int roce_forward_join(struct roce_forward *forward, uint32_t slot, uint32_t ifindex,
		      const uint8_t group[GID_BYTES])
{
	struct forward *one = forward->forwards[slot];
	int error;

	if (!one)
		return -EOPNOTSUPP;
	if (!gid_is_multicast(group))
		return -EINVAL;
	error = udp_groups_join(&one->groups, ifindex, group);
	one->group_count += !error;
	return error;
}

int roce_forward_leave(struct roce_forward *forward, uint32_t slot, uint32_t ifindex,
		       const uint8_t group[GID_BYTES])
{
	struct forward *one = forward->forwards[slot];
	int error;

	if (!one)
		return -EOPNOTSUPP;
	if (!gid_is_multicast(group))
		return -EINVAL;
	error = udp_groups_leave(&one->groups, ifindex, group);
	one->group_count -= !error;
	return error;
}

void roce_forward_counters(struct roce_forward *forward, struct forward_counters *counters)
{
	roce_forward_lock(forward);
	*counters = forward->past;
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		const struct forward *one = forward->forwards[slot];

		if (!one)
			continue;
		counters->processes++;
		count_one(one, counters);
	}
	roce_forward_unlock(forward);
}
