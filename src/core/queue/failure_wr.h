/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_FAILURE_WR_H
#define USRDMA_CORE_QUEUE_FAILURE_WR_H

#include "base/probe.h"
#include "core/object/objects.h"
#include "core/report/failure.h"

/* Reports failed WRs and failed QPs. */

struct inbound;

/*
 * A send WQE of the QP completes with an error of its own. It becomes the cause of what follows on
 * this QP. The lock of the QP held.
 */
PROBE_COLD void failure_wr(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status,
			   enum vendor_err vendor_err);

/* As above, for a receive. The lock of the QP held. */
PROBE_COLD void failure_recv(struct qp *qp, const struct inbound *in, const struct ibv_wc *wc);

/*
 * The QP enters ERR or SQE. `event`: as in qp_enter_error(). The WRs of both queues will be
 * flushed. The lock of the QP held.
 */
PROBE_COLD void failure_qp(struct qp *qp, enum ibv_event_type event);

/* Posted WRs are flushed because the QP is in ERR. The lock of the QP held. */
PROBE_COLD void failure_flushed(struct qp *qp, uint32_t sends, uint32_t receives);

/* Describes the last request of a peer that a check refused, and clears it. engine.lock held. */
void failure_describe_refusal(struct ipc_failure *failure, struct engine *engine);

/*
 * A check of a peer's request failed. If the QP enters ERR, failure_qp() reports it. The lock of
 * the QP held.
 */
PROBE_COLD void failure_refused(struct qp *qp, const struct failure_refusal *refusal);

#endif
