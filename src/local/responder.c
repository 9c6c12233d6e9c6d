/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "core/qp.h"
#include "local/local.h"

/*
 * The receiving half of a QP. The ring neither loses nor reorders, so a message is in turn unless it was turned away
 * before (RNR, not ready): then whatever the requester had already sent behind it is dropped, and comes again.
 */

static bool is_reliable(const struct local_qp *lqp)
{
	return lqp->qp->type == IBV_QPT_RC;
}

static void owe(struct local_qp *lqp)
{
	if (!list_is_linked(&lqp->answer_node))
		list_add_tail(&lqp->answer_node, &lqp->peer->answering);
}

static void owe_answer(struct local_qp *lqp, enum cell_type type, uint32_t ssn, uint32_t code)
{
	lqp->rx.owes = (uint8_t)type;
	lqp->rx.owes_ssn = ssn;
	lqp->rx.owes_code = code;
	owe(lqp);
}

static void drop(struct local_qp *lqp)
{
	local_count(lqp->qp->context->engine, LOCAL_BAD_CELLS);
}

/* What the responder's own QP reports when it errs (IBA 1.x §9.9.2.4): a receive that failed has said so already. */
static enum ibv_event_type result_event(enum access_result result)
{
	switch (result) {
	case ACCESS_LENGTH:
	case ACCESS_LOCAL:
		return QP_NO_EVENT;
	case ACCESS_RKEY:
	case ACCESS_PD:
	case ACCESS_BOUNDS:
	case ACCESS_RIGHTS:
	case ACCESS_INVALIDATE:
		return IBV_EVENT_QP_ACCESS_ERR;
	case ACCESS_GONE:
		return IBV_EVENT_QP_FATAL;
	default:
		return IBV_EVENT_QP_REQ_ERR;
	}
}

/* The message broke a rule. RC: the requester is told and both QPs are over; UC: the message is dropped. */
static void refuse_message(struct local_qp *lqp, uint32_t ssn, enum access_result result)
{
	bool had_recv = lqp->rx.in->has_recv;

	lqp->rx.is_inside = false;
	inbound_fail(lqp->qp, lqp->rx.in, result);
	if (is_reliable(lqp)) {
		owe_answer(lqp, CELL_NAK, ssn, result);
		qp_enter_error(lqp->qp, result == ACCESS_LENGTH && !had_recv ?
						IBV_EVENT_QP_REQ_ERR :
						result_event(result));
	} else if (had_recv) {
		qp_enter_error(lqp->qp, QP_NO_EVENT);
	}
}

static void turn_away(struct local_qp *lqp, uint32_t ssn)
{
	struct qp *qp = lqp->qp;

	lqp->rx.is_inside = false;
	if (!is_reliable(lqp))
		return;
	local_count(qp->context->engine, LOCAL_RNR_NAKS_SENT);
	owe_answer(lqp, CELL_RNR, ssn, qp->attr.min_rnr_timer);
	if (qp->is_starved)
		return;
	qp->is_starved = true;
	if (qp->srq)
		list_add_tail(&qp->starved_node, &qp->srq->starved);
}

static enum access_result begin(struct local_qp *lqp, const struct cell *cell)
{
	struct inbound *in = lqp->rx.in;

	lqp->rx.is_inside = true;
	lqp->rx.type = cell->type;
	if (cell->type == CELL_SEND)
		return inbound_begin_recv(lqp->qp, in);
	if (cell->flags & CELL_PLACED) {
		/* Else it is a lie, and the application would believe the length. */
		if (!lqp->peer->may_reach_ours || cell->length > MAX_MSG_BYTES)
			return ACCESS_QP_RIGHTS;
		inbound_begin_placed(in, cell->length);
		return ACCESS_OK;
	}
	return inbound_begin_write(lqp->qp, in, cell->remote_addr, cell->rkey, cell->length);
}

static enum access_result finish(struct local_qp *lqp, const struct cell *cell)
{
	const struct inbound_end end = {
		.has_imm = cell->flags & CELL_IMM,
		.has_invalidate = cell->flags & CELL_INVALIDATE,
		.is_solicited = cell->flags & CELL_SOLICITED,
		.imm_data_be = cell->imm_or_code,
		.invalidate_rkey = cell->rkey,
		.src_qpn = cell->src_qpn,
	};
	struct inbound *in = lqp->rx.in;

	if (in->is_write && end.has_imm && inbound_take_recv(lqp->qp, in) != ACCESS_OK)
		return ACCESS_RNR;
	return inbound_end(lqp->qp, in, &end);
}

/* Whether this cell continues what the QP is receiving, or starts what is due. */
static bool is_in_turn(struct local_qp *lqp, const struct cell *cell)
{
	bool is_first = cell->flags & CELL_FIRST;

	if (is_first == lqp->rx.is_inside)
		return false;
	if (is_first && !is_reliable(lqp))
		lqp->rx.ssn = cell->ssn;
	return cell->ssn == lqp->rx.ssn && (is_first || cell->type == lqp->rx.type);
}

