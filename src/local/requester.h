/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_REQUESTER_H
#define USRDMA_LOCAL_REQUESTER_H

#include "local/local.h"

/* What the requester and its completer share. engine.lock held throughout. */

static inline bool requester_is_reliable(const struct local_qp *lqp)
{
	return lqp->qp->type == IBV_QPT_RC;
}

/* The oldest WQE is over: done, or failed, which ends the QP and flushes the rest. */
void requester_succeed(struct local_qp *lqp);
void requester_fail(struct local_qp *lqp, enum ibv_wc_status status, enum vendor_err vendor_err);

/* The peer refused it: the status and reason that the requester's completion gives for a responder's verdict. */
void requester_fail_refused(struct local_qp *lqp, enum access_result result);

/* All that was sent and not answered is to be sent again, after the RNR timer, or after the ACK timeout. */
void requester_rewind(struct local_qp *lqp);
void requester_retry_rnr(struct local_qp *lqp, uint32_t timer_code);
void requester_retry_not_ready(struct local_qp *lqp);

#endif
