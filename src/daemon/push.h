/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PUSH_H
#define USRDMA_DAEMON_PUSH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "daemon/closer.h"
#include "ipc/msg.h"

/*
 * Maximum number of messages queued for a client that does not read (stopped or hostile), in
 * addition to those in its socket. PUSH_PENDING_MAX applies to messages with descriptors: each can
 * hold three of the daemon's descriptors, and the slots of one user must not exhaust the daemon's
 * descriptor limit. Messages without descriptors have more room: for each slot, one PEER_GONE and
 * one CONNECT_PEER_FAILED, and one AV_RESOLVED for each resolution that may wait.
 */
#define PUSH_PENDING_MAX     64
#define PUSH_PENDING_ALL_MAX (PUSH_PENDING_MAX + 2 * IPC_SLOTS + IPC_AV_WAITS_MAX)

/*
 * The daemon's end of the socket through which an engine receives pushed messages. Messages are
 * sent in order. If the socket is full, they are queued with duplicates of their descriptors. The
 * client cannot write into this socket, so closing it never closes descriptors of the client. Owned
 * by a session; open from push_open() until on_closed() was called.
 */
struct push {
	uv_loop_t *loop;
	struct closer *closer;
	int fd; /* -1: not open */
	/* initialised when a message is queued first; active while messages are queued */
	uv_poll_t poll;
	bool has_poll;
	struct list_head pending;
	uint32_t pending_count;
	uint32_t fd_count; /* duplicates of descriptors in queued messages */
	bool is_open;
	bool (*may_keep)(struct push *push, int fd); /* whether a queued message may keep fd */
	void (*on_failed)(struct push *push);
	void (*on_closed)(struct push *push);
};

void push_init(struct push *push, uv_loop_t *loop, struct closer *closer,
	       bool (*may_keep)(struct push *push, int fd), void (*on_failed)(struct push *push),
	       void (*on_closed)(struct push *push));

/*
 * Creates a SEQPACKET socket pair for messages to one client, which cannot write into its end. 0,
 * -EMFILE or -errno. The caller closes *client_end after passing it.
 */
int push_socketpair(int *ours, int *client_end) __attribute__((warn_unused_result));

/*
 * Creates the socket; *client_end is to be passed to the client. If it is open already, the new
 * socket replaces the previous one; -EEXIST if a message has ever been queued on that one. -EMFILE
 * and other errors.
 */
int push_open(struct push *push, int *client_end) __attribute__((warn_unused_result));

/*
 * Sends or queues one message; the caller keeps fds. `uid` is the user on whose account the queued
 * duplicates are closed (daemon/closer.h). -ENOBUFS: the queue is full for this kind of message.
 * -ENOTCONN: not open. Other -errno: the client is gone or the send failed. push_send() does not
 * call on_failed(); that reports a later failure of a queued message.
 */
int push_send(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds, uid_t uid)
	__attribute__((warn_unused_result));

/*
 * Drops queued messages and closes the socket. on_closed() is called before the return or later
 * from the loop. Only while open.
 */
void push_close(struct push *push);

#endif
