/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/post.h"

#include <errno.h>
#include <string.h>

#include "core/ah.h"
#include "core/datagram.h"
#include "core/engine.h"
#include "core/mw.h"
#include "core/transport.h"
#include "core/wq.h"
#include "core/xrc.h"

#define QPN_MAX	 0xffffffu
#define SRQN_MAX 0xffffffu

/* XRC's sending half takes what RC does (IBA A14). */
static bool opcode_is_known(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	bool is_reliable = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;

	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return is_reliable || type == IBV_QPT_UC || type == IBV_QPT_UD;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_BIND_MW:
		return is_reliable || type == IBV_QPT_UC;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_LOCAL_INV:
		return is_reliable;
	/* IBA A19 */
	case IBV_WR_ATOMIC_WRITE:
	case IBV_WR_FLUSH:
		return type == IBV_QPT_RC;
	default:
		return false;
	}
}

int post_check_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	if (qp->context->engine->is_orphan)
		return EIO;
	/* IBA 1.x §10.3.1: sends are taken in RTS, SQD, SQE and ERR (where they are flushed). */
	if (qp->state < IBV_QPS_RTS)
		return EINVAL;
	return opcode_is_known(qp->type, opcode) ? 0 : EINVAL;
}

struct send_wqe *post_next_wqe(struct qp *qp)
{
	struct send_queue *sq = &qp->sq;

	uint32_t next = sq->head + qp->batch.count;

	if (next - sq->una >= sq->max_wr)
		return NULL;
	return sq_wqe(sq, next);
}

void post_kick(struct qp *qp)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		sq_flush(qp);
	else if (qp->state == IBV_QPS_RTS && qp->type == IBV_QPT_UD)
		datagram_kick(qp);
	else if (qp->state == IBV_QPS_RTS && qp->transport)
		qp->transport->kick(qp);
}

int post_address(struct send_wqe *wqe, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	if (!ah || remote_qpn > QPN_MAX)
		return EINVAL;
	wqe->ah = to_ah(ah);
	wqe->remote_qpn = remote_qpn;
	wqe->remote_qkey = remote_qkey;
	ah_get(wqe->ah);
	return 0;
}

int post_name_srq(struct send_wqe *wqe, uint32_t remote_srqn)
{
	if (remote_srqn > SRQN_MAX)
		return EINVAL;
	wqe->remote_srqn = remote_srqn & SRQN_MAX;
	return 0;
}

static int copy_inline(const struct send_queue *sq, struct send_wqe *wqe,
		       const struct ibv_send_wr *wr)
{
	uint32_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > sq->max_inline_bytes - length)
			return EINVAL;
		memcpy(wqe->data + length, (const void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->is_inline = true;
	wqe->num_sge = 0;
	wqe->length_bytes = length;
	return 0;
}

static int copy_sges(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	wqe->is_inline = false;
	wqe->num_sge = (uint8_t)wr->num_sge;
	/* Too long for the port is found when it is its turn (LOC_LEN_ERR), so the sum only has to stay too long. */
	wqe->length_bytes = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	return 0;
}

static int copy_data(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return copy_sges(wqe, wr);
	/* Inline is for bytes that leave; a READ or an atomic has none (ibv_post_send(3)). */
	if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return EINVAL;
	return copy_inline(&qp->sq, wqe, wr);
}

static int copy_wr(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret;

	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->remote_srqn = 0;
	wqe->send_flags = wr->send_flags;
	wqe->imm_data_be = wr->imm_data;
	wqe->done_bytes = 0;
	wqe->state = SEND_WQE_POSTED;
	wqe->path = 0;
	switch (wr->opcode) {
	case IBV_WR_BIND_MW:
		return mw_fill_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
		break;
	default:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		break;
	}
	ret = copy_data(qp, wqe, wr);
	if (ret)
		return ret;
	if (qp->type == IBV_QPT_XRC_SEND)
		return post_name_srq(wqe, wr->qp_type.xrc.remote_srqn);
	if (qp->type != IBV_QPT_UD)
		return 0;
	return post_address(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
}

static int may_post(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	/* This very thread gathers a batch on it; and the structure has no place for what a FLUSH says. */
	if (qp->batch.is_open || opcode == IBV_WR_FLUSH)
		return EINVAL;
	return post_check_opcode(qp, opcode);
}

int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	uint32_t head_before;
	int ret = 0;

	engine_lock(engine);
	head_before = qp->sq.head;
	for (; wr; wr = wr->next) {
		struct send_wqe *wqe;

		ret = may_post(qp, wr->opcode);
		if (ret)
			break;
		wqe = post_next_wqe(qp);
		if (!wqe) {
			ret = ENOMEM;
			break;
		}
		ret = copy_wr(qp, wqe, wr);
		if (ret)
			break;
		qp->sq.head++;
	}
	if (qp->sq.head != head_before)
		post_kick(qp);
	engine_unlock(engine);
	if (ret)
		*bad_wr = wr;
	return ret;
}

static int queue_recv(struct recv_queue *rq, const struct ibv_recv_wr *wr)
{
	struct recv_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	if (rq->head - rq->tail >= rq->max_wr)
		return ENOMEM;
	wqe = rq_wqe(rq, rq->head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
	rq->head++;
	return 0;
}

static void tell_starved(struct qp *qp)
{
	if (!qp->is_starved)
		return;
	qp->is_starved = false;
	if (qp->srq)
		list_del(&qp->starved_node);
	if (qp->transport)
		qp->transport->recv_posted(qp);
}

int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret = 0;

	engine_lock(engine);
	if (engine->is_orphan)
		ret = EIO;
	else if (qp->srq || qp_is_xrc(qp->type) || qp->state == IBV_QPS_RESET)
		ret = EINVAL;
	for (; wr && !ret; wr = wr->next) {
		ret = queue_recv(&qp->rq, wr);
		if (ret)
			break;
	}
	if (qp->state == IBV_QPS_ERR)
		rq_flush(qp);
	else
		tell_starved(qp);
	engine_unlock(engine);
	if (ret)
		*bad_wr = wr;
	return ret;
}

int post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct srq *srq = to_srq(ibsrq);
	struct engine *engine = srq->context->engine;
	int ret = engine->is_orphan ? EIO : 0;

	engine_lock(engine);
	for (; wr && !ret; wr = wr->next) {
		ret = queue_recv(&srq->rq, wr);
		if (ret)
			break;
	}
	while (!list_is_empty(&srq->starved) && srq->rq.head != srq->rq.tail)
		tell_starved(list_first_entry(&srq->starved, struct qp, starved_node));
	engine_unlock(engine);
	if (ret)
		*bad_wr = wr;
	return ret;
}
