/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/lock_check.h"
#include "core/object/opcode.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/request.h"
#include "local/requester.h"
#include "local/ring.h"

/*
 * The completer: handles responses. A response with an ssn acknowledges all preceding SENDs and
 * WRITEs, except a CELL_NOT_READY without CELL_ACKNOWLEDGES. READs and atomics are completed by
 * their response data, ATOMIC WRITEs and FLUSHes by a response without data. WQEs complete in
 * order, when all preceding WQEs are complete.
 */

/* Completes the finished WQEs, oldest first, up to the first unfinished WQE. */
static void retire_done(struct local_qp *lqp)
{
	struct send_queue *sq = &lqp->qp->sq;

	if (sq->una == sq->nxt)
		return;
	while (sq->una != sq->nxt && sq_wqe(sq, sq->una)->state == SEND_WQE_DONE)
		local_requester_succeed(lqp);
	qp_check_drained(lqp->qp);
}

/* Marks every SEND and WRITE before ssn as done; with `inclusive`, also ssn. */
static void mark_done(struct local_qp *lqp, uint32_t ssn, bool inclusive)
{
	struct send_queue *sq = &lqp->qp->sq;

	for (uint32_t index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);
		int32_t ahead = (int32_t)(wqe->message_seq - ssn);

		if (ahead > 0 || (ahead == 0 && !inclusive))
			break;
		if (!wqe_is_request(wqe))
			wqe->state = SEND_WQE_DONE;
	}
	retire_done(lqp);
}

/* The outstanding WQE with this ssn, or NULL. */
static struct send_wqe *find_sent(struct local_qp *lqp, uint32_t ssn)
{
	struct send_queue *sq = &lqp->qp->sq;

	for (uint32_t index = sq->una; index != sq->nxt; index++) {
		struct send_wqe *wqe = sq_wqe(sq, index);

		if (wqe->message_seq == ssn && wqe->state == SEND_WQE_SENT)
			return wqe;
	}
	return NULL;
}

/* The ssn of the oldest unacknowledged message; if all are acknowledged, of the message at nxt. */
static uint32_t oldest_ssn(const struct local_qp *lqp)
{
	const struct send_queue *sq = &lqp->qp->sq;

	return sq->una == sq->nxt ? lqp->tx.ssn : sq_wqe(sq, sq->una)->message_seq;
}

/*
 * Whether ssn is the oldest unacknowledged message, sent completely or in part. Only this message
 * can be refused.
 */
static bool is_oldest_ssn(const struct local_qp *lqp, uint32_t ssn)
{
	const struct send_queue *sq = &lqp->qp->sq;

	return sq->una != sq->begun && oldest_ssn(lqp) == ssn;
}

/*
 * Whether a response refers to an outstanding message or to the message at nxt, of which a part may
 * have been sent. Other responses belong to an earlier connection of both QPs and are dropped, as a
 * NIC drops a response outside of its PSN window.
 */
static bool is_expected(const struct local_qp *lqp, uint32_t ssn)
{
	uint32_t oldest = oldest_ssn(lqp);

	return ssn - oldest <= lqp->tx.ssn - oldest;
}

static void take_nak(struct local_qp *lqp, const struct cell *cell)
{
	enum access_result result = cell->imm_or_code;

	mark_done(lqp, cell->ssn, false);
	if (is_oldest_ssn(lqp, cell->ssn))
		local_requester_fail_refused(lqp, result);
}

static void take_rnr(struct local_qp *lqp, const struct cell *cell)
{
	mark_done(lqp, cell->ssn, false);
	if (!is_oldest_ssn(lqp, cell->ssn) || lqp->tx.wait != WAIT_NOTHING)
		return;
	peer_count(lqp->peer, LOCAL_RNR_NAKS_RECEIVED);
	local_requester_rewind(lqp);
	local_requester_retry_rnr(lqp, cell->imm_or_code);
}

