/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/repoll_look.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "rsocket/repoll_edge.h"
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
		    struct repoll_member *member)
{
	size_t i = look->count;

	if (i == look->room && look_grow(look))
		return -ENOMEM;
	look->fds[i] = (struct pollfd){.fd = fd, .events = (short)(events & LOOK_POLL_BITS)};
	look->edges[i] = (struct rsock_edge){.id = id};
	if (member && member->sock) {
		look->edges[i].reported = (short)member->reported;
		look->edges[i].reported_changes = member->reported_changes;
	}
	look->count++;
	look->entries[i] = (struct look_entry){.member = member, .end = look->count};
	return 0;
}

int look_add_fd(struct look *look, int fd, uint64_t id, uint32_t events)
{
	return look_add(look, fd, id, events, NULL);
}

int look_clear(struct look *look)
{
	/* A signal may arrive after its flag was read: see waiter_drain(). */
	if (atomic_load(&look->waiter->is_signalled) || (look->count && look->fds[0].revents))
		waiter_drain(look->waiter);
	look->count = 0;
	return look_add_fd(look, look->waiter->event_fd, look->waiter->id, EPOLLIN);
}

static int look_add_members(struct look *look, struct repoll *set, bool is_in_edge);

/*
 * is_in_edge: a set around it is edge-triggered, and its edge_fd watches the kernel descriptors.
 * Locked.
 */
static int look_add_nested(struct look *look, struct repoll_member *member, bool is_in_edge)
{
	bool is_edge = member->events & EPOLLET;
	struct repoll *nested = member->nested;
	size_t i = look->count;
	int ret = 0;

	/* Other events do not occur. */
	if (!(member->events & EPOLLIN))
		return 0;
	if (is_edge)
		ret = repoll_edge_prepare(member);
	/* The kernel does not nest edge_fd around the sets: the member is level-triggered. */
	if (ret == -ELOOP) {
		is_edge = false;
		ret = 0;
	}
	if (!ret && is_edge)
		ret = look_add(look, member->edge_fd, member->edge_id, EPOLLIN, member);
	else if (!ret && !is_in_edge)
		ret = look_add(look, nested->fd, nested->id, EPOLLIN, member);
	if (ret)
		return ret;
	ret = look_add_members(look, nested, is_edge || is_in_edge);
	if (is_edge || !is_in_edge)
		look->entries[i].end = look->count;
	return ret;
}

/* Locked. */
static int look_add_members(struct look *look, struct repoll *set, bool is_in_edge)
{
	struct repoll_member *member;
	int ret = 0;

	list_for_each_entry(member, &set->members, in_set) {
		/* An rsocket that the process inherited from its parent is skipped. */
		if (member->is_spent || (member->sock && atomic_load(&member->sock->is_inherited)))
			continue;
		ret = member->sock ? look_add(look, member->fd, 0, member->events, member) :
				     look_add_nested(look, member, is_in_edge);
		if (ret)
			break;
	}
	return ret;
}

int look_add_set(struct look *look, struct repoll *set)
{
	int ret = look_add_fd(look, set->fd, set->id, EPOLLIN);

	return ret ? ret : look_add_members(look, set, false);
}

/* The 64-bit finaliser of MurmurHash3. */
static uint64_t look_mix(uint64_t value)
{
	value ^= value >> 33;
	value *= UINT64_C(0xff51afd7ed558ccd);
	value ^= value >> 33;
	value *= UINT64_C(0xc4ceb9fe1a85ec53);
	return value ^ value >> 33;
}

/*
 * A sum over the rsockets of a nested set that changes with each edge of one of them. The hash
 * prevents that the edge of one rsocket and an rsocket that is no longer polled cancel out.
 */
static uint64_t look_changes(const struct look *look, size_t i)
{
	uint64_t sum = 0;

	for (size_t j = i + 1; j < look->entries[i].end; j++) {
		const struct repoll_member *leaf = look->entries[j].member;

		if (leaf->sock)
			sum += look_mix(look_mix((uintptr_t)leaf) + look->edges[j].changes);
	}
	return sum;
}

static bool has_reported_changes(const struct look *look, size_t i)
{
	const struct repoll_member *member = look->entries[i].member;

	return member->edge_fd >= 0 && member->reported &&
	       member->reported_version == member->nested->version &&
	       member->reported_changes == look_changes(look, i);
}

/* Whether an rsocket in a nested set has events. */
static bool nested_has_events(const struct look *look, size_t i)
{
	uint32_t bits = 0;
	size_t j = i + 1;

	while (!bits && j < look->entries[i].end)
		bits = look_events(look, j, &j);
	return bits;
}

/* A nested set is readable while it has events to report. */
static uint32_t nested_events(const struct look *look, size_t i)
{
	if (look->fds[i].revents & POLLIN)
		return EPOLLIN;
	return nested_has_events(look, i) && !has_reported_changes(look, i) ? EPOLLIN : 0;
}

uint32_t look_events(const struct look *look, size_t i, size_t *end)
{
	const struct repoll_member *member = look->entries[i].member;
	uint32_t bits = (uint32_t)look->fds[i].revents & LOOK_POLL_BITS;

	*end = look->entries[i].end;
	if (!member || member->is_spent)
		return 0;
	if (member->nested)
		return nested_events(look, i);
	if (member->reported && member->reported_changes == look->edges[i].changes)
		bits &= ~member->reported;
	return bits;
}

bool look_report(const struct look *look, size_t i, uint32_t bits)
{
	struct repoll_member *member = look->entries[i].member;

	if (member->events & EPOLLET && member->sock) {
		if (member->reported_changes != look->edges[i].changes)
			member->reported = 0;
		member->reported |= bits;
		member->reported_changes = look->edges[i].changes;
	} else if (member->edge_fd >= 0) {
		/*
		 * Another thread may have read the arrivals of ordinary descriptors since the poll.
		 */
		bool has_arrivals = repoll_edge_take(member);

		if (!has_arrivals && (!nested_has_events(look, i) || has_reported_changes(look, i)))
			return false;
		member->reported = bits;
		member->reported_changes = look_changes(look, i);
		member->reported_version = member->nested->version;
	}
	member->is_spent = member->events & EPOLLONESHOT;
	/* The next poll begins with the members that were not reported. */
	list_move_tail(&member->in_set, &member->set->members);
	return true;
}
