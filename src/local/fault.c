/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/fault.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"
#include "core/device/ah.h"
#include "core/engine/lock_check.h"
#include "core/queue/requester.h"
#include "core/report/fault_points.h"
#include "local/counters.h"
#include "local/qp.h"
#include "local/request.h"
#include "local/requester.h"
#include "local/ring.h"
#include "local/run.h"

/* The wait of a message. A queue pair has none until a rule delays its first message. */
struct local_hold {
	struct timer timer;
	struct local_qp *lqp;
};

static void local_fault_timer(struct timer *timer, uint64_t now_ns)
{
	struct local_qp *lqp = container_of(timer, struct local_hold, timer)->lqp;

	(void)now_ns;
	lqp->tx.is_held = false;
	local_requester_run(lqp);
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

/*
 * Holds the requester: for `hold_ns`, or if it is 0, until the QP is reset. Without memory, the
 * message is sent now.
 */
static enum local_fault hold(struct local_qp *lqp, uint64_t hold_ns)
{
	struct engine *engine = lqp->qp->context->engine;
	struct local_hold *wait = lqp->tx.hold;

	if (!wait) {
		wait = calloc(1, sizeof(*wait));
		if (!wait)
			return LOCAL_FAULT_NONE;
		wait->lqp = lqp;
		timer_init(&wait->timer, local_fault_timer);
		lqp->tx.hold = wait;
	}
	lqp->tx.is_held = true;
	if (hold_ns) {
		timer_add(&engine->timers, &wait->timer, clock_now_ns() + hold_ns);
		engine_timer_added(engine);
	}
	return LOCAL_FAULT_HOLD;
}

void local_fault_reset(struct local_qp *lqp)
{
	qp_assert_locked(lqp->qp);
	if (lqp->tx.hold)
		timer_cancel(&lqp->qp->context->engine->timers, &lqp->tx.hold->timer);
	lqp->tx.is_held = false;
	lqp->tx.has_passed = false;
}

static bool is_lost(const struct fault *fault)
{
	return fault->action == FAULT_DROP || fault->action == FAULT_CORRUPT;
}

/*
 * A message of an RC QP was lost. If a message follows, the responder reports the gap by a NAK, and
 * the requester repeats the message after one round trip. Otherwise, or if the repetition is lost
 * too, the requester waits for the ACK timeout. The WQE fails when no retries are left (IBA 1.x
 * §9.9.2.1.1).
 */
static enum local_fault lose(struct local_qp *lqp, const struct fault_subject *subject)
{
	struct send_queue *sq = &lqp->qp->sq;
	struct fault fault;

	local_qp_count(lqp, LOCAL_RETRIES);
	if (sq->head - sq->nxt > 1 && lqp->tx.retries_left) {
		lqp->tx.retries_left--;
		if (!fault_due(FAULT_MESSAGE, subject, &fault) || !is_lost(&fault))
			return LOCAL_FAULT_NONE;
	}
	if (lqp->tx.retries_left) {
		lqp->tx.retries_left--;
	} else if (requester_is_oldest(sq)) {
		requester_fail(lqp->qp, IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_RESPONSE);
		return LOCAL_FAULT_HOLD;
	}
	/* Without retries left, the WQE fails after the preceding ones have completed. */
	lqp->tx.has_passed = false;
	return hold(lqp, requester_ack_timeout_ns(lqp->qp));
}

enum local_fault local_fault_message(struct local_qp *lqp, const struct send_wqe *wqe)
{
	struct fault_subject subject = {
		.op = fault_op_of_wr(wqe->opcode),
		.bytes = wqe->length_bytes,
	};
	struct fault fault;

	qp_assert_locked(lqp->qp);
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
	return hold(lqp, fault.delay_ns);
}

unsigned int local_fault_datagram(const struct qp *qp, const struct ah *ah,
				  const struct datagram_tx *datagram, uint64_t *delay_ns)
{
	struct fault_subject subject = {.op = FAULT_OP_SEND, .bytes = datagram->bytes};
	struct fault fault;

	qp_assert_locked(qp);
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

	qp_assert_locked(qp);
	fault_subject_of_qp(&subject, qp);
	if (src_gid)
		subject.peer = src_gid;
	if (!fault_due(FAULT_MESSAGE_RECEIVE, &subject, &fault))
		return 1;
	if (is_lost(&fault))
		return 0;
	return fault.action == FAULT_DUPLICATE ? 2 : 1;
}