static void local_completer_take_not_ready(struct local_qp *lqp, const struct cell *cell)
{
	/*
	 * A refusal of a QPN without QP may be late: the messages before it were refused, too, and
	 * were repeated since.
	 */
	if (cell->imm_or_code == CELL_ACKNOWLEDGES)
		mark_done(lqp, cell->ssn, false);
	if (!is_oldest_ssn(lqp, cell->ssn) || lqp->tx.wait != WAIT_NOTHING)
		return;
	local_requester_rewind(lqp);
	local_requester_retry_not_ready(lqp);
}

static void local_completer_take_ready(struct local_qp *lqp)
{
	if (lqp->tx.wait != WAIT_RNR)
		return;
	engine_lock_base(lqp->peer->engine);
	timer_cancel(&lqp->peer->engine->timers, &lqp->tx.timer);
	engine_unlock_base(lqp->peer->engine);
	lqp->tx.wait = WAIT_NOTHING;
}

/*
 * The response data cannot be stored: the WQE fails. Preceding WQEs are flushed, as when a QP
 * enters ERR (IBA 1.x §10.3.1).
 */
static void fail_out_of_order(struct local_qp *lqp, const struct send_wqe *wqe,
			      enum ibv_wc_status status, enum vendor_err err)
{
	while (sq_wqe(&lqp->qp->sq, lqp->qp->sq.una) != wqe)
		sq_retire(lqp->qp, IBV_WC_WR_FLUSH_ERR, VENDOR_ERR_FLUSHED);
	requester_fail(lqp->qp, status, err);
}

/* Bytes of data in the response to the WQE. */
static uint32_t response_bytes(const struct send_wqe *wqe)
{
	return wqe_info(wqe)->response == WR_RESPONSE_EMPTY ? 0 : wqe->length_bytes;
}

static bool is_reply_of(const struct send_wqe *wqe, uint8_t cell_type)
{
	bool is_atomic = wqe_info(wqe)->response == WR_RESPONSE_ATOMIC;

	return wqe_is_request(wqe) && is_atomic == (cell_type == CELL_ATOMIC_RESULT);
}

static void local_completer_take_data(struct local_qp *lqp, const struct cell *cell,
				      const uint8_t *payload)
{
	struct send_wqe *wqe;
	uint32_t bytes = cell->type == CELL_READ_DATA ? cell->bytes :
							(uint32_t)sizeof(cell->atomic.swap);
	enum vendor_err err;

	mark_done(lqp, cell->ssn, false);
	wqe = find_sent(lqp, cell->ssn);
	if (!wqe || !is_reply_of(wqe, cell->type) || bytes > response_bytes(wqe) - wqe->done_bytes)
		return;
	if (cell->type == CELL_ATOMIC_RESULT) {
		payload = (const uint8_t *)&cell->atomic.swap;
	} else if ((cell->flags & CELL_FAR) &&
		   !request_mtu_fits(lqp->qp, cell, wqe->length_bytes)) {
		fail_out_of_order(lqp, wqe, IBV_WC_BAD_RESP_ERR, VENDOR_ERR_PATH_MTU);
		return;
	}
	err = sge_copy_to(lqp->qp, wqe, wqe->done_bytes, payload, bytes);
	if (err) {
		fail_out_of_order(lqp, wqe, IBV_WC_LOC_PROT_ERR, err);
		return;
	}
	wqe->done_bytes += bytes;
	if (wqe->done_bytes < response_bytes(wqe))
		return;
	wqe->state = SEND_WQE_DONE;
	lqp->tx.reads--;
	retire_done(lqp);
}

void completer_response(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload)
{
	qp_assert_locked(lqp->qp);
	/* UC has no responses. */
	if (!local_requester_is_reliable(lqp) ||
	    (lqp->qp->state != IBV_QPS_RTS && lqp->qp->state != IBV_QPS_SQD))
		return;
	/* CELL_READY has the ssn of the receiver's next message. It only ends a wait early. */
	if (cell->type != CELL_READY && !is_expected(lqp, cell->ssn))
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
		local_completer_take_not_ready(lqp, cell);
		break;
	case CELL_READY:
		local_completer_take_ready(lqp);
		break;
	default:
		local_completer_take_data(lqp, cell, payload);
		break;
	}
	local_requester_run(lqp);
}
