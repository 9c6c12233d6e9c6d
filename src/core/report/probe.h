/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_PROBE_H
#define USRDMA_CORE_REPORT_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "core/engine/lock_check.h"
#include "core/object/objects.h"
#include "core/report/usage.h"

/* Trace and fault points of the verbs: WRs, completions and QP states. */

/* Out-of-line parts of the points. */
PROBE_COLD void probe_wr_accepted(const struct qp *qp, struct send_wqe *wqe);
PROBE_COLD void emit_recv_posted(uint32_t qpn, const struct ibv_recv_wr *wr);
PROBE_COLD void emit_cqe(const struct ibv_wc *wc);
PROBE_COLD void emit_qp_state(const struct qp *qp, enum ibv_qp_state to);
PROBE_COLD void emit_async_event(const struct context *context, uint32_t qpn,
				 const struct ibv_async_event *pub);

/*
 * Emits the path of each connected QP, for a trace that begins while the process runs. engine.lock
 * held.
 */
PROBE_COLD void probe_emit_paths(struct engine *engine);

/*
 * Appends the next WQE to the send queue, when its WR is accepted: the fault point wr.execute and
 * the trace point "wr posted". requester_prepare() returns the injected status when the WQE is
 * executed. Every WR passes here once.
 */
static inline void sq_append(struct qp *qp, struct send_wqe *wqe)
{
	qp->sq.head++;
	qp->usage->posted++;
	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		probe_wr_accepted(qp, wqe);
}

/* A receive WR was posted; qpn 0: to an SRQ. */
static inline void trace_recv_posted(uint32_t qpn, const struct ibv_recv_wr *wr)
{
	if (trace_is_on())
		emit_recv_posted(qpn, wr);
}

static inline void trace_cqe(const struct ibv_wc *wc)
{
	if (trace_is_on())
		emit_cqe(wc);
}

/* qpn 0: the event does not concern a QP. */
static inline void trace_async_event(const struct context *context, uint32_t qpn,
				     const struct ibv_async_event *pub)
{
	if (trace_is_on())
		emit_async_event(context, qpn, pub);
}

/*
 * The only function that changes the state of an existing QP. engine.lock and the lock of the QP
 * held.
 */
static inline void qp_set_state(struct qp *qp, enum ibv_qp_state to)
{
	engine_assert_locked(qp->context->engine);
	qp_assert_locked(qp);
	if (trace_is_on())
		emit_qp_state(qp, to);
	qp->state = to;
}

#endif
