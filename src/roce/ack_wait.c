/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/reply_wait.h"
#include "roce/qp.h"

/*
 * The ACK of a message for an application that waits for completion events: it is sent with the
 * application's reply, in one batch, if the reply comes soon (docs/adr/0063). IBA 1.x §9.7.5.1
 * limits its wait only by the requester's ACK timeout.
 */

void ack_wait_on_request(struct roce_qp *rqp, bool completes_recv)
{
	const struct qp *qp = rqp->qp;

	if (qp->type == IBV_QPT_RC && !rqp->executor)
		reply_wait_on_request(&rqp->rx.reply, qp->recv_cq, completes_recv);
}

bool ack_waits(const struct roce_qp *rqp)
{
	return reply_is_awaited(&rqp->rx.reply, rqp->qp->recv_cq);
}

void ack_wait_begin(struct roce *roce)
{
	if (!roce->ack_timer.is_pending)
		roce_timer_add(roce, &roce->ack_timer, roce->now_ns + REPLY_WAIT_NS);
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
