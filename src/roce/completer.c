/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "core/object/opcode.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "core/report/usage.h"
#include "roce/qp.h"

/*
 * The completer. Each response has a PSN, and all requests before that PSN have been executed. This
 * completes SENDs and RDMA WRITEs. READs and atomics complete with the data of their response,
 * atomic WRITEs and FLUSHes with a response without data. A response that skips expected data shows
 * that a response was lost.
 */

static struct send_wqe *completer_oldest(const struct roce_qp *rqp)
{
	const struct send_queue *sq = &rqp->qp->sq;
	struct send_wqe *wqe = sq_wqe(sq, sq->una);

	return sq->una != sq->head && wqe->state == SEND_WQE_SENT ? wqe : NULL;
}

/* Advances una_psn to `psn`. Completes the oldest WQE if `psn` is its end. */
static void completer_advance(struct roce_qp *rqp, const struct send_wqe *wqe, uint32_t psn)
{
	uint32_t acked_psns = psn_sub(psn, rqp->tx.una_psn);

	read_reorder_forget(rqp, rqp->tx.una_psn, psn);
	rqp->tx.una_psn = psn;
	if (psn_sub(psn, wqe->first_psn) == roce_requester_wqe_psns(rqp, wqe))
		roce_requester_succeed(rqp);
	roce_requester_moved_on(rqp);
	if (acked_psns)
		recovery_on_progress(rqp, acked_psns);
}

/*
 * All requests before `psn` were executed. false: the response to a READ or atomic among them is
 * missing.
 */
static bool completer_acknowledge(struct roce_qp *rqp, uint32_t psn)
{
	struct send_wqe *wqe;

	while (psn_is_after(psn, rqp->tx.una_psn) && (wqe = completer_oldest(rqp))) {
		uint32_t end_psn = psn_add(wqe->first_psn, roce_requester_wqe_psns(rqp, wqe));

		if (!wqe_is_request(wqe))
			completer_advance(rqp, wqe, psn_is_before(psn, end_psn) ? psn : end_psn);
		else if (read_reorder_has(rqp, rqp->tx.una_psn))
			completer_advance(rqp, wqe, psn_next(rqp->tx.una_psn));
		else
			break;
	}
	qp_check_drained(rqp->qp);
	return psn == rqp->tx.una_psn;
}

static void completer_on_nak(struct roce_qp *rqp, unsigned code, uint32_t psn)
{
	const struct send_wqe *wqe;

	if (code == AETH_NAK_PSN_SEQUENCE)
		roce_count(rqp->roce, ROCE_SEQUENCE_NAKS_RECEIVED);
	if (!completer_acknowledge(rqp, psn) || code == AETH_NAK_PSN_SEQUENCE) {
		recovery_on_gap(rqp);
		return;
	}
	wqe = completer_oldest(rqp);
	if (!wqe)
		return;
	if (nak_status(code) == IBV_WC_BAD_RESP_ERR)
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
	else
		roce_count(rqp->roce, ROCE_FATAL_NAKS_RECEIVED);
	requester_fail(rqp->qp, nak_status(code),
		       nak_vendor_err(code, wqe_info(wqe)->kind == WR_KIND_SEND));
}

static void completer_on_rnr_nak(struct roce_qp *rqp, unsigned timer_code, uint32_t psn)
{
	roce_count(rqp->roce, ROCE_RNR_NAKS_RECEIVED);
	rqp->qp->usage->rnr_naks++;
	if (completer_acknowledge(rqp, psn))
		recovery_on_rnr_nak(rqp, timer_code);
	else
		recovery_on_gap(rqp);
}

static void completer_on_ack(struct roce_qp *rqp, const struct packet *packet)
{
	switch (aeth_kind(packet->syndrome)) {
	case AETH_KIND_ACK:
		if (completer_acknowledge(rqp, psn_next(packet->psn)))
			recovery_on_ack_end(rqp);
		else
			recovery_on_gap(rqp);
		break;
	case AETH_KIND_RNR_NAK:
		completer_on_rnr_nak(rqp, aeth_code(packet->syndrome), packet->psn);
		break;
	case AETH_KIND_NAK:
		completer_on_nak(rqp, aeth_code(packet->syndrome), packet->psn);
		break;
	default:
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		break;
	}
}

