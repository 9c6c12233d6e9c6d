/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_REPOLL_LOOK_H
#define USRDMA_RSOCKET_REPOLL_LOOK_H

#include <poll.h>
#include <stdbool.h>
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
 * One entry of a look. The entries up to `end` belong to the same member: the entry of a nested set
 * precedes those of its members, except those in an edge-triggered set, whose nested sets have no
 * entry unless they are edge-triggered, too.
 */
struct look_entry {
	struct repoll_member *member; /* NULL: not a member */
	size_t end;
};

/*
 * The arguments of rsock_poll_edges() for one or several sets, and the member of each entry. Entry
 * 0 is the waiter's eventfd. The members are valid only while the versions of the sets are the
 * same. Owned by the waiting thread.
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
/*
 * Adds a descriptor. id: that of an object that is not an rsocket (struct rsock_edge), or 0. 0 or
 * -ENOMEM.
 */
int look_add_fd(struct look *look, int fd, uint64_t id, uint32_t events)
	__attribute__((warn_unused_result));
/*
 * Adds the kernel descriptor and the members of a set. 0 or -errno. The caller holds repoll_lock.
 */
int look_add_set(struct look *look, struct repoll *set) __attribute__((warn_unused_result));

/*
 * The events of the member of one entry that are to be reported; 0: none, or the entry has no
 * member. Another thread may have reported some of them since the poll. The next member is that of
 * the entry at *end. The caller holds repoll_lock, and the version of the set is that of
 * look_add_set().
 */
uint32_t look_events(const struct look *look, size_t i, size_t *end);

/*
 * Stores that these events of a member of the polled set are reported. False: they must not be
 * reported. As above.
 */
bool look_report(const struct look *look, size_t i, uint32_t bits);

#endif
