/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/librdmacm_calls.h"
#include "rsocket/repoll.h"
#include "rsocket/socket.h"

#define EVENTS	   64
#define ROOM_LEAST 16

uint64_t watch_new_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* The entry of an id, or the unused entry where it belongs. The table has unused entries. */
static struct watched *entry_of(struct watched *table, uint32_t room, uint64_t id)
{
	uint32_t at = (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	while (table[at & (room - 1)].id && table[at & (room - 1)].id != id)
		at++;
	return &table[at & (room - 1)];
}

/*
 * Makes a table with room for `count` entries, of which at most half are used. Keeps the entries of
 * the current wait.
 */
static int rebuild(struct watch *watch, size_t count)
{
	uint32_t room = ROOM_LEAST;
	struct watched *table;

	while (room / 2 < count)
		room *= 2;
	table = calloc(room, sizeof(*table));
	if (!table)
		return -ENOMEM;
	watch->count = 0;
	for (uint32_t i = 0; i < watch->room; i++) {
		if (!watch->table[i].id || watch->table[i].wait != watch->wait)
			continue;
		*entry_of(table, room, watch->table[i].id) = watch->table[i];
		watch->count++;
	}
	free(watch->table);
	watch->table = table;
	watch->room = room;
	return 0;
}

static void watch_close(struct watch *watch)
{
	if (watch->serve)
		usrdma_serve_close(watch->serve);
	free(watch->table);
	*watch = (struct watch){0};
}

void watch_forget(struct watch *watch)
{
	free(watch->table);
	*watch = (struct watch){0};
}

static int watch_open_set(struct watch *watch, struct ibv_context *context)
{
	int ret;

	if (watch->serve && watch->context == context)
		return 0;
	watch_close(watch);
	ret = usrdma_serve_open(context, &watch->serve);
	if (!ret)
		watch->context = context;
	return ret;
}

/* Marks the descriptors that are watched already; returns their number. */
static size_t mark(struct watch *watch, const uint64_t *ids, size_t count)
{
	size_t found = 0;

	watch->wait++;
	for (size_t i = 0; watch->room && i < count; i++) {
		struct watched *entry = entry_of(watch->table, watch->room, ids[i]);

		if (!entry->id)
			continue;
		found += entry->wait != watch->wait;
		entry->wait = watch->wait;
		entry->place = (uint32_t)i;
	}
	return found;
}

/*
 * Removes a descriptor from the kernel's set unless its object is closed: the descriptor has then
 * left the set, and its number may belong to another file. The reference to the object prevents
 * that it is closed at this time.
 */
static void remove_one(const struct watch *watch, const struct watched *entry)
{
	struct rsock *sock = rsock_find(entry->fd);
	struct repoll *set = sock ? NULL : repoll_find(entry->fd);

	if ((sock && sock->id == entry->id) || (set && set->id == entry->id) ||
	    entry->id & WATCH_PERMANENT)
		epoll_ctl(watch->serve->epoll_fd, EPOLL_CTL_DEL, entry->fd, NULL);
	if (sock)
		rsock_put(sock);
	if (set)
		repoll_put(set);
}

/* Removes the descriptors that are not waited for any more. */
static int remove_others(struct watch *watch, size_t count)
{
	for (uint32_t i = 0; i < watch->room; i++) {
		if (watch->table[i].id && watch->table[i].wait != watch->wait)
			remove_one(watch, &watch->table[i]);
	}
	return rebuild(watch, count);
}

static int add_missing(struct watch *watch, const struct pollfd *fds, const uint64_t *ids,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct watched *entry = entry_of(watch->table, watch->room, ids[i]);
		struct epoll_event event = {.events = EPOLLIN,
					    .data.u64 = SERVE_HANDLE_MIN | ids[i]};

		if (entry->id)
			continue;
		if (epoll_ctl(watch->serve->epoll_fd, EPOLL_CTL_ADD, fds[i].fd, &event))
			return -errno;
		*entry = (struct watched){ids[i], fds[i].fd, watch->wait, (uint32_t)i};
		watch->count++;
	}
	return 0;
}

/* Makes the kernel's set equal to the descriptors. */
static int synchronize(struct watch *watch, const struct pollfd *fds, const uint64_t *ids,
		       size_t count)
{
	size_t found = mark(watch, ids, count);
	int ret = 0;

	if (found == watch->count && found == count)
		return 0;
	if (found != watch->count || 2 * count > watch->room)
		ret = remove_others(watch, count);
	return ret ? ret : add_missing(watch, fds, ids, count);
}

/* Returns the number of readable descriptors; -ESTALE: there is an event of another descriptor. */
static int watch_report(const struct watch *watch, const struct epoll_event *events, int n,
			struct pollfd *fds)
{
	for (int i = 0; i < n; i++) {
		const struct watched *entry = entry_of(watch->table, watch->room,
						       events[i].data.u64 & ~SERVE_HANDLE_MIN);

		if (!entry->id || entry->wait != watch->wait)
			return -ESTALE;
		fds[entry->place].revents = POLLIN;
	}
	return n;
}

static bool all_known(const uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!ids[i])
			return false;
	}
	return true;
}

/* -ENOTSUP: the thread cannot run the transports. */
static int watch_wait(struct watch *watch, struct ibv_context *context, struct pollfd *fds,
		      const uint64_t *ids, size_t count, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	int ret;

	if (!all_known(ids, count))
		return -ENOTSUP;
	for (size_t i = 0; i < count; i++)
		fds[i].revents = 0;
	ret = watch_open_set(watch, context);
	if (!ret)
		ret = synchronize(watch, fds, ids, count);
	if (!ret) {
		ret = usrdma_serve_wait(watch->serve, events, EVENTS, timeout_ms);
		if (ret > 0)
			ret = watch_report(watch, events, ret, fds);
		if (ret >= 0 || ret == -EINTR)
			return ret;
	}
	/*
	 * -ESTALE: a child of a fork() has a copy of a descriptor that was closed here, which the
	 * kernel therefore still watches. Other errors: the device is unusable, or there is no
	 * memory or no descriptor.
	 */
	watch_close(watch);
	return -ENOTSUP;
}

static void watch_wait_ends(void *context)
{
	usrdma_wait_ends(context);
}

int watch_poll(struct watch *watch, struct ibv_context *context, struct pollfd *fds,
	       const uint64_t *ids, size_t count, int timeout_ms)
{
	int ret;

	if (!context || !timeout_ms) {
		ret = poll(fds, count, timeout_ms);
		return ret < 0 ? -errno : ret;
	}
	ret = watch_wait(watch, context, fds, ids, count, timeout_ms);
	if (ret != -ENOTSUP)
		return ret;
	usrdma_wait_begins(context);
	pthread_cleanup_push(watch_wait_ends, context);
	ret = poll(fds, count, timeout_ms);
	if (ret < 0)
		ret = -errno;
	pthread_cleanup_pop(1);
	return ret;
}
