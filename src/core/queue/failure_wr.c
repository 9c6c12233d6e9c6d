/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/failure_wr.h"

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/memory/mr.h"
#include "core/memory/mw.h"
#include "core/object/opcode.h"
#include "core/queue/qp_error.h"
#include "core/queue/sge.h"
#include "core/queue/wq.h"
#include "core/report/failure.h"
#include "ipc/segment.h"

static void describe_region(struct ipc_failure *failure, const struct engine *engine,
			    const struct mr *mr)
{
	failure->flags |= IPC_FAILURE_HAS_REGION;
	failure->region_start = mr->iova;
	failure->region_length = mr->length;
	failure->region_access = mr->access;
	failure->region_pid = engine->pid;
}

static void describe_local(struct ipc_failure *failure, struct engine *engine, uint64_t addr,
			   uint32_t length, uint32_t lkey)
{
	const struct mr *mr = mr_find(engine, lkey);

	failure->flags |= IPC_FAILURE_HAS_LOCAL;
	failure->local_addr = addr;
	failure->local_length = length;
	failure->lkey = lkey;
	if (mr)
		describe_region(failure, engine, mr);
}

/* Finds the first invalid SGE. */
static void describe_sges(struct ipc_failure *failure, struct engine *engine, const struct pd *pd,
			  const struct ibv_sge *sge, uint32_t count, bool for_write)
{
	uint8_t *at;

	for (uint32_t i = 0; i < count; i++) {
		if (sge_check(pd, &sge[i], for_write, &at) == VENDOR_ERR_NONE)
			continue;
		describe_local(failure, engine, sge[i].addr, sge[i].length, sge[i].lkey);
		return;
	}
}

void failure_wr(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
		enum vendor_err vendor_err)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_WR, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	failure.follows = qp->failure_id;
	failure.wr_id = wqe->wr_id;
	failure.opcode = wqe->opcode;
	failure.status = status;
	failure.vendor_err = vendor_err;
	failure.length = send_wqe_reported_bytes(wqe);
	if (qp->type == IBV_QPT_UD)
		failure.peer_qpn = wqe->remote_qpn;
	if (wqe_info(wqe)->kind == WR_KIND_WRITE || wqe_info(wqe)->kind == WR_KIND_REQUEST) {
		failure.flags |= IPC_FAILURE_HAS_REMOTE;
		failure.remote_addr = wqe->remote_addr;
		failure.rkey = wqe->rkey;
	}
	if (wqe->opcode == IBV_WR_BIND_MW) {
		failure.length = wqe->bind_length_bytes;
		describe_local(&failure, engine, wqe->remote_addr, 0, wqe->bind_lkey);
	}
	if (status == IBV_WC_LOC_PROT_ERR && !wqe->is_inline)
		describe_sges(&failure, engine, qp->pd, wqe->sge, wqe->num_sge, wqe_scatters(wqe));
	if (qp->transport_qp && qp->transport->describe)
		qp->transport->describe(qp, wqe, &failure);
	if (!qp->failure_id)
		qp->failure_id = failure.id;
	failure_send(engine, &failure);
}

void failure_recv(struct qp *qp, const struct inbound *in, const struct ibv_wc *wc)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_WR, &failure);
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;

	qp_assert_locked(qp);
	if (!engine)
		return;
	failure.flags |= IPC_FAILURE_IS_RECV;
	failure.follows = qp->failure_id;
	failure.wr_id = wc->wr_id;
	failure.status = wc->status;
	failure.vendor_err = wc->vendor_err;
	for (uint32_t i = 0; i < in->recv.num_sge; i++)
		failure.numbers[0] += in->recv.sge[i].length;
	if (wc->status == IBV_WC_LOC_PROT_ERR && pd)
		describe_sges(&failure, engine, pd, in->recv.sge, in->recv.num_sge, true);
	if (qp->transport_qp && qp->transport->describe)
		qp->transport->describe(qp, NULL, &failure);
	if (!qp->failure_id)
		qp->failure_id = failure.id;
	failure_send(engine, &failure);
}

void failure_refused(struct qp *qp, const struct failure_refusal *refusal)
{
	struct engine *engine;

	qp_assert_locked(qp);
	if (!qp->context)
		return;
	engine = qp->context->engine;
	engine_lock_base(engine);
	engine->failures.refusal = *refusal;
	engine->failures.refusal.qpn = qp->qpn;
	engine_unlock_base(engine);
}

