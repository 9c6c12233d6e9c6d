/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/responder.h"

#include <stdlib.h>

#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/object/qp_state.h"
#include "core/queue/failure_drop.h"
#include "core/queue/failure_wr.h"
#include "core/queue/qp_error.h"
#include "core/report/failure.h"
#include "local/fault.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/request.h"
#include "local/ring.h"
#include "local/run.h"
#include "local/segment.h"

/*
 * The responder. The FIFO neither loses nor reorders messages. A message is out of sequence only
 * after an RNR or CELL_NOT_READY response: the responder drops the messages that the requester sent
 * after the refused one. The requester retransmits them.
 */

static bool local_responder_is_reliable(const struct local_qp *lqp)
{
	return lqp->qp->type == IBV_QPT_RC;
}

static void local_set_response_pending(struct local_qp *lqp)
{
	if (!list_is_linked(&lqp->response_node))
		list_add_tail(&lqp->response_node, &lqp->peer->responding);
}

static void set_response_pending(struct local_qp *lqp, enum cell_type type, uint32_t ssn,
				 uint32_t code)
{
	lqp->rx.response = (uint8_t)type;
	lqp->rx.response_ssn = ssn;
	lqp->rx.response_code = code;
	local_set_response_pending(lqp);
}

static void local_responder_drop(struct local_qp *lqp)
{
	peer_count(lqp->peer, LOCAL_BAD_CELLS);
}

/*
 * The asynchronous event of the responder's QP when it enters ERR (IBA 1.x §9.9.2.4). No event if a
 * failed receive WQE reports the error.
 */
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

/*
 * A message failed the responder's checks. RC: sends a NAK, and both QPs enter ERR. UC: drops the
 * message; the QP enters ERR only if a receive WQE failed.
 */
static void refuse_message(struct local_qp *lqp, uint32_t ssn, enum access_result result)
{
	bool had_recv = lqp->rx.in->has_recv;

	lqp->rx.is_inside = false;
	inbound_fail(lqp->qp, lqp->rx.in, result);
	if (local_responder_is_reliable(lqp)) {
		set_response_pending(lqp, CELL_NAK, ssn, result);
		qp_enter_error(lqp->qp, result == ACCESS_LENGTH && !had_recv ?
						IBV_EVENT_QP_REQ_ERR :
						result_event(result));
	} else if (had_recv) {
		qp_enter_error(lqp->qp, QP_NO_EVENT);
	} else if (result != ACCESS_MTU) {
		failure_drop_refused(lqp->qp, result);
	}
}

void responder_fail_read(struct local_qp *lqp, uint32_t ssn, enum access_result result)
{
	lqp->rx.jobs_tail = lqp->rx.jobs_head;
	set_response_pending(lqp, CELL_NAK, ssn, result);
	qp_enter_error(lqp->qp, result_event(result));
}

static void local_responder_turn_away(struct local_qp *lqp, uint32_t ssn)
{
	struct qp *qp = lqp->qp;

	lqp->rx.is_inside = false;
	if (!local_responder_is_reliable(lqp)) {
		failure_drop_refused(qp, ACCESS_RNR);
		return;
	}
	peer_count(lqp->peer, LOCAL_RNR_NAKS_SENT);
	set_response_pending(lqp, CELL_RNR, ssn, qp->attr.min_rnr_timer);
	if (qp->is_waiting_recv)
		return;
	qp->is_waiting_recv = true;
	if (qp->srq)
		list_add_tail(&qp->waiting_recv_node, &qp->srq->waiting_recv);
}

/*
 * The report contains the length of the first packet that the sender would send. The path MTU in
 * the cell can be false.
 */
static enum access_result refuse_mtu(struct local_qp *lqp, const struct cell *cell)
{
	uint32_t own_bytes = mtu_code_bytes(lqp->qp->attr.path_mtu);
	uint32_t bytes = cell->length;

	if (cell->path_mtu <= IBV_MTU_4096)
		bytes = min_u32(bytes, mtu_code_bytes(cell->path_mtu));
	if (local_responder_is_reliable(lqp))
		failure_refused(lqp->qp,
				&(struct failure_refusal){.length = bytes, .mtu_bytes = own_bytes});
	else
		failure_drop_packet(lqp->qp, IPC_REASON_DROP_SIZE, bytes, own_bytes);
	return ACCESS_MTU;
}

static enum access_result local_responder_begin(struct local_qp *lqp, const struct cell *cell)
{
	struct inbound *in = lqp->rx.in;

	lqp->rx.is_inside = true;
	lqp->rx.type = cell->type;
	if ((cell->flags & CELL_FAR) && !request_mtu_fits(lqp->qp, cell, cell->length))
		return refuse_mtu(lqp, cell);
	if (cell->type == CELL_SEND)
		return inbound_begin_recv(lqp->qp, in);
	if (cell->flags & CELL_PLACED) {
		/*
		 * Only a peer that can access our memory can have placed the data. Otherwise the
		 * length is false.
		 */
		if (!lqp->peer->may_reach_ours || cell->length > MAX_MSG_BYTES)
			return ACCESS_QP_RIGHTS;
		inbound_begin_placed(in, cell->length);
		return ACCESS_OK;
	}
	return inbound_begin_write(lqp->qp, in, cell->remote_addr, cell->rkey, cell->length);
}

