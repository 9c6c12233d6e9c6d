/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/repoll_edge.h"

#include <errno.h>

#include "base/syscalls.h"
#include "rsocket/watch.h"

#define EVENTS 16

static int edge_add_set(int edge_fd, const struct repoll *set)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	const struct repoll_member *member;
	int ret = 0;

	/* A set that is nested twice has two members with one descriptor. */
	if (epoll_ctl(edge_fd, EPOLL_CTL_ADD, set->fd, &event) && errno != EEXIST)
		return -errno;
	list_for_each_entry(member, &set->members, in_set) {
		if (member->nested && member->events & EPOLLIN)
			ret = edge_add_set(edge_fd, member->nested);
		if (ret)
			break;
	}
	return ret;
}

int repoll_edge_prepare(struct repoll_member *member)
{
	int ret;

	if (member->edge_fd >= 0 && member->edge_version == member->nested->version)
		return 0;
	repoll_edge_close(member);
	member->edge_fd = epoll_create1(EPOLL_CLOEXEC);
	if (member->edge_fd < 0)
		return -errno;
	member->edge_id = watch_new_id();
	member->edge_version = member->nested->version;
	ret = edge_add_set(member->edge_fd, member->nested);
	if (ret)
		repoll_edge_close(member);
	return ret;
}

bool repoll_edge_take(struct repoll_member *member)
{
	struct epoll_event events[EVENTS];
	bool has_any = false;
	int count;

	do {
		count = sys_epoll_look(member->edge_fd, events, EVENTS);
		has_any = has_any || count > 0;
	} while (count == EVENTS);
	return has_any;
}

void repoll_edge_close(struct repoll_member *member)
{
	if (member->edge_fd >= 0)
		sys_close(member->edge_fd);
	member->edge_fd = -1;
}
