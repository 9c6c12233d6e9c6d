/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/repoll_look.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "rsocket/socket.h"

#define ROOM_LEAST 32

int look_begin(struct look *look)
{
	look->waiter = waiter_get();
	return look->waiter ? 0 : -errno;
}

void look_end(struct look *look)
{
	waiter_put(look->waiter);
	free(look->fds);
	free(look->edges);
	free(look->entries);
}

static bool look_grow_array(void **array, size_t count, size_t bytes)
{
	void *larger = realloc(*array, count * bytes);

	if (larger)
		*array = larger;
	return larger;
}

static int look_grow(struct look *look)
{
	size_t room = look->room ? 2 * look->room : ROOM_LEAST;

	if (!look_grow_array((void **)&look->fds, room, sizeof(*look->fds)) ||
	    !look_grow_array((void **)&look->edges, room, sizeof(*look->edges)) ||
	    !look_grow_array((void **)&look->entries, room, sizeof(*look->entries)))
		return -ENOMEM;
	look->room = room;
	return 0;
}

static int look_add(struct look *look, int fd, uint64_t id, uint32_t events,
		    struct look_entry entry)
{
	size_t i = look->count;

	if (i == look->room && look_grow(look))
		return -ENOMEM;
	look->fds[i] = (struct pollfd){.fd = fd, .events = (short)(events & LOOK_POLL_BITS)};
	look->edges[i] = (struct rsock_edge){.id = id};
	if (entry.leaf) {
		look->edges[i].reported = (short)entry.leaf->reported;
		look->edges[i].reported_changes = entry.leaf->reported_changes;
	}
	look->entries[i] = entry;
	look->count++;
	return 0;
}

int look_add_fd(struct look *look, int fd, uint64_t id, uint32_t events)
{
	const struct look_entry none = {0};

	return look_add(look, fd, id, events, none);
}

int look_clear(struct look *look)
{
	/* A signal may arrive after its flag was read: see waiter_drain(). */
	if (atomic_load(&look->waiter->is_signalled) || (look->count && look->fds[0].revents))
		waiter_drain(look->waiter);
	look->count = 0;
	return look_add_fd(look, look->waiter->event_fd, look->waiter->id, EPOLLIN);
}

/* top: the member of the polled set through which `set` was reached; NULL: `set` is the polled set. Locked. */
static int look_add_members(struct look *look, struct repoll *set, struct repoll_member *top)
{
	struct repoll_member *member;
	int ret = 0;

	list_for_each_entry(member, &set->members, in_set) {
		struct look_entry entry = {.top = top ? top : member};

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

int look_add_set(struct look *look, struct repoll *set)
{
	int ret = look_add_fd(look, set->fd, set->id, EPOLLIN);

	return ret ? ret : look_add_members(look, set, NULL);
}

uint32_t look_events(const struct look *look, size_t i)
{
	const struct repoll_member *leaf = look->entries[i].leaf, *top = look->entries[i].top;
	uint32_t bits = (uint32_t)look->fds[i].revents & LOOK_POLL_BITS;

	if (!top || top->is_spent || (leaf && leaf->is_spent))
		return 0;
	if (leaf && leaf->reported && leaf->reported_changes == look->edges[i].changes)
		bits &= ~leaf->reported;
	if (!bits || leaf == top)
		return bits;
	/* A nested set is readable while it has events to report. look_add_members() checked that EPOLLIN was
	 * requested. */
	return EPOLLIN;
}
