/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/wq.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "core/device/ah.h"
#include "core/device/async.h"
#include "core/engine/lock_check.h"
#include "core/object/opcode.h"
#include "core/queue/comp_cntr.h"
#include "core/queue/cq.h"
#include "core/queue/failure_wr.h"
#include "core/report/usage.h"

/* pd: NULL if the QP is an XRC target. */
static const struct profile *profile_of_pd(const struct pd *pd)
{
	return pd ? pd->context->device->profile : NULL;
}

static uint32_t wq_limit(const struct profile *profile, enum profile_value value, uint32_t own)
{
	return (uint32_t)profile_limit(profile, value, own);
}

int send_queue_init(struct send_queue *sq, struct ibv_qp_cap *cap, struct pd *pd)
{
	const struct profile *profile = profile_of_pd(pd);
	uint32_t max_wr = wq_limit(profile, PROFILE_MAX_QP_WR, MAX_QP_WR);
	uint32_t max_inline_bytes = wq_limit(profile, PROFILE_MAX_INLINE_DATA, MAX_INLINE_BYTES);
	uint32_t slots, payload;

	if (cap->max_send_wr > max_wr ||
	    cap->max_send_sge > wq_limit(profile, PROFILE_MAX_SGE, MAX_SGE) ||
	    cap->max_inline_data > max_inline_bytes)
		return -EINVAL;
	memset(sq, 0, sizeof(*sq));
	slots = round_up_pow2(cap->max_send_wr);
	sq->max_wr = cap->max_send_wr ? min_u32(slots, max_wr) : 0;
	sq->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	sq->max_read_sge = min_u32(sq->max_sge, wq_limit(profile, PROFILE_MAX_SGE_RD, MAX_SGE));
	payload = sq->max_sge * (uint32_t)sizeof(struct ibv_sge);
	if (payload < cap->max_inline_data)
		payload = cap->max_inline_data;
	payload = (payload + 15) & ~15u;
	sq->max_inline_bytes = min_u32(payload, max_inline_bytes);
	sq->stride = (uint32_t)sizeof(struct send_wqe) + payload;
	sq->mask = slots - 1;
	sq->bytes = (size_t)slots * sq->stride;
	sq->slots = queue_memory_alloc(pd, sq->bytes, QUEUE_SEND, &sq->owner);
	if (!sq->slots)
		return -ENOMEM;
	cap->max_send_wr = sq->max_wr;
	cap->max_send_sge = sq->max_sge;
	cap->max_inline_data = sq->max_inline_bytes;
	return 0;
}

int recv_queue_init(struct recv_queue *rq, uint32_t *max_wr, uint32_t *max_sge, struct pd *pd,
		    enum queue_kind kind)
{
	const struct profile *profile = profile_of_pd(pd);
	uint32_t wr_limit, sge_limit, slots;

	if (kind == QUEUE_SRQ) {
		wr_limit = wq_limit(profile, PROFILE_MAX_SRQ_WR, MAX_SRQ_WR);
		sge_limit = wq_limit(profile, PROFILE_MAX_SRQ_SGE, MAX_SGE);
	} else {
		wr_limit = wq_limit(profile, PROFILE_MAX_QP_WR, MAX_QP_WR);
		sge_limit = wq_limit(profile, PROFILE_MAX_SGE, MAX_SGE);
	}
	if (*max_wr > wr_limit || *max_sge > sge_limit)
		return -EINVAL;
	memset(rq, 0, sizeof(*rq));
	slots = round_up_pow2(*max_wr);
	rq->max_wr = *max_wr ? min_u32(slots, wr_limit) : 0;
	rq->max_sge = *max_sge ? *max_sge : 1;
	rq->stride = (uint32_t)(sizeof(struct recv_wqe) + rq->max_sge * sizeof(struct ibv_sge));
	rq->mask = slots - 1;
	rq->bytes = (size_t)slots * rq->stride;
	rq->kind = kind;
	rq->slots = queue_memory_alloc(pd, rq->bytes, kind, &rq->owner);
	if (!rq->slots)
		return -ENOMEM;
	*max_wr = rq->max_wr;
	*max_sge = rq->max_sge;
	return 0;
}

void send_queue_fini(struct send_queue *sq)
{
	queue_memory_free(sq->owner, sq->slots, sq->bytes, QUEUE_SEND);
	sq->slots = NULL;
}

void recv_queue_fini(struct recv_queue *rq)
{
	queue_memory_free(rq->owner, rq->slots, rq->bytes, rq->kind);
	rq->slots = NULL;
}

void send_queue_reset(struct send_queue *sq)
{
	sq->una = sq->nxt = sq->begun = sq->head = 0;
}

