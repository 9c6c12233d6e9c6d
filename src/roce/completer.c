/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "core/qp.h"
#include "core/sge.h"
#include "core/wq.h"
#include "roce/qp.h"

/*
 * The half of the requester that reads answers. Whatever names a PSN says that all before it was executed; SENDs and WRITEs
 * are done by that, READs and atomics by their data, atomic WRITEs and FLUSHes by an answer without. An answer that
 * leaves out data says that the data was lost.
 */

#define GATHER_IOVS 8

static struct send_wqe *oldest(const struct roce_qp *rqp)
{
	const struct send_queue *sq = &rqp->qp->sq;
	struct send_wqe *wqe = sq_wqe(sq, sq->una);

	return sq->una != sq->head && wqe->state == SEND_WQE_SENT ? wqe : NULL;
}

/* una_psn is at `psn` now, perhaps behind the oldest WQE's last. */
static void move_to(struct roce_qp *rqp, const struct send_wqe *wqe, uint32_t psn)
{
	uint32_t acked_psns = psn_sub(psn, rqp->tx.una_psn);

	rqp->tx.una_psn = psn;
	if (psn_sub(psn, wqe->ssn) == roce_requester_wqe_psns(rqp, wqe))
		roce_requester_succeed(rqp);
	roce_requester_moved_on(rqp);
	if (acked_psns)
		retry_progress(rqp, acked_psns);
}

/* All before `psn` was executed. Stops at a READ or atomic, which its data ends: false, if that is missing. */
static bool acknowledge(struct roce_qp *rqp, uint32_t psn)
{
	struct send_wqe *wqe;

	while (psn_is_after(psn, rqp->tx.una_psn) && (wqe = oldest(rqp))) {
		uint32_t end_psn = psn_add(wqe->ssn, roce_requester_wqe_psns(rqp, wqe));

		if (opcode_is_answered(wqe->opcode))
			break;
		move_to(rqp, wqe, psn_is_before(psn, end_psn) ? psn : end_psn);
	}
	qp_check_drained(rqp->qp);
	return psn == rqp->tx.una_psn;
}

static void take_nak(struct roce_qp *rqp, unsigned code, uint32_t psn)
{
	const struct send_wqe *wqe;

	if (code == AETH_NAK_PSN_SEQUENCE)
		roce_count(rqp->roce, ROCE_SEQUENCE_NAKS_RECEIVED);
	if (!acknowledge(rqp, psn) || code == AETH_NAK_PSN_SEQUENCE) {
		retry_lost(rqp);
		return;
	}
	wqe = oldest(rqp);
	if (!wqe)
		return;
	if (nak_status(code) == IBV_WC_BAD_RESP_ERR)
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
	else
		roce_count(rqp->roce, ROCE_FATAL_NAKS_RECEIVED);
	roce_requester_fail(rqp, nak_status(code),
			    nak_vendor_err(code, wqe->opcode == IBV_WR_SEND ||
							 wqe->opcode == IBV_WR_SEND_WITH_IMM ||
							 wqe->opcode == IBV_WR_SEND_WITH_INV));
}

static void take_rnr(struct roce_qp *rqp, unsigned timer_code, uint32_t psn)
{
	roce_count(rqp->roce, ROCE_RNR_NAKS_RECEIVED);
	if (!acknowledge(rqp, psn))
		retry_lost(rqp);
	else if (!rqp->tx.is_waiting_rnr)
		retry_rnr(rqp, timer_code);
}

static void take_ack(struct roce_qp *rqp, const struct packet *packet)
{
	switch (aeth_kind(packet->syndrome)) {
	case AETH_KIND_ACK:
		if (acknowledge(rqp, psn_next(packet->psn)))
			retry_acked(rqp);
		else
			retry_lost(rqp);
		break;
	case AETH_KIND_RNR_NAK:
		take_rnr(rqp, aeth_code(packet->syndrome), packet->psn);
		break;
	case AETH_KIND_NAK:
		take_nak(rqp, aeth_code(packet->syndrome), packet->psn);
		break;
	default:
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		break;
	}
}

