/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/fault.h"

#include "base/clock.h"
#include "base/util.h"
#include "core/ah.h"
#include "core/fault_points.h"
#include "core/requester.h"
#include "local/request.h"
#include "local/requester.h"

/* Holds the requester: for `hold_ns`, or if it is 0, until the QP is reset. */
static void hold(struct local_qp *lqp, uint64_t hold_ns)
{
	struct engine *engine = lqp->qp->context->engine;

	lqp->tx.is_held = true;
	if (!hold_ns)
		return;
	timer_add(&engine->timers, &lqp->tx.hold_timer, clock_now_ns() + hold_ns);
	engine_timer_added(engine);
}

void local_fault_reset(struct local_qp *lqp)
{
	timer_cancel(&lqp->qp->context->engine->timers, &lqp->tx.hold_timer);
	lqp->tx.is_held = false;
	lqp->tx.has_passed = false;
}

void local_fault_timer(struct timer *timer, uint64_t now_ns)
{
	struct local_qp *lqp = container_of(timer, struct local_qp, tx.hold_timer);

	(void)now_ns;
	lqp->tx.is_held = false;
	local_requester_run(lqp);
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

static bool is_lost(const struct fault *fault)
{
	return fault->action == FAULT_DROP || fault->action == FAULT_CORRUPT;
}

/*
 * A message of an RC QP was lost. If a message follows, the responder reports the gap by a NAK, and the requester repeats
 * the message after one round trip. Otherwise, or if the repetition is lost too, the requester waits for the ACK timeout.
 * The WQE fails when no retries are left (IBA 1.x §9.9.2.1.1).
 */
static enum local_fault lose(struct local_qp *lqp, const struct fault_subject *subject)
{
	struct send_queue *sq = &lqp->qp->sq;
	struct fault fault;

	local_count(lqp->qp->context->engine, LOCAL_RETRIES);
	if (sq->head - sq->nxt > 1 && lqp->tx.retries_left) {
		lqp->tx.retries_left--;
		if (!fault_due(FAULT_MESSAGE, subject, &fault) || !is_lost(&fault))
			return LOCAL_FAULT_NONE;
	}
	if (lqp->tx.retries_left) {
		lqp->tx.retries_left--;
		lqp->tx.has_passed = false;
		hold(lqp, requester_ack_timeout_ns(lqp->qp));
	} else if (requester_is_oldest(sq)) {
		requester_fail(lqp->qp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_RESPONSE);
	} else {
		/* The WQE fails after the preceding ones have completed. */
		lqp->tx.has_passed = false;
		hold(lqp, requester_ack_timeout_ns(lqp->qp));
	}
	return LOCAL_FAULT_HOLD;
}

enum local_fault local_fault_message(struct local_qp *lqp, const struct send_wqe *wqe)
{
	struct fault_subject subject = {
		.op = fault_op_of_wr(wqe->opcode),
		.bytes = wqe->length_bytes,
	};
	struct fault fault;

	if (lqp->tx.is_held)
		return LOCAL_FAULT_HOLD;
	if (lqp->tx.has_passed)
		return LOCAL_FAULT_NONE;
	lqp->tx.has_passed = true;
	fault_subject_of_qp(&subject, lqp->qp);
	if (!fault_due(FAULT_MESSAGE, &subject, &fault))
		return LOCAL_FAULT_NONE;
	if (is_lost(&fault))
		return local_requester_is_reliable(lqp) ? lose(lqp, &subject) : LOCAL_FAULT_LOST;
	/* DUPLICATE: the responder discards a second copy, so it is not sent. */
	if (fault.action != FAULT_DELAY || !fault.delay_ns)
		return LOCAL_FAULT_NONE;
	hold(lqp, fault.delay_ns);
	return LOCAL_FAULT_HOLD;
}

unsigned int local_fault_datagram(const struct qp *qp, const struct ah *ah,
				  const struct datagram_tx *datagram, uint64_t *delay_ns)
{
	struct fault_subject subject = {.op = FAULT_OP_SEND, .bytes = datagram->bytes};
	struct fault fault;

	fault_subject_of_qp(&subject, qp);
	subject.peer = ah->attr.grh.dgid.raw;
	*delay_ns = 0;
	if (!fault_due(FAULT_MESSAGE, &subject, &fault))
		return 1;
	if (is_lost(&fault))
		return 0;
	if (fault.action == FAULT_DELAY)
		*delay_ns = fault.delay_ns;
	return fault.action == FAULT_DUPLICATE ? 2 : 1;
}

static enum fault_op op_of_cell(const struct cell *cell)
{
	int opcode = request_opcode_of_cell(cell->type);

	switch (cell->type) {
	case CELL_DATAGRAM:
	case CELL_SEND:
		return FAULT_OP_SEND;
	case CELL_WRITE:
		return FAULT_OP_WRITE;
	default:
		return opcode < 0 ? FAULT_OP_NONE : fault_op_of_wr((unsigned int)opcode);
	}
}

unsigned int local_fault_received(const struct qp *qp, const struct cell *cell,
				  const uint8_t *src_gid)
{
	struct fault_subject subject = {.op = op_of_cell(cell), .bytes = cell->length};
	struct fault fault;

	fault_subject_of_qp(&subject, qp);
	if (src_gid)
		subject.peer = src_gid;
	if (!fault_due(FAULT_MESSAGE_RECEIVE, &subject, &fault))
		return 1;
	if (is_lost(&fault))
		return 0;
	return fault.action == FAULT_DUPLICATE ? 2 : 1;
}