static enum access_result local_responder_finish(struct local_qp *lqp, const struct cell *cell)
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

/*
 * Whether the message that begins with this cell is lost by a fault. The requester of an RC QP is
 * asked for it again: it waits for the ACK timeout, and the retry counts.
 */
static bool is_lost_message(struct local_qp *lqp, const struct cell *cell)
{
	if (!probe_is_on(PROBE_FAULT) || local_fault_received(lqp->qp, cell, NULL))
		return false;
	if (local_responder_is_reliable(lqp))
		set_response_pending(lqp, CELL_NOT_READY, cell->ssn, CELL_ACKNOWLEDGES);
	return true;
}

/*
 * Whether the request belongs to an earlier connection of both QPs, or to a connection whose sq_psn
 * is not our rq_psn. A NIC drops it, and the requester fails when its retries are exhausted. Here a
 * refusal has the same result; a requester that has been reset ignores it.
 */
static bool is_of_other_connection(struct local_qp *lqp, const struct cell *cell)
{
	if (!local_responder_is_reliable(lqp) || local_ssn_is_near(cell->ssn, lqp->rx.ssn))
		return false;
	responder_refuse(lqp->peer, cell);
	return true;
}

/* Whether this cell continues the message in progress, or begins the next expected message. */
static bool is_in_turn(struct local_qp *lqp, const struct cell *cell)
{
	bool is_first = cell->flags & CELL_FIRST;

	if (is_first == lqp->rx.is_inside)
		return false;
	if (is_first && !local_responder_is_reliable(lqp))
		lqp->rx.ssn = cell->ssn;
	return cell->ssn == lqp->rx.ssn && (is_first || cell->type == lqp->rx.type);
}

