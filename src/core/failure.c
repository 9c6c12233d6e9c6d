/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/failure.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault_fired.h"
#include "base/util.h"
#include "core/engine.h"
#include "core/lock_check.h"
#include "core/mr.h"
#include "core/mw.h"
#include "core/opcode.h"
#include "core/qp.h"
#include "core/sge.h"
#include "core/transport.h"
#include "core/wq.h"
#include "ipc/segment.h"

#define SEND_RETRY_NS	   (10 * CLOCK_NS_PER_MS)
#define NO_EVENT	   UINT32_MAX
#define RNR_UNKNOWN	   255
#define FAILURE_NAME_BYTES 16

static uint64_t failure_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void failure_open(struct failure_reports *reports)
{
	reports->last_id = failure_wall_ns();
	reports->tokens = FAILURE_BURST;
	reports->refill_ns = clock_now_ns();
	reports->is_open = true;
}

/* Token bucket: whether one more report may be sent now. */
static bool is_within_rate(struct failure_reports *reports)
{
	const uint64_t interval_ns = CLOCK_NS_PER_S / FAILURE_RATE_PER_S;
	uint64_t now_ns = clock_now_ns();
	uint64_t more = (now_ns - reports->refill_ns) / interval_ns;

	if (more) {
		reports->refill_ns += more * interval_ns;
		reports->tokens = more > FAILURE_BURST - reports->tokens ?
					  FAILURE_BURST :
					  reports->tokens + (uint32_t)more;
	}
	if (!reports->tokens)
		return false;
	reports->tokens--;
	return true;
}

/* Sends the pending reports. false: some are left. */
static bool failure_send_pending(struct engine *engine)
{
	struct failure_kept *kept = &engine->failures.kept;
	struct ipc_failure *next;

	while ((next = failure_kept_pending(kept))) {
		int error = engine_try_send_request(engine, next, sizeof(*next));

		if (error == -EAGAIN || error == -ENOMEM || error == -ENOBUFS)
			return false;
		failure_kept_sent(kept);
	}
	return true;
}

static void failure_arm(struct engine *engine, uint64_t now_ns)
{
	timer_add(&engine->timers, &engine->failures.timer, now_ns + SEND_RETRY_NS);
	engine_timer_added(engine);
}

static void failure_send_later(struct timer *timer, uint64_t now_ns)
{
	struct engine *engine = container_of(timer, struct engine, failures.timer);

	if (!failure_send_pending(engine))
		failure_arm(engine, now_ns);
}

/* Names the rule that may have caused the failure. */
static void name_fault(struct ipc_failure *failure)
{
	struct fault_fired fired;

	if (fault_fired_for_qp(failure->qpn, &fired))
		failure->fault_rule = fault_fired_code(&fired, &failure->fault_age_ms);
}

static void send_or_store(struct engine *engine, struct ipc_failure *failure)
{
	struct failure_reports *reports = &engine->failures;

	if (!is_within_rate(reports) || failure_kept_is_full(&reports->kept)) {
		reports->dropped++;
		return;
	}
	failure->hdr.type = IPC_FAILURE;
	failure->time_ns = failure_wall_ns();
	name_fault(failure);
	failure->dropped = reports->dropped;
	reports->dropped = 0;
	failure_kept_add(&reports->kept, failure);
	if (failure_send_pending(engine) || reports->timer.is_pending)
		return;
	if (!reports->has_timer)
		timer_init(&reports->timer, failure_send_later);
	reports->has_timer = true;
	failure_arm(engine, clock_now_ns());
}

void failure_send(struct engine *engine, struct ipc_failure *failure)
{
	engine_lock_base(engine);
	send_or_store(engine, failure);
	engine_unlock_base(engine);
}

static void failure_copy_name(char to[FAILURE_NAME_BYTES], const char *name)
{
	size_t bytes = strnlen(name, FAILURE_NAME_BYTES - 1);

	memcpy(to, name, bytes);
	to[bytes] = '\0';
}

static bool failure_can_report(const struct engine *engine)
{
	return engine && engine->failures.is_open && !engine->is_orphan && !engine->is_fatal;
}

/* The fields that every report has. */
static void failure_identify(struct ipc_failure *failure, const struct context *context)
{
	engine_lock_base(context->engine);
	failure->id = ++context->engine->failures.last_id;
	engine_unlock_base(context->engine);
	failure->event = NO_EVENT;
	failure->min_rnr_timer = RNR_UNKNOWN;
	failure_copy_name(failure->program, program_invocation_short_name);
	/*
	 * The internal context of an XRC executor (roce/xrc_forward_executor.c) has no public
	 * device.
	 */
	if (context->pub.context.device)
		failure_copy_name(failure->device, context->pub.context.device->name);
}

struct engine *failure_begin(const struct qp *qp, enum ipc_failure_kind kind,
			     struct ipc_failure *failure)
{
	struct engine *engine = qp->context ? qp->context->engine : NULL;

	qp_assert_locked(qp);
	if (!failure_can_report(engine))
		return NULL;
	*failure = (struct ipc_failure){
		.kind = kind,
		.qpn = qp->qpn,
		.qp_type = qp->type,
		.peer_qpn = qp->attr.dest_qp_num,
		.timeout = qp->attr.timeout,
		.retry_cnt = qp->attr.retry_cnt,
		.rnr_retry = qp->attr.rnr_retry,
		.qp_access = qp->attr.qp_access_flags,
	};
	if (qp->is_of_cm)
		failure->flags |= IPC_FAILURE_IS_OF_CM;
	memcpy(failure->peer_gid, &qp->attr.ah_attr.grh.dgid, sizeof(failure->peer_gid));
	failure_identify(failure, qp->context);
	return engine;
}

struct engine *failure_begin_context(const struct context *context, enum ipc_failure_kind kind,
				     struct ipc_failure *failure)
{
	if (!failure_can_report(context->engine))
		return NULL;
	failure->kind = kind;
	failure_identify(failure, context);
	return context->engine;
}

void failure_call(struct engine *engine, struct ipc_failure *failure, const char *call, int error)
{
	size_t bytes = strnlen(call, sizeof(failure->call) - 1);

	memcpy(failure->call, call, bytes);
	failure->error = -error;
	failure_send(engine, failure);
}

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
