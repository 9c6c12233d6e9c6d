/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_REPOLL_LOOK_H
#define USRDMA_RSOCKET_REPOLL_LOOK_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "rsocket/poll.h"
#include "rsocket/repoll.h"
#include "rsocket/wait.h"

/* The epoll events that poll(2) also has, with the same values. */
#define LOOK_POLL_BITS                                                                    \
	(EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLRDNORM | \
	 EPOLLRDBAND | EPOLLWRNORM | EPOLLWRBAND)

/*
 * The member that one entry of a look belongs to. top: the member of the polled set; leaf: the rsocket, which is top
 * itself or is in a set nested in top. leaf is NULL for the kernel descriptor of a nested set. Both are NULL for
 * the kernel descriptor of the polled set and for a descriptor that is not a member.
 */
struct look_entry {
	struct repoll_member *top;
	struct repoll_member *leaf;
};

/*
 * The arguments of rsock_poll_edges() for one or several sets, and the member of each entry. Entry 0 is the waiter's
 * eventfd. The members are valid only while the versions of the sets are the same. Owned by the waiting thread.
 */
struct look {
	struct waiter *waiter;
	struct pollfd *fds;
	struct rsock_edge *edges;
	struct look_entry *entries;
	size_t count;
	size_t room;
};

/* 0, or -errno of waiter_get(). */
int look_begin(struct look *look) __attribute__((warn_unused_result));
void look_end(struct look *look);

/* Removes all entries but the first, and clears the waiter's signal. 0 or -ENOMEM. */
int look_clear(struct look *look) __attribute__((warn_unused_result));
/* Adds a descriptor. id: that of an object that is not an rsocket (struct rsock_edge), or 0. 0 or -ENOMEM. */
int look_add_fd(struct look *look, int fd, uint64_t id, uint32_t events)
	__attribute__((warn_unused_result));
/* Adds the kernel descriptor and the members of a set. 0 or -errno. The caller holds repoll_lock. */
int look_add_set(struct look *look, struct repoll *set) __attribute__((warn_unused_result));

/*
 * The events of the member of one entry that are to be reported; 0: none, or the entry has no member. Another thread
 * may have reported some of them since the poll. The caller holds repoll_lock, and the version of the set is that of
 * look_add_set().
 */
uint32_t look_events(const struct look *look, size_t i);

#endif