void recv_queue_reset(struct recv_queue *rq)
{
	rq->tail = rq->head = 0;
}

void sq_cut(struct qp *qp, uint32_t head)
{
	qp_assert_locked(qp);
	while (qp->sq.head != head) {
		struct send_wqe *wqe = sq_wqe(&qp->sq, --qp->sq.head);

		if (qp->type == IBV_QPT_UD && wqe->ah)
			ah_put(wqe->ah);
	}
}

/*
 * Counts a completed send WQE. Atomics and local operations (bind, local invalidate) have no
 * counter.
 */
static void count_send(const struct qp *qp, const struct send_wqe *wqe, bool is_success)
{
	unsigned int op = wqe_info(wqe)->comp_cntr_op;

	if (op)
		comp_cntr_count(qp, (enum ibv_qp_attach_comp_cntr_op)op, is_success,
				wqe->length_bytes);
}

void sq_retire(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err)
{
	struct send_queue *sq = &qp->sq;
	const struct send_wqe *wqe = sq_wqe(sq, sq->una);
	struct ibv_wc wc = {0};

	qp_assert_locked(qp);
	if (qp->type == IBV_QPT_UD)
		ah_put(wqe->ah);
	if (qp->comp_cntr_ops)
		count_send(qp, wqe, status == IBV_WC_SUCCESS);
	if (status == IBV_WC_SUCCESS) {
		qp->usage->sent_messages++;
		qp->usage->sent_bytes += wqe->length_bytes;
		if (wqe_info(wqe)->data == WR_DATA_SCATTER)
			qp->usage->read_bytes += wqe->length_bytes;
	} else {
		qp->usage->failed++;
	}
	sq->una++;
	if ((int32_t)(sq->nxt - sq->una) < 0)
		sq->nxt = sq->una;
	if ((int32_t)(sq->begun - sq->una) < 0)
		sq->begun = sq->una;
	if (status == IBV_WC_SUCCESS && !qp->is_sig_all && !(wqe->send_flags & IBV_SEND_SIGNALED))
		return;
	if (__builtin_expect(status != IBV_WC_SUCCESS, 0) && status != IBV_WC_WR_FLUSH_ERR)
		failure_wr(qp, wqe, status, vendor_err);
	wc.wr_id = wqe->wr_id;
	wc.status = status;
	wc.opcode = wqe_info(wqe)->wc_opcode;
	wc.vendor_err = vendor_err;
	wc.byte_len = send_wqe_reported_bytes(wqe);
	wc.qp_num = qp->qpn;
	cq_push(qp->send_cq, &wc, false);
}

void sq_flush(struct qp *qp)
{
	qp_assert_locked(qp);
	while (qp->sq.una != qp->sq.head)
		sq_retire(qp, IBV_WC_WR_FLUSH_ERR, VENDOR_ERR_FLUSHED);
}

void rq_flush(struct qp *qp)
{
	struct recv_queue *rq = &qp->rq;

	qp_assert_locked(qp);
	if (qp->srq)
		return;
	while (rq->tail != rq->head) {
		struct ibv_wc wc = {0};

		wc.wr_id = rq_wqe(rq, rq->tail++)->wr_id;
		wc.status = IBV_WC_WR_FLUSH_ERR;
		wc.opcode = IBV_WC_RECV;
		wc.vendor_err = VENDOR_ERR_FLUSHED;
		wc.qp_num = qp->qpn;
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RECV, false, 0);
		cq_push(qp->recv_cq, &wc, false);
	}
}

bool rq_peek(const struct qp *qp, uint64_t *room_bytes)
{
	const struct recv_queue *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	const struct recv_wqe *wqe;

	qp_assert_locked(qp);
	if (rq->tail == rq->head)
		return false;
	wqe = rq_wqe(rq, rq->tail);
	*room_bytes = 0;
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		*room_bytes += wqe->sge[i].length;
	return true;
}

bool rq_take(struct qp *qp, struct recv_taken *taken)
{
	struct recv_queue *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	const struct recv_wqe *from;

	qp_assert_locked(qp);
	if (rq->tail == rq->head)
		return false;
	from = rq_wqe(rq, rq->tail++);
	taken->wr_id = from->wr_id;
	taken->num_sge = from->num_sge;
	if (from->num_sge == 1)
		taken->sge[0] = from->sge[0];
	else
		memcpy(taken->sge, from->sge, from->num_sge * sizeof(from->sge[0]));
	/* IBA 1.x §10.2.9.1: the limit event is generated once and disarms the limit. */
	if (qp->srq && rq->head - rq->tail < qp->srq->limit) {
		qp->srq->limit = 0;
		async_srq_event(qp->srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	return true;
}
