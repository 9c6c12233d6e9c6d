/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/xrc_forward.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/qp/xrc_remote.h"

/*
 * A message that waits for space. It does not refer to the object that sent it. Freed when it was
 * sent.
 */
struct pending_msg {
	struct list_head node; /* xrc_forward_queue.pending */
	struct xrc_forward_msg msg;
};

void xrc_forward_init(struct xrc_forward *forward)
{
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		list_init(&forward->queues[slot].pending);
		list_init(&forward->queues[slot].waiters);
	}
}

static void pending_msg_free(struct pending_msg *pending)
{
	list_del(&pending->node);
	free(pending);
}

static void discard_pending(struct xrc_forward_queue *queue)
{
	while (!list_is_empty(&queue->pending))
		pending_msg_free(list_first_entry(&queue->pending, struct pending_msg, node));
}

void xrc_forward_fini(struct xrc_forward *forward)
{
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++)
		discard_pending(&forward->queues[slot]);
}

static int send_now(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg)
{
	const struct xrc_forward_carrier *carrier = engine->xrc_forward.carrier;
	struct xrc_forward_frame frame;

	if (!carrier)
		return -EOPNOTSUPP;
	xrc_forward_encode(msg, &frame);
	/*
	 * ATTACH is the first message to an executor. Before XRC_REMOTE_OPEN, xrc_remote_connect()
	 * has connected.
	 */
	return carrier->send(engine, slot, frame.pieces, frame.count,
			     msg->type == XRC_FORWARD_ATTACH);
}

/* false: there is no space for all pending messages. */
static bool send_pending(struct engine *engine, uint32_t slot)
{
	struct xrc_forward_queue *queue = &engine->xrc_forward.queues[slot];

	while (!list_is_empty(&queue->pending)) {
		struct pending_msg *pending = list_first_entry(&queue->pending, struct pending_msg,
							       node);

		if (send_now(engine, slot, &pending->msg) == -EAGAIN)
			return false;
		pending_msg_free(pending);
	}
	return true;
}

int xrc_forward_send(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg)
{
	engine_assert_locked(engine);
	if (slot >= IPC_SLOTS)
		return -ENOENT;
	return send_pending(engine, slot) ? send_now(engine, slot, msg) : -EAGAIN;
}

/*
 * Whether the message may become pending. The number of most messages is limited by the objects of
 * this process: one DETACH for each QP, one CLOSE for each remote handle, one EVENT of each kind
 * for each QP.
 */
static bool may_become_pending(struct xrc_forward_queue *queue, const struct xrc_forward_msg *msg)
{
	struct pending_msg *pending, *tmp;
	unsigned int count = 0;

	list_for_each_entry_safe(pending, tmp, &queue->pending, node) {
		bool is_same = pending->msg.type == msg->type && pending->msg.qpn == msg->qpn;

		if (is_same && msg->type == XRC_REMOTE_EVENT &&
		    pending->msg.event.event == msg->event.event)
			return false;
		if (is_same && msg->type == XRC_FORWARD_REPORT)
			pending_msg_free(pending);
		else
			count += pending->msg.type == msg->type;
	}
	if (msg->type == XRC_FORWARD_REPORT)
		return count < XRC_FORWARD_REPORTS_MAX;
	return msg->type != XRC_REMOTE_RESULT || count < XRC_FORWARD_RESULTS_MAX;
}

void xrc_forward_post(struct engine *engine, uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct xrc_forward_queue *queue = &engine->xrc_forward.queues[slot];
	struct pending_msg *pending;

	engine_assert_locked(engine);
	assert(msg->type != XRC_FORWARD_REQUEST && msg->type != XRC_FORWARD_REPLAY);
	if (xrc_forward_send(engine, slot, msg) != -EAGAIN || !may_become_pending(queue, msg))
		return;
	pending = malloc(sizeof(*pending));
	if (!pending)
		return;
	pending->msg = *msg;
	list_add_tail(&pending->node, &queue->pending);
}

void xrc_forward_waiter_init(struct xrc_forward_waiter *waiter,
			     void (*on_space)(struct xrc_forward_waiter *waiter))
{
	list_init(&waiter->node);
	waiter->on_space = on_space;
}

void xrc_forward_wait(struct engine *engine, uint32_t slot, struct xrc_forward_waiter *waiter)
{
	engine_assert_locked(engine);
	list_move_tail(&waiter->node, &engine->xrc_forward.queues[slot].waiters);
}

int xrc_forward_receive(struct engine *engine, uint32_t slot, const uint8_t *bytes, uint32_t len)
{
	const struct xrc_forward_user *user = engine->xrc_forward.user;
	struct xrc_forward_msg msg;
	int ret = xrc_forward_decode(&msg, bytes, len, slot, engine->slot);

	engine_assert_locked(engine);
	if (ret)
		return ret;
	switch (msg.type) {
	case XRC_REMOTE_OPEN:
	case XRC_REMOTE_CLOSE:
	case XRC_REMOTE_QUERY:
	case XRC_REMOTE_MODIFY:
		xrc_remote_execute(engine, slot, &msg);
		break;
	case XRC_REMOTE_RESULT:
		xrc_remote_take_result(engine, slot, &msg.result);
		break;
	case XRC_REMOTE_EVENT:
		xrc_remote_take_event(engine, &msg);
		break;
	default:
		if (user)
			user->receive(engine, slot, &msg);
		break;
	}
	return 0;
}

/* A waiter that still finds no space waits again, so the list is emptied first. */
static void notify_waiters(struct xrc_forward_queue *queue)
{
	struct list_head due;

	list_init(&due);
	list_splice_tail(&queue->waiters, &due);
	while (!list_is_empty(&due)) {
		struct xrc_forward_waiter *waiter =
			list_first_entry(&due, struct xrc_forward_waiter, node);

		list_del(&waiter->node);
		waiter->on_space(waiter);
	}
}

void xrc_forward_space(struct engine *engine, uint32_t slot)
{
	engine_assert_locked(engine);
	if (send_pending(engine, slot))
		notify_waiters(&engine->xrc_forward.queues[slot]);
}

void xrc_forward_peer_exited(struct engine *engine, uint32_t slot)
{
	const struct xrc_forward_user *user = engine->xrc_forward.user;
	struct xrc_forward_queue *queue = &engine->xrc_forward.queues[slot];

	engine_assert_locked(engine);
	discard_pending(queue);
	if (user)
		user->peer_exited(engine, slot);
	notify_waiters(queue);
	xrc_remote_peer_exited(engine, slot);
}

void xrc_forward_domain_closed(struct engine *engine, const struct xrc_domain *domain)
{
	engine_assert_locked(engine);
	if (engine->xrc_forward.user)
		engine->xrc_forward.user->domain_closed(engine, domain);
}
