/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "core/qp.h"
#include "core/sge.h"
#include "core/wq.h"
#include "local/requester.h"

/*
 * The half of the requester that reads answers. An answer that names ssn says that every SEND and WRITE before it was
 * executed; READs and atomics are done by their data, atomic WRITEs and FLUSHes by an answer without. WQEs retire in
 * order, when they and all their elders are done.
 */

#define GATHER_IOVS 8

/* Retires what is done, oldest first. */
static void retire_done(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;

	if (sq->una == sq->nxt)
		return;
	while (sq->una != sq->nxt && sq_wqe(sq, sq->una)->state == SEND_WQE_DONE)
		requester_succeed(lqp);
	qp_check_drained(lqp->qp);
}

/* Every SEND and WRITE before ssn is done; with `inclusive`, ssn too. */
static void mark_done(struct local_qp *lqp, uint32_t ssn, bool inclusive)
{
	struct send_queue *sq = &lqp->qp->sq;

	for (uint32_t index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);
		int32_t ahead = (int32_t)(wqe->ssn - ssn);

		if (ahead > 0 || (ahead == 0 && !inclusive))
			break;
		if (!opcode_is_answered(wqe->opcode))
			wqe->state = SEND_WQE_DONE;
	}
	retire_done(lqp);
}

/* The WQE that an answer names, if it is one that waits for an answer. */
static struct send_wqe *find_sent(struct local_qp *lqp, uint32_t ssn)
{
	struct send_queue *sq = &lqp->qp->sq;

	for (uint32_t index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);

		if (wqe->ssn == ssn && wqe->state == SEND_WQE_SENT)
			return wqe;
	}
	return NULL;
}

/* Whether ssn is the oldest unanswered message, sent whole or in part: only that one can be turned away. */
static bool is_oldest_ssn(const struct local_qp *lqp, uint32_t ssn)
{
	const struct send_queue *sq = &lqp->qp->sq;

	return sq->una != sq->head && sq_wqe(sq, sq->una)->ssn == ssn;
}

static void take_nak(struct local_qp *lqp, const struct cell *cell)
{
	enum access_result result = cell->imm_or_code;

	mark_done(lqp, cell->ssn, false);
	if (is_oldest_ssn(lqp, cell->ssn))
		requester_fail_refused(lqp, result);
}

static void take_rnr(struct local_qp *lqp, const struct cell *cell)
{
	mark_done(lqp, cell->ssn, false);
	if (!is_oldest_ssn(lqp, cell->ssn) || lqp->tx.wait != WAIT_NOTHING)
		return;
	local_count(lqp->qp->context->engine, LOCAL_RNR_NAKS_RECEIVED);
	requester_rewind(lqp);
	requester_retry_rnr(lqp, cell->imm_or_code);
}

static void take_not_ready(struct local_qp *lqp, const struct cell *cell)
{
	mark_done(lqp, cell->ssn, false);
	if (!is_oldest_ssn(lqp, cell->ssn) || lqp->tx.wait != WAIT_NOTHING)
		return;
	requester_rewind(lqp);
	requester_retry_not_ready(lqp);
}

static void take_ready(struct local_qp *lqp)
{
	if (lqp->tx.wait != WAIT_RNR)
		return;
	timer_cancel(&lqp->qp->context->engine->timers, &lqp->tx.timer);
	lqp->tx.wait = WAIT_NOTHING;
}

/* Answer data into the WQE's SGEs; false: they are wrong and the QP has failed. */
static bool place(struct local_qp *lqp, struct send_wqe *wqe, const uint8_t *from, uint32_t bytes)
{
	uint32_t placed = 0;

	while (placed < bytes) {
		struct iovec iov[GATHER_IOVS];
		uint32_t covered;
		int n = sge_gather(lqp->qp, wqe, wqe->done_bytes, bytes - placed, true, iov,
				   GATHER_IOVS, &covered);

		if (n < 0) {
			/* Elders that were not answered yet end flushed, as they do when a QP errs (IBA 1.x §10.3.1). */
			while (sq_wqe(&lqp->qp->sq, lqp->qp->sq.una) != wqe)
				sq_retire(lqp->qp, IBV_WC_WR_FLUSH_ERR, VENDOR_ERR_FLUSHED);
			requester_fail(lqp, IBV_WC_LOC_PROT_ERR, (enum vendor_err) - n);
			return false;
		}
		for (int i = 0; i < n; i++) {
			memcpy(iov[i].iov_base, from + placed, iov[i].iov_len);
			placed += (uint32_t)iov[i].iov_len;
		}
		wqe->done_bytes += covered;
	}
	return true;
}

/* What the answer to it brings. */
static uint32_t answer_bytes(const struct send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_ATOMIC_WRITE ? 0 : wqe->length_bytes;
}

static bool is_answered_by(const struct send_wqe *wqe, uint8_t cell_type)
{
	bool is_atomic = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			 wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	return opcode_is_answered(wqe->opcode) && is_atomic == (cell_type == CELL_ATOMIC_RESULT);
}

static void take_data(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	struct send_wqe *wqe;
	uint32_t bytes = cell->type == CELL_READ_DATA ? cell->bytes :
							(uint32_t)sizeof(cell->atomic.swap);

	mark_done(lqp, cell->ssn, false);
	wqe = find_sent(lqp, cell->ssn);
	if (!wqe || !is_answered_by(wqe, cell->type) || bytes > answer_bytes(wqe) - wqe->done_bytes)
		return;
	if (cell->type == CELL_ATOMIC_RESULT)
		payload = (const uint8_t *)&cell->atomic.swap;
	if (!place(lqp, wqe, payload, bytes))
		return;
	if (wqe->done_bytes < answer_bytes(wqe))
		return;
	wqe->state = SEND_WQE_DONE;
	lqp->tx.reads--;
	retire_done(lqp);
}

void completer_answer(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	/* UC asks for no answers. */
	if (!requester_is_reliable(lqp) ||
	    (lqp->qp->state != IBV_QPS_RTS && lqp->qp->state != IBV_QPS_SQD))
		return;
	switch (cell->type) {
	case CELL_ACK:
		mark_done(lqp, cell->ssn, true);
		break;
	case CELL_NAK:
		take_nak(lqp, cell);
		break;
	case CELL_RNR:
		take_rnr(lqp, cell);
		break;
	case CELL_NOT_READY:
		take_not_ready(lqp, cell);
		break;
	case CELL_READY:
		take_ready(lqp);
		break;
	default:
		take_data(lqp, cell, payload);
		break;
	}
	requester_run(lqp);
}
