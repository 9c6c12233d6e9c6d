/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cq.h"
#include "roce/qp.h"

/*
 * The ACK of a message for an application that waits for completion events: it is sent with the application's reply, in one batch,
 * if the reply comes soon (docs/adr/0063). A thread of the peer is then woken once instead of twice.
 */

/*
 * The longest time that an ACK waits, a quarter of the shortest RTO of requesters of this project (rtt.c). IBA 1.x §9.7.5.1 limits it
 * only by the requester's ACK timeout.
 */
#define ACK_WAIT_NS 500000u

static bool has_events(const struct roce_qp *rqp)
{
	const struct qp *qp = rqp->qp;

	return qp->type == IBV_QPT_RC && !rqp->executor && qp->recv_cq->channel;
}

void ack_wait_on_request(struct roce_qp *rqp, bool completes_recv)
{
	unsigned int turn;

	if (!has_events(rqp))
		return;
	turn = cq_turns(rqp->qp->recv_cq);
	if (rqp->rx.has_turn && rqp->rx.turn == turn) {
		/* The peer goes on without a reply. */
		rqp->rx.awaits_reply = false;
	} else if (completes_recv) {
		rqp->rx.has_turn = true;
		rqp->rx.turn = turn;
		rqp->rx.awaits_reply = true;
	}
}

bool ack_waits(const struct roce_qp *rqp)
{
	return rqp->rx.awaits_reply && !rqp->roce->engine->is_catching_up &&
	       rqp->rx.turn == cq_turns(rqp->qp->recv_cq);
}

void ack_wait_begin(struct roce *roce)
{
	if (!roce->ack_timer.is_pending)
		roce_timer_add(roce, &roce->ack_timer, roce->now_ns + ACK_WAIT_NS);
}

void ack_wait_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce *roce = container_of(timer, struct roce, ack_timer);
	struct roce_qp *rqp;

	roce->now_ns = now_ns;
	list_for_each_entry(rqp, &roce->responding, response_node)
		ack_wait_end(rqp);
	roce_transport.run(roce->engine);
}
