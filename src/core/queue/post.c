/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/post.h"

#include <errno.h>
#include <string.h>

#include "base/trace_points.h"
#include "base/user_copy.h"
#include "base/util.h"
#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_lock.h"
#include "core/engine/transport.h"
#include "core/memory/mw.h"
#include "core/object/opcode.h"
#include "core/queue/datagram.h"
#include "core/queue/failure_call.h"
#include "core/queue/failure_wr.h"
#include "core/queue/wq.h"
#include "core/queue/wr_batch.h"
#include "core/report/call_failed.h"
#include "core/report/fault_points.h"
#include "core/report/probe.h"

static int opcode_check(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	if (qp->context->engine->is_orphan)
		return -EIO;
	/*
	 * IBA 1.x §10.3.1: send WRs may be posted in RTS, SQD, SQE and ERR (where they are
	 * flushed).
	 */
	if (qp->state < IBV_QPS_RTS)
		return -EINVAL;
	if (!wr_opcode_of_qp(qp->type, opcode))
		return -EINVAL;
	if ((opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
	    !device_has_atomics(qp->context->device))
		return -EINVAL;
	return 0;
}

int post_check_opcode(const struct qp *qp, enum ibv_wr_opcode opcode)
{
	int ret;

	qp_assert_locked(qp);
	ret = opcode_check(qp, opcode);
	return ret ? ret : -fault_wr_post(qp, opcode);
}

struct send_wqe *post_next_wqe(struct qp *qp)
{
	struct send_queue *sq = &qp->sq;

	qp_assert_locked(qp);
	if (sq->head - sq->una >= sq->max_wr)
		return NULL;
	return sq_wqe(sq, sq->head);
}

void post_kick(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE) {
		failure_flushed(qp, qp->sq.head - qp->sq.una, 0);
		sq_flush(qp);
	} else if (qp->state == IBV_QPS_RTS && qp->type == IBV_QPT_UD) {
		datagram_kick(qp);
	} else if (qp->state == IBV_QPS_RTS && qp->transport) {
		qp->transport->kick(qp);
	}
}

int post_address(struct send_wqe *wqe, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	if (!ah || remote_qpn > MASK_24)
		return -EINVAL;
	wqe->ah = to_ah(ah);
	wqe->remote_qpn = remote_qpn;
	wqe->remote_qkey = remote_qkey;
	ah_get(wqe->ah);
	return 0;
}

int post_name_srq(struct send_wqe *wqe, uint32_t remote_srqn)
{
	if (remote_srqn > MASK_24)
		return -EINVAL;
	wqe->remote_srqn = remote_srqn & MASK_24;
	return 0;
}

static int copy_inline(const struct send_queue *sq, struct send_wqe *wqe,
		       const struct ibv_send_wr *wr)
{
	uint32_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > sq->max_inline_bytes - length)
			return -EINVAL;
		if (!user_copy_from(wqe->data + length, (const void *)(uintptr_t)sge->addr,
				    sge->length))
			return -EFAULT;
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
	/*
	 * A length above max_msg_sz is reported when the WQE is processed (LOC_LEN_ERR), so
	 * saturation is sufficient.
	 */
	wqe->length_bytes = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	return 0;
}

bool post_fits_sges(const struct send_queue *sq, const struct send_wqe *wqe, uint32_t num_sge)
{
	return num_sge <= sq->max_read_sge || (num_sge <= sq->max_sge && !wqe_scatters(wqe));
}

static int copy_data(struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (wr->num_sge < 0 || !post_fits_sges(&qp->sq, wqe, (uint32_t)wr->num_sge))
		return -EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return copy_sges(wqe, wr);
	/*
	 * Inline data are only allowed for operations that send a payload, not for READ and atomics
	 * (ibv_post_send(3)).
	 */
	if (wqe_scatters(wqe))
		return -EINVAL;
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
	wqe->injected_status = 0;
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

static int may_post(const struct qp *qp, enum ibv_wr_opcode opcode, bool has_faults)
{
	int ret = opcode_check(qp, opcode);

	if (!ret && has_faults)
		ret = -fault_wr_post(qp, opcode);
	if (ret)
		return ret;
	return wr_opcodes[opcode].needs_ex ? -EINVAL : 0;
}

/*
 * The parameter `is_probed` of this and the next functions is a constant: ibv_post_send() and the
 * other calls test the switch of their points once, at the beginning.
 */
static __always_inline int send_list(struct qp *qp, struct ibv_send_wr *wr,
				     struct ibv_send_wr **bad_wr, bool is_probed)
{
	enum qp_lock lock = qp_lock(qp);
	uint32_t head_before;
	int ret = 0;

	if (__builtin_expect(qp->batch.owner != 0, 0))
		ret = wr_batch_await(qp, &lock);
	head_before = qp->sq.head;
	for (; wr && !ret; wr = wr->next) {
		struct send_wqe *wqe;

		ret = may_post(qp, wr->opcode, is_probed);
		if (ret)
			break;
		wqe = post_next_wqe(qp);
		if (!wqe) {
			ret = -ENOMEM;
			break;
		}
		ret = copy_wr(qp, wqe, wr);
		if (ret)
			break;
		sq_append(qp, wqe);
	}
	if (qp->sq.head != head_before)
		post_kick(qp);
	if (__builtin_expect(ret, 0))
		failure_post_send(qp, wr, ret);
	qp_unlock(qp, lock);
	if (ret) {
		*bad_wr = wr;
		trace_call_failed("ibv_post_send", -ret, qp->qpn);
	}
	return -ret;
}

PROBE_COLD static int send_list_probed(struct qp *qp, struct ibv_send_wr *wr,
				       struct ibv_send_wr **bad_wr)
{
	if (!fault_call_fails("ibv_post_send"))
		return send_list(qp, wr, bad_wr, true);
	*bad_wr = wr;
	return errno;
}

int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct qp *qp = to_qp(ibqp);

	if (probe_is_on(PROBE_FAULT))
		return send_list_probed(qp, wr, bad_wr);
	return send_list(qp, wr, bad_wr, false);
}

