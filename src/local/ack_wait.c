/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/ack_wait.h"

#include "base/clock.h"
#include "core/engine/lock_check.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/peer_shard.h"
#include "local/qp.h"

/*
 * An ACK is written to the FIFO at once, and a peer that is awake finds it. The doorbell for it
 * waits until the application replies, or has processed the message (core/queue/reply_wait.h). QPs
 * whose CQs have a channel belong to shard 0, so that engine.lock guards the list.
 */

/* Without a doorbell the peer is this process. */
static bool awaits_reply(const struct local_qp *lqp)
{
	return lqp->peer->doorbell && reply_is_awaited(&lqp->rx.reply, lqp->qp->recv_cq);
}

/*
 * Only if the application waits by other means than ibv_get_cq_event(): a thread that waits there
 * postpones the doorbell without a list and a timer (peer_run()).
 */
bool local_ack_may_wait(const struct local_qp *lqp)
{
	return direct_wake_is_possible(lqp->qp->recv_cq) && !peer_is_inline(lqp->peer) &&
	       awaits_reply(lqp);
}

void local_ack_wait_begin(struct local_qp *lqp)
{
	struct engine *engine = lqp->peer->engine;
	struct local *local = local_of(engine);

	engine_assert_locked(lqp->qp->context->engine);
	if (!list_is_linked(&lqp->ack_node))
		list_add_tail(&lqp->ack_node, &lqp->peer->waiting_acks);
	lqp->peer->has_waiting_acks = true;
	/* With direct wake-ups, the tick of the engine thread ends the wait. */
	if (local->ack_timer.is_pending || progress_has_wakes(progress_state(&engine->progress)))
		return;
	timer_add(&engine->timers, &local->ack_timer, clock_now_ns() + REPLY_WAIT_NS);
	engine_timer_added(engine);
}

void local_ack_wait_end_all(struct peer *peer)
{
	while (!list_is_empty(&peer->waiting_acks))
		list_del(peer->waiting_acks.next);
	peer->has_waiting_acks = false;
}

void local_ack_wait_end(struct local_qp *lqp)
{
	engine_assert_locked(lqp->qp->context->engine);
	if (!list_is_linked(&lqp->ack_node))
		return;
	list_del(&lqp->ack_node);
	lqp->peer->has_waiting_acks = !list_is_empty(&lqp->peer->waiting_acks);
	lqp->peer->has_sent = true;
}

bool local_acks_are_due(const struct peer *peer)
{
	const struct local_qp *lqp;

	list_for_each_entry(lqp, &peer->waiting_acks, ack_node) {
		if (!awaits_reply(lqp))
			return true;
	}
	return false;
}

void local_ack_timer(struct timer *timer, uint64_t now_ns)
{
	struct local *local = container_of(timer, struct local, ack_timer);
	struct peer *peer;

	(void)now_ns;
	list_for_each_entry(peer, &local->peers, node) {
		if (peer->has_waiting_acks)
			peer_ring_doorbell(peer);
	}
}
