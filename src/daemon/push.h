/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PUSH_H
#define USRDMA_DAEMON_PUSH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "ipc/msg.h"

/*
 * How many messages may wait for one client that does not read (stopped, or hostile), besides those in the socket. Each
 * can hold three of the daemon's descriptors; a user with all the slots it may have must not come near their limit.
 * Those without descriptors have room after that: each of the peers there can be has an end to tell of.
 */
#define PUSH_PENDING_MAX     64
#define PUSH_PENDING_ALL_MAX (PUSH_PENDING_MAX + IPC_SLOTS)

/*
 * The daemon's end of the socket on which an engine gets its pushes. Messages go out in order; what the socket does not
 * take waits here with copies of its descriptors. Owned by a session; open from push_open until on_closed was called.
 */
struct push {
	int fd;		/* -1: not open */
	uv_poll_t poll; /* runs while something waits */
	struct list_head pending;
	uint32_t pending_count;
	bool is_open;
	void (*on_failed)(struct push *push);
	void (*on_closed)(struct push *push);
};

void push_init(struct push *push, void (*on_failed)(struct push *push),
	       void (*on_closed)(struct push *push));

/* Takes fd over if it is a SEQPACKET socket, else -EINVAL and it stays the caller's. */
int push_open(struct push *push, uv_loop_t *loop, int fd) __attribute__((warn_unused_result));

/*
 * Sends or queues one message; fds stay the caller's. -ENOBUFS: too many wait, of its kind; -ENOTCONN: not open; or
 * -errno: the client is gone or beyond help. on_failed is not called by it, only when a queued message fails later.
 */
int push_send(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds)
	__attribute__((warn_unused_result));

/* Drops what waits and closes; on_closed comes from the loop. Only while open. */
void push_close(struct push *push);

#endif