void failure_describe_refusal(struct ipc_failure *failure, struct engine *engine)
{
	struct failure_refusal *refusal = &engine->failures.refusal;
	const struct mr *mr = mr_find(engine, refusal->rkey);

	engine_assert_locked(engine);
	failure->flags |= IPC_FAILURE_IS_RESPONDER | IPC_FAILURE_HAS_REMOTE;
	failure->vendor_err = access_vendor_err(refusal->result);
	failure->remote_addr = refusal->remote_addr;
	failure->rkey = refusal->rkey;
	failure->length = refusal->length;
	failure->opcode = refusal->access & IBV_ACCESS_REMOTE_WRITE ? IBV_WR_RDMA_WRITE :
			  refusal->access & IBV_ACCESS_REMOTE_READ  ? IBV_WR_RDMA_READ :
								      IBV_WR_ATOMIC_FETCH_AND_ADD;
	if (refusal->rkey & SEGMENT_WINDOW_KEY)
		mw_describe(engine, refusal->rkey, failure);
	else if (mr)
		describe_region(failure, engine, mr);
	refusal->qpn = 0;
}

static void describe_overrun(struct ipc_failure *failure, const struct qp *qp)
{
	const struct cq *cq = qp->send_cq && qp->send_cq->has_overflowed ? qp->send_cq :
									   qp->recv_cq;

	failure->reason = IPC_REASON_QP_CQ_OVERRUN;
	failure->numbers[0] = cq ? cq->capacity : 0;
}

void failure_qp(struct qp *qp, enum ibv_event_type event)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_QP, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	failure.follows = qp->failure_id;
	failure.flushed_sends = qp->sq.head - qp->sq.una;
	failure.flushed_receives = qp->srq ? 0 : qp->rq.head - qp->rq.tail;
	if (event != QP_NO_EVENT)
		failure.event = event;
	if (engine->failures.refusal.qpn == qp->qpn && engine->failures.refusal.mtu_bytes) {
		failure.reason = IPC_REASON_QP_SIZE;
		failure.numbers[0] = engine->failures.refusal.length;
		failure.numbers[1] = engine->failures.refusal.mtu_bytes;
		engine->failures.refusal.qpn = 0;
	} else if (engine->failures.refusal.qpn == qp->qpn) {
		failure.reason = IPC_REASON_QP_REFUSED;
		failure_describe_refusal(&failure, engine);
	} else if (qp->failure_id)
		failure.reason = IPC_REASON_QP_WR;
	else if (qp->has_lost_completion)
		describe_overrun(&failure, qp);
	else if (event == QP_NO_EVENT)
		failure.reason = IPC_REASON_QP_MODIFIED;
	if (failure.reason == IPC_REASON_QP_MODIFIED)
		failure.flags |= IPC_FAILURE_NOTE;
	/* Without flushed WRs the report would add nothing to that of the WR. */
	if ((failure.reason == IPC_REASON_QP_MODIFIED || failure.reason == IPC_REASON_QP_WR) &&
	    !failure.flushed_sends && !failure.flushed_receives)
		return;
	if (qp->transport_qp && qp->transport->describe)
		qp->transport->describe(qp, NULL, &failure);
	if (!qp->failure_id)
		qp->failure_id = failure.id;
	failure_send(engine, &failure);
}

void failure_flushed(struct qp *qp, uint32_t sends, uint32_t receives)
{
	struct ipc_failure failure;
	uint32_t before = qp->flushed_sends + qp->flushed_receives;
	uint32_t now = before + sends + receives;
	struct engine *engine;

	qp_assert_locked(qp);
	qp->flushed_sends += sends;
	qp->flushed_receives += receives;
	/* Reported at powers of two, with the same id, so that the number of reports is small. */
	if (!now || (before && 32 - __builtin_clz(before) == 32 - __builtin_clz(now)))
		return;
	engine = failure_begin(qp, IPC_FAILURE_QP, &failure);
	if (!engine)
		return;
	if (qp->flushed_id)
		failure.flags |= IPC_FAILURE_UPDATES;
	else
		qp->flushed_id = failure.id;
	failure.id = qp->flushed_id;
	failure.flags |= IPC_FAILURE_NOTE;
	failure.reason = IPC_REASON_QP_POSTED_IN_ERR;
	failure.follows = qp->failure_id;
	failure.flushed_sends = qp->flushed_sends;
	failure.flushed_receives = qp->flushed_receives;
	failure_send(engine, &failure);
}