/* Answer data into the oldest WQE's SGEs; false: they are wrong and the QP has failed. */
static bool place(struct roce_qp *rqp, struct send_wqe *wqe, uint32_t at, const uint8_t *from,
		  uint32_t bytes)
{
	uint32_t placed = 0;

	while (placed < bytes) {
		struct iovec iov[GATHER_IOVS];
		uint32_t covered;
		int n = sge_gather(rqp->qp, wqe, at + placed, bytes - placed, true, iov,
				   GATHER_IOVS, &covered);

		if (n < 0) {
			roce_requester_fail(rqp, IBV_WC_LOC_PROT_ERR, (enum vendor_err) - n);
			return false;
		}
		for (int i = 0; i < n; i++) {
			memcpy(iov[i].iov_base, from + placed, iov[i].iov_len);
			placed += (uint32_t)iov[i].iov_len;
		}
	}
	return true;
}

static void take_read_data(struct roce_qp *rqp, struct send_wqe *wqe, const struct packet *packet)
{
	uint32_t at = psn_sub(packet->psn, wqe->ssn) * rqp->mtu_bytes;
	uint32_t left = wqe->length_bytes - at;
	uint32_t bytes = left < rqp->mtu_bytes ? left : rqp->mtu_bytes;

	if (packet->payload_bytes != bytes) {
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
		roce_requester_fail(rqp, IBV_WC_BAD_RESP_ERR, VENDOR_ERR_MSG_LENGTH);
		return;
	}
	if (place(rqp, wqe, at, packet->payload, bytes))
		move_to(rqp, wqe, psn_next(packet->psn));
}

static void take_atomic_result(struct roce_qp *rqp, struct send_wqe *wqe,
			       const struct packet *packet)
{
	const uint8_t *from = (const uint8_t *)&packet->atomic_original;

	if (place(rqp, wqe, 0, from, sizeof(packet->atomic_original)))
		move_to(rqp, wqe, psn_next(packet->psn));
}

/* An atomic WRITE or a FLUSH was executed. */
static void take_empty(struct roce_qp *rqp, const struct send_wqe *wqe, const struct packet *packet)
{
	if (packet->payload_bytes) {
		roce_count(rqp->roce, ROCE_BAD_RESPONSES);
		roce_requester_fail(rqp, IBV_WC_BAD_RESP_ERR, VENDOR_ERR_MSG_LENGTH);
		return;
	}
	move_to(rqp, wqe, psn_next(packet->psn));
}

/* Whether the answer is of the kind that the request has. */
static bool is_answer_to(const struct send_wqe *wqe, const struct opcode_info *info)
{
	switch (wqe->opcode) {
	case IBV_WR_RDMA_READ:
		return info->is_read;
	case IBV_WR_ATOMIC_WRITE:
	case IBV_WR_FLUSH:
		return info->is_read && info->is_only;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return info->is_atomic;
	default:
		return false;
	}
}

static void take_data(struct roce_qp *rqp, const struct packet *packet)
{
	struct send_wqe *wqe;

	if (!acknowledge(rqp, packet->psn)) {
		retry_lost(rqp);
		return;
	}
	wqe = oldest(rqp);
	if (!wqe || !is_answer_to(wqe, packet->info)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	if (wqe->opcode == IBV_WR_RDMA_READ)
		take_read_data(rqp, wqe, packet);
	else if (packet->info->is_atomic)
		take_atomic_result(rqp, wqe, packet);
	else
		take_empty(rqp, wqe, packet);
	qp_check_drained(rqp->qp);
}

void roce_completer_response(struct roce_qp *rqp, const struct packet *packet)
{
	/* UC asks for no answers. */
	if (!is_reliable(rqp) || (rqp->qp->state != IBV_QPS_RTS && rqp->qp->state != IBV_QPS_SQD)) {
		roce_count(rqp->roce, ROCE_DROPPED_QP_STATE);
		return;
	}
	/* Nothing that is out, or what was answered before: an old ACK is no news. */
	if (!psn_is_in(packet->psn, rqp->tx.una_psn, rqp->tx.max_psn)) {
		roce_count(rqp->roce, ROCE_DROPPED_RESPONSE);
		return;
	}
	if (packet->info->is_read || packet->info->is_atomic)
		take_data(rqp, packet);
	else
		take_ack(rqp, packet);
	/* The window may have opened. */
	roce_send_later(rqp);
}