/* qpn 0: the queue belongs to an SRQ. */
static __always_inline int queue_recv(struct recv_queue *rq, uint32_t qpn,
				      const struct ibv_recv_wr *wr, bool is_probed)
{
	struct recv_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return -EINVAL;
	if (rq->head - rq->tail >= rq->max_wr)
		return -ENOMEM;
	wqe = rq_wqe(rq, rq->head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = wr->sg_list[i];
	rq->head++;
	if (is_probed)
		trace_recv_posted(qpn, wr);
	return 0;
}

static void notify_waiting_recv(struct qp *qp)
{
	if (!qp->is_waiting_recv)
		return;
	qp->is_waiting_recv = false;
	if (qp->srq)
		list_del(&qp->waiting_recv_node);
	if (qp->transport)
		qp->transport->recv_posted(qp);
}

static __always_inline int recv_list(struct qp *qp, struct ibv_recv_wr *wr,
				     struct ibv_recv_wr **bad_wr, bool is_probed)
{
	enum qp_lock lock = qp_lock(qp);
	int ret = 0;

	if (qp->context->engine->is_orphan)
		ret = -EIO;
	else if (qp->srq || qp_is_xrc(qp->type) || qp->state == IBV_QPS_RESET)
		ret = -EINVAL;
	for (; wr && !ret; wr = wr->next) {
		ret = queue_recv(&qp->rq, qp->qpn, wr, is_probed);
		if (ret)
			break;
	}
	if (qp->state == IBV_QPS_ERR) {
		failure_flushed(qp, 0, qp->rq.head - qp->rq.tail);
		rq_flush(qp);
	} else {
		notify_waiting_recv(qp);
	}
	if (__builtin_expect(ret, 0) && wr)
		failure_post_recv(qp, wr, ret);
	qp_unlock(qp, lock);
	if (ret) {
		*bad_wr = wr;
		trace_call_failed("ibv_post_recv", -ret, qp->qpn);
	}
	return -ret;
}

PROBE_COLD static int recv_list_probed(struct qp *qp, struct ibv_recv_wr *wr,
				       struct ibv_recv_wr **bad_wr)
{
	if (!fault_call_fails("ibv_post_recv"))
		return recv_list(qp, wr, bad_wr, true);
	*bad_wr = wr;
	return errno;
}

int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct qp *qp = to_qp(ibqp);

	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		return recv_list_probed(qp, wr, bad_wr);
	return recv_list(qp, wr, bad_wr, false);
}

PROBE_COLD static void srq_list_failed(const struct srq *srq, const struct ibv_recv_wr *wr, int ret)
{
	static const char call[] = "ibv_post_srq_recv";

	if (ret == -ENOMEM)
		call_failed_because(srq->context, call, ret, IPC_REASON_POST_FULL, srq->rq.max_wr,
				    0);
	else if (ret == -EINVAL && wr)
		call_failed_because(srq->context, call, ret, IPC_REASON_POST_SGES,
				    (uint64_t)wr->num_sge, srq->rq.max_sge);
	else
		call_failed(srq->context, call, ret);
}

static __always_inline int srq_list(struct srq *srq, struct ibv_recv_wr *wr,
				    struct ibv_recv_wr **bad_wr, bool is_probed)
{
	struct engine *engine = srq->context->engine;
	int ret = engine->is_orphan ? -EIO : 0;

	engine_lock_base(engine);
	for (; wr && !ret; wr = wr->next) {
		ret = queue_recv(&srq->rq, 0, wr, is_probed);
		if (ret)
			break;
	}
	while (!list_is_empty(&srq->waiting_recv) && srq->rq.head != srq->rq.tail)
		notify_waiting_recv(
			list_first_entry(&srq->waiting_recv, struct qp, waiting_recv_node));
	engine_unlock_base(engine);
	if (__builtin_expect(ret, 0)) {
		*bad_wr = wr;
		srq_list_failed(srq, wr, ret);
	}
	return -ret;
}

PROBE_COLD static int srq_list_probed(struct srq *srq, struct ibv_recv_wr *wr,
				      struct ibv_recv_wr **bad_wr)
{
	if (!fault_call_fails("ibv_post_srq_recv"))
		return srq_list(srq, wr, bad_wr, true);
	*bad_wr = wr;
	return errno;
}

int post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct srq *srq = to_srq(ibsrq);

	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		return srq_list_probed(srq, wr, bad_wr);
	return srq_list(srq, wr, bad_wr, false);
}
