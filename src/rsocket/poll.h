/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_POLL_H
#define USRDMA_RSOCKET_POLL_H

#include <poll.h>
#include <stdint.h>

/*
 * Edge-triggered state of one descriptor. Events in `reported` are not reported again while
 * `changes` equals reported_changes. `changes` is the rsocket's number of edges for the polled
 * events at the time when the events were read (struct rsock.changes). Unused for other descriptors
 * than rsockets, whose `id` is that of watch_new_id(), or 0.
 */
struct rsock_edge {
	uint64_t id;
	short reported;
	uint64_t reported_changes;
	uint64_t changes;
};

/*
 * rpoll() with edge-triggered state: `edges` has one entry for each descriptor; NULL:
 * level-triggered. Returns the number of descriptors with events, or -errno.
 */
int rsock_poll_edges(struct pollfd *fds, struct rsock_edge *edges, nfds_t nfds, int timeout_ms)
	__attribute__((warn_unused_result));

#endif