static void take_message(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	enum access_result result = ACCESS_OK;

	if ((cell->flags & CELL_FIRST) && lqp->rx.is_inside && !local_responder_is_reliable(lqp)) {
		lqp->rx.is_inside = false;
		inbound_drop(lqp->rx.in);
	}
	if (!is_in_turn(lqp, cell))
		return;
	if ((cell->flags & CELL_FIRST) && is_lost_message(lqp, cell))
		return;
	if (cell->flags & CELL_FIRST)
		result = local_responder_begin(lqp, cell);
	if (result == ACCESS_OK && cell->bytes)
		result = inbound_data(lqp->qp, lqp->rx.in, payload, cell->bytes);
	if (result == ACCESS_OK && (cell->flags & CELL_LAST))
		result = local_responder_finish(lqp, cell);
	if (result == ACCESS_RNR) {
		local_responder_turn_away(lqp, cell->ssn);
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
	peer_count(lqp->peer, LOCAL_MESSAGES_RECEIVED);
	if (local_responder_is_reliable(lqp)) {
		reply_wait_on_request(&lqp->rx.reply, lqp->qp->recv_cq,
				      cell->type == CELL_SEND || (cell->flags & CELL_IMM));
		lqp->rx.ack_pending = true;
		local_set_response_pending(lqp);
	}
}

/*
 * Whether this is the end of a message with a receive completion for which the peer could wake the
 * application.
 */
static bool may_wake(const struct local_qp *lqp, const struct cell *cell)
{
	return (cell->flags & CELL_LAST) && (cell->type == CELL_SEND || cell->flags & CELL_IMM) &&
	       lqp->qp->recv_cq->channel && lqp->peer->may_reach_ours;
}

/* take_message() with the event for which the peer adds the unit. */
static void take_and_wake(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	struct engine *engine = lqp->peer->engine;
	struct cq *cq = lqp->qp->recv_cq;

	if (!may_wake(lqp, cell)) {
		take_message(lqp, cell, payload);
		return;
	}
	direct_wake_note_message(engine, cq);
	if (cell->flags & CELL_WAKES)
		promise_begin(engine, cq);
	take_message(lqp, cell, payload);
	if (cell->flags & CELL_WAKES)
		promise_end(engine, cq);
}

/* Executes a request that has a response of its own. */
static void take_request(struct local_qp *lqp, const struct cell *cell, int opcode)
{
	const struct remote_request request = request_decode(cell, opcode);
	struct response_job job = {
		.ssn = cell->ssn,
		.response = wr_opcodes[opcode].response,
		.rkey = request.rkey,
		.remote_addr = request.remote_addr,
		.length_bytes = request.length_bytes,
	};
	enum access_result result;

	if (!local_responder_is_reliable(lqp) || lqp->rx.is_inside || cell->ssn != lqp->rx.ssn ||
	    is_lost_message(lqp, cell))
		return;
	if (lqp->rx.jobs_head - lqp->rx.jobs_tail >= lqp->rx.max_jobs) {
		failure_refused(lqp->qp, &(struct failure_refusal){
						 .result = ACCESS_DEPTH,
						 .access = wr_opcodes[opcode].remote_access,
						 .remote_addr = request.remote_addr,
						 .length = request.length_bytes,
						 .rkey = request.rkey});
		refuse_message(lqp, cell->ssn, ACCESS_DEPTH);
		return;
	}
	result = execute_request(lqp->qp, &request, &job.original);
	if (result != ACCESS_OK) {
		refuse_message(lqp, cell->ssn, result);
		return;
	}
	reply_wait_on_request(&lqp->rx.reply, lqp->qp->recv_cq, false);
	*local_job_at(lqp, lqp->rx.jobs_head++) = job;
	lqp->rx.ssn++;
	local_set_response_pending(lqp);
}

/* The requester found that our tables do not permit its one-sided operation. */
static void take_fault(struct local_qp *lqp, const struct cell *cell)
{
	enum access_result result = (enum access_result)cell->imm_or_code;

	if (!local_responder_is_reliable(lqp))
		return;
	failure_refused(lqp->qp, &(struct failure_refusal){.result = result,
							   .access = cell->access,
							   .remote_addr = cell->remote_addr,
							   .length = cell->length,
							   .rkey = cell->rkey});
	qp_enter_error(lqp->qp, result_event(result));
}

void responder_request(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	enum ibv_qp_state state = lqp->qp->state;
	int opcode;

	qp_assert_locked(lqp->qp);
	if (!qp_state_receives(state)) {
		if (!local_responder_is_reliable(lqp))
			failure_drop_packet(lqp->qp, IPC_REASON_DROP_STATE, 0, 0);
		responder_refuse(lqp->peer, cell);
		return;
	}
	if (is_of_other_connection(lqp, cell))
		return;
	if (state == IBV_QPS_RTR && !lqp->qp->has_comm_est) {
		qp_comm_established(lqp->qp);
		segment_note_established(lqp->qp);
	}
	switch (cell->type) {
	case CELL_SEND:
	case CELL_WRITE:
		take_and_wake(lqp, cell, payload);
		break;
	case CELL_FAULT:
		take_fault(lqp, cell);
		break;
	default:
		opcode = request_opcode_of_cell(cell->type);
		if (opcode < 0)
			local_responder_drop(lqp);
		else
			take_request(lqp, cell, opcode);
		break;
	}
}

void responder_recv_posted(struct local_qp *lqp)
{
	if (!lqp->peer || lqp->peer->is_gone)
		return;
	lqp->rx.ready_pending = true;
	local_set_response_pending(lqp);
}

/*
 * If a message is partly received, CELL_NOT_READY makes the requester retry. Further fragments get
 * no response.
 */
void responder_abandon(struct local_qp *lqp)
{
	bool was_inside = lqp->rx.is_inside;

	lqp->rx.is_inside = false;
	inbound_fail(lqp->qp, lqp->rx.in, ACCESS_OK);
	if (!was_inside || !local_responder_is_reliable(lqp) || !lqp->peer || lqp->peer->is_gone)
		return;
	if (lqp->rx.response == CELL_NONE)
		set_response_pending(lqp, CELL_NOT_READY, lqp->rx.ssn, CELL_ACKNOWLEDGES);
	responder_respond_all(lqp->peer);
	local_finish_turn(lqp->peer);
}

/*
 * Discards the first incomplete READ response and all following responses. The requester retries
 * them and is refused.
 */
void responder_stop_reads(struct local_qp *lqp)
{
	for (uint32_t at = lqp->rx.jobs_tail; at != lqp->rx.jobs_head; at++) {
		const struct response_job *job = local_job_at(lqp, at);

		if (job->response != WR_RESPONSE_READ)
			continue;
		lqp->rx.jobs_head = at;
		set_response_pending(lqp, CELL_NOT_READY, job->ssn, CELL_ACKNOWLEDGES);
		responder_respond_all(lqp->peer);
		local_finish_turn(lqp->peer);
		return;
	}
}

/*
 * The QP is closed. A partly received message and the responses for which the FIFO has no space are
 * discarded. A refusal of the oldest request among them is stored in the peer and sent later; it
 * acknowledges all preceding requests.
 */
void responder_unbind(struct local_qp *lqp)
{
	uint32_t ssn = lqp->rx.ssn;

	if (!local_responder_is_reliable(lqp) ||
	    (!lqp->rx.is_inside && !list_is_linked(&lqp->response_node)))
		return;
	if (lqp->rx.jobs_tail != lqp->rx.jobs_head)
		ssn = local_job_at(lqp, lqp->rx.jobs_tail)->ssn;
	else if (lqp->rx.response != CELL_NONE)
		ssn = lqp->rx.response_ssn;
	list_del(&lqp->response_node);
	responder_refuse_request(lqp->peer, &(struct refusal){.to_qpn = lqp->qp->attr.dest_qp_num,
							      .from_qpn = lqp->qp->qpn,
							      .ssn = ssn,
							      .acknowledges = true});
	responder_respond_all(lqp->peer);
}