/*
 * Copies response data to the oldest WQE's SGEs; false: an SGE was invalid, and the QP has failed.
 */
static bool completer_place(struct roce_qp *rqp, struct send_wqe *wqe, uint32_t at,
			    const void *from, uint32_t bytes)
{
	enum vendor_err err = sge_copy_to(rqp->qp, wqe, at, from, bytes);

	if (err)
		requester_fail(rqp->qp, IBV_WC_LOC_PROT_ERR, err);
	return !err;
}

static void completer_on_read_data(struct roce_qp *rqp, struct send_wqe *wqe,
				   const struct packet *packet)
{
	uint32_t at = psn_sub(packet->psn, wqe->first_psn) * rqp->mtu_bytes;
	uint32_t bytes = read_response_bytes(rqp, wqe, at);

	if (packet->payload_bytes != bytes) {
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
		requester_fail(rqp->qp, IBV_WC_BAD_RESP_ERR, VENDOR_ERR_PATH_MTU);
		return;
	}
	if (completer_place(rqp, wqe, at, packet->payload, bytes))
		completer_advance(rqp, wqe, psn_next(packet->psn));
}

static void completer_on_atomic_result(struct roce_qp *rqp, struct send_wqe *wqe,
				       const struct packet *packet)
{
	if (completer_place(rqp, wqe, 0, &packet->atomic_original, sizeof(packet->atomic_original)))
		completer_advance(rqp, wqe, psn_next(packet->psn));
}

/* An atomic WRITE or a FLUSH was executed. */
static void completer_on_empty(struct roce_qp *rqp, const struct send_wqe *wqe,
			       const struct packet *packet)
{
	if (packet->payload_bytes) {
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
		requester_fail(rqp->qp, IBV_WC_BAD_RESP_ERR, VENDOR_ERR_MSG_LENGTH);
		return;
	}
	completer_advance(rqp, wqe, psn_next(packet->psn));
}

/* Whether the response's opcode matches the request's. */
static bool completer_is_response_to(const struct send_wqe *wqe, const struct opcode_info *info)
{
	switch (wqe_info(wqe)->response) {
	case WR_RESPONSE_READ:
		return info->is_read;
	case WR_RESPONSE_ATOMIC:
		return info->is_atomic;
	case WR_RESPONSE_EMPTY:
		return info->is_read && info->is_only;
	default:
		return false;
	}
}

static void completer_on_response(struct roce_qp *rqp, const struct packet *packet)
{
	struct send_wqe *wqe;

	if (!completer_acknowledge(rqp, packet->psn)) {
		if (packet->is_ahead)
			read_reorder_add(rqp, packet);
		else
			recovery_on_gap(rqp);
		return;
	}
	wqe = completer_oldest(rqp);
	if (!wqe || !completer_is_response_to(wqe, packet->info)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	rqp->tx.read_reorder.flow_port = rqp->inflow.src_port;
	switch (wqe_info(wqe)->response) {
	case WR_RESPONSE_READ:
		completer_on_read_data(rqp, wqe, packet);
		break;
	case WR_RESPONSE_ATOMIC:
		completer_on_atomic_result(rqp, wqe, packet);
		break;
	default:
		completer_on_empty(rqp, wqe, packet);
		break;
	}
	/* The responses that were kept also acknowledge the requests between them. */
	if (rqp->tx.read_reorder.count)
		completer_acknowledge(rqp, rqp->tx.read_reorder.end_psn);
	qp_check_drained(rqp->qp);
}

void roce_completer_response(struct roce_qp *rqp, const struct packet *packet)
{
	/* UC has no responses. */
	if (!is_reliable(rqp) || (rqp->qp->state != IBV_QPS_RTS && rqp->qp->state != IBV_QPS_SQD)) {
		roce_count(rqp->roce, ROCE_DROPPED_QP_STATE);
		return;
	}
	/* The PSN is not in flight: acknowledged before, or never sent. */
	if (!psn_is_in(packet->psn, rqp->tx.una_psn, rqp->tx.max_psn)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	rqp->tx.may_overtake = packet->takes_ahead && rqp->qp->type == IBV_QPT_RC;
	if (packet->info->is_read || packet->info->is_atomic)
		completer_on_response(rqp, packet);
	else
		completer_on_ack(rqp, packet);
	/* The window may have opened. */
	roce_send_later(rqp);
}
