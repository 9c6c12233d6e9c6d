/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/requester.h"

#include "core/engine/lock_check.h"
#include "core/memory/mw.h"
#include "core/object/opcode.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"

/*
 * Checks the fields of a WQE: IBV_WC_SUCCESS, or the status that it completes with and *vendor_err.
 */
static enum ibv_wc_status requester_check(struct send_wqe *wqe, enum vendor_err *vendor_err)
{
	const struct wr_opcode_info *info = wqe_info(wqe);
	uint32_t exact_bytes = info->exact_bytes;

	if (__builtin_expect(wqe->injected_status, 0)) {
		*vendor_err = VENDOR_ERR_INJECTED;
		return (enum ibv_wc_status)wqe->injected_status;
	}
	/*
	 * The SGEs of an atomic may be longer than its response, as with rdma-core's rxe provider.
	 */
	if (exact_bytes && info->data == WR_DATA_SCATTER && wqe->length_bytes > exact_bytes)
		wqe->length_bytes = exact_bytes;
	if (wqe->length_bytes > MAX_MSG_BYTES ||
	    (exact_bytes && wqe->length_bytes != exact_bytes)) {
		*vendor_err = VENDOR_ERR_MSG_LENGTH;
		return IBV_WC_LOC_LEN_ERR;
	}
	return IBV_WC_SUCCESS;
}

/* Executes the local operation at nxt if it was not executed before. false: it failed. */
static bool requester_execute(struct qp *qp, struct send_wqe *wqe, struct requester_error *error)
{
	struct send_queue *sq = &qp->sq;

	if (wqe->state != SEND_WQE_DONE) {
		error->status = mw_execute(qp, wqe, &error->vendor_err);
		if (error->status != IBV_WC_SUCCESS)
			return false;
		wqe->state = SEND_WQE_DONE;
	}
	sq->nxt++;
	/* `begun` must not be before `nxt`: in SQD it is the end of the sendable WQEs. */
	if ((int32_t)(sq->begun - sq->nxt) < 0)
		sq->begun = sq->nxt;
	return true;
}

enum requester_next requester_prepare(struct qp *qp, uint32_t requests_out,
				      struct requester_error *error)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.nxt);

	qp_assert_locked(qp);
	/* A WQE that is sent again has passed the fence. */
	if ((wqe->send_flags & IBV_SEND_FENCE) && wqe->state == SEND_WQE_POSTED && requests_out)
		return REQUESTER_NEXT_WAIT;
	error->status = requester_check(wqe, &error->vendor_err);
	if (error->status != IBV_WC_SUCCESS)
		return REQUESTER_NEXT_FAIL;
	if (wqe_info(wqe)->kind != WR_KIND_LOCAL)
		return REQUESTER_NEXT_SEND;
	return requester_execute(qp, wqe, error) ? REQUESTER_NEXT_EXECUTED : REQUESTER_NEXT_FAIL;
}

void requester_fail(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err)
{
	qp_assert_locked(qp);
	sq_retire(qp, status, vendor_err);
	qp_enter_send_error(qp);
}

uint64_t requester_ack_timeout_ns(const struct qp *qp)
{
	uint64_t least = profile_value(qp->context->device->profile, PROFILE_MIN_ACK_TIMEOUT, 0);
	uint64_t exponent = qp->attr.timeout > least ? qp->attr.timeout : least;

	/* 4.096 us * 2^timeout; 0: no timeout. */
	return qp->attr.timeout ? UINT64_C(4096) << exponent : 0;
}
