/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_XRC_FORWARD_H
#define USRDMA_CORE_QP_XRC_FORWARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "core/qp/xrc_forward_msg.h"

/*
 * XRC forwarding between the processes of a host: sends and receives the messages of
 * xrc_forward_msg.h (ADR 0020). The carrier transports them between two processes, in order and
 * without loss. The user sequences and executes the requests of XRC target QPs. Both are
 * transports, which register here when they are opened. The messages XRC_REMOTE_* belong to
 * xrc_remote.h.
 *
 * The messages to one process are sent in order. If the carrier has no space, a message waits in
 * the queue of that process, or its sender waits as a struct xrc_forward_waiter until the queue is
 * empty. All functions with a `struct engine` are called with engine.lock held.
 */
struct xrc_forward_carrier {
	/*
	 * Sends the concatenation of `pieces`, at most XRC_FORWARD_BYTES_MAX bytes, to the process
	 * of a slot. may_connect: connects to the process if necessary. -EAGAIN: no space, or the
	 * connection is being established; the carrier calls xrc_forward_space() later. Any other
	 * -errno: no such process.
	 */
	int (*send)(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		    bool may_connect);
};

struct xrc_forward_user {
	/* A message of type ATTACH, REQUEST, REPLAY, DETACH or REPORT arrived from that slot. */
	void (*receive)(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg);
	/* The process of that slot exited. */
	void (*peer_exited)(struct engine *engine, uint32_t slot);
	/* This process closes the domain: it has no SRQs in it any more. */
	void (*domain_closed)(struct engine *engine, const struct xrc_domain *domain);
};

/*
 * An object that could not send a message. Initialised by xrc_forward_waiter_init();
 * list_del(&node) ends the wait.
 */
struct xrc_forward_waiter {
	struct list_head node; /* xrc_forward_queue.waiters */
	void (*on_space)(struct xrc_forward_waiter *waiter);
};

/* For one process. */
struct xrc_forward_queue {
	struct list_head pending; /* struct pending_msg, in the order in which they are sent */
	/* struct xrc_forward_waiter, notified after the last pending message was sent */
	struct list_head waiters;
};

/* Of the engine. */
struct xrc_forward {
	const struct xrc_forward_carrier *carrier; /* NULL: none */
	const struct xrc_forward_user *user;	   /* NULL: none */
	struct xrc_forward_queue queues[IPC_SLOTS];
};

/*
 * Limits of the pending messages to one process. Any process can cause these messages. A process
 * that reads its messages has at most one outstanding operation for each thread.
 */
#define XRC_FORWARD_REPORTS_MAX 256u
#define XRC_FORWARD_RESULTS_MAX 1024u

void xrc_forward_init(struct xrc_forward *forward);
/* Discards the pending messages. */
void xrc_forward_fini(struct xrc_forward *forward);

/*
 * Sends a message after the pending messages to that process. 0; -EAGAIN: no space for all of them,
 * the caller may wait with xrc_forward_wait(); any other -errno: no such process.
 */
int xrc_forward_send(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg)
	__attribute__((warn_unused_result));

/*
 * Sends a message without a packet now, or after the pending messages as soon as there is space. A
 * REPORT replaces a pending REPORT about the same QP. An EVENT that is pending already is not
 * added. A REPORT or RESULT is dropped if its limit is reached.
 */
void xrc_forward_post(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg);

void xrc_forward_waiter_init(struct xrc_forward_waiter *waiter,
			     void (*on_space)(struct xrc_forward_waiter *waiter));
/*
 * Calls waiter->on_space() once when there is space for messages to that slot, or when its process
 * exits.
 */
void xrc_forward_wait(struct engine *engine, uint32_t slot, struct xrc_forward_waiter *waiter);

/*
 * For the carrier: a message arrived from that slot. 0; -EBADMSG: it is malformed and was dropped.
 */
int xrc_forward_receive(struct engine *engine, uint32_t slot, const uint8_t *bytes, uint32_t len)
	__attribute__((warn_unused_result));
/* For the carrier: there is space again for messages to that slot, or its process was not found. */
void xrc_forward_space(struct engine *engine, uint32_t slot);
/* For the carrier: the process of that slot exited, and all its messages were received. */
void xrc_forward_peer_exited(struct engine *engine, uint32_t slot);

void xrc_forward_domain_closed(struct engine *engine, const struct xrc_domain *domain);

#endif