static void take_message(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	enum access_result result = ACCESS_OK;

	if ((cell->flags & CELL_FIRST) && lqp->rx.is_inside && !is_reliable(lqp)) {
		lqp->rx.is_inside = false;
		inbound_drop(lqp->rx.in);
	}
	if (!is_in_turn(lqp, cell))
		return;
	if (cell->flags & CELL_FIRST)
		result = begin(lqp, cell);
	if (result == ACCESS_OK && cell->bytes)
		result = inbound_data(lqp->qp, lqp->rx.in, payload, cell->bytes);
	if (result == ACCESS_OK && (cell->flags & CELL_LAST))
		result = finish(lqp, cell);
	if (result == ACCESS_RNR) {
		turn_away(lqp, cell->ssn);
		return;
	}
	if (result != ACCESS_OK) {
		refuse_message(lqp, cell->ssn, result);
		return;
	}
	if (!(cell->flags & CELL_LAST))
		return;
	lqp->rx.is_inside = false;
	lqp->rx.ssn++;
	local_count(lqp->qp->context->engine, LOCAL_MESSAGES_RECEIVED);
	if (is_reliable(lqp)) {
		lqp->rx.owes_ack = true;
		owe(lqp);
	}
}

static enum access_result execute(struct local_qp *lqp, const struct cell *cell,
				  struct answer_job *job)
{
	const uint8_t *from;

	switch (cell->type) {
	case CELL_READ:
		job->length_bytes = cell->length;
		return execute_read(lqp->qp, cell->remote_addr, cell->rkey, cell->length, &from);
	case CELL_ATOMIC_WRITE:
		job->kind = ANSWER_EMPTY;
		return execute_atomic_write(lqp->qp, cell->remote_addr, cell->rkey, cell->data,
					    cell->length);
	case CELL_FLUSH:
		job->kind = ANSWER_EMPTY;
		return execute_flush(lqp->qp, cell->remote_addr, cell->rkey, cell->length,
				     cell->imm_or_code & ((1u << CELL_FLUSH_LEVEL_SHIFT) - 1),
				     cell->imm_or_code >> CELL_FLUSH_LEVEL_SHIFT);
	default:
		job->kind = ANSWER_ATOMIC;
		return execute_atomic(lqp->qp, cell->type == CELL_COMPARE_SWAP, cell->remote_addr,
				      cell->rkey, cell->atomic.compare_add, cell->atomic.swap,
				      &job->original);
	}
}

/* A request that is answered by itself. */
static void take_answered(struct local_qp *lqp, const struct cell *cell)
{
	struct answer_job job = {
		.ssn = cell->ssn, .rkey = cell->rkey, .remote_addr = cell->remote_addr};
	enum access_result result;

	if (!is_reliable(lqp) || lqp->rx.is_inside || cell->ssn != lqp->rx.ssn)
		return;
	if (lqp->rx.jobs_head - lqp->rx.jobs_tail >= lqp->rx.max_jobs) {
		/* More than max_dest_rd_atomic at once (IBA 1.x §9.7.4.1.4). */
		refuse_message(lqp, cell->ssn, ACCESS_QP_RIGHTS);
		return;
	}
	result = execute(lqp, cell, &job);
	if (result != ACCESS_OK) {
		refuse_message(lqp, cell->ssn, result);
		return;
	}
	lqp->rx.jobs[lqp->rx.jobs_head++ % lqp->rx.max_jobs] = job;
	lqp->rx.ssn++;
	owe(lqp);
}

void responder_request(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	enum ibv_qp_state state = lqp->qp->state;

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD) {
		responder_refuse(lqp->peer, cell);
		return;
	}
	if (state == IBV_QPS_RTR)
		qp_comm_established(lqp->qp);
	switch (cell->type) {
	case CELL_SEND:
	case CELL_WRITE:
		take_message(lqp, cell, payload);
		break;
	case CELL_READ:
	case CELL_COMPARE_SWAP:
	case CELL_FETCH_ADD:
	case CELL_ATOMIC_WRITE:
	case CELL_FLUSH:
		take_answered(lqp, cell);
		break;
	case CELL_FAULT:
		if (is_reliable(lqp))
			qp_enter_error(lqp->qp,
				       result_event((enum access_result)cell->imm_or_code));
		break;
	default:
		drop(lqp);
		break;
	}
}

void responder_recv_posted(struct local_qp *lqp)
{
	if (!lqp->peer || lqp->peer->is_gone)
		return;
	lqp->rx.owes_ready = true;
	owe(lqp);
}

void responder_abandon(struct local_qp *lqp)
{
	lqp->rx.is_inside = false;
	inbound_fail(lqp->qp, lqp->rx.in, ACCESS_OK);
}
