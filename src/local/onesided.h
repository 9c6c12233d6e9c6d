/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_ONESIDED_H
#define USRDMA_LOCAL_ONESIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/object/vendor_err.h"
#include "core/queue/execute.h"

struct local_qp;
struct send_wqe;

/*
 * The requester's half of one-sided access: executes the WQE at sq.nxt in the peer's memory
 * (docs/memory-safety.md).
 */

enum onesided_result {
	ONESIDED_DONE,	      /* executed or refused: see *result */
	ONESIDED_MORE,	      /* the budget is used up; wqe.done_bytes were moved */
	ONESIDED_DECLINED,    /* the peer's engine must execute it: send it through the FIFO */
	ONESIDED_NOT_READY,   /* the peer's QP cannot receive */
	ONESIDED_LOCAL_FAULT, /* the local SGEs are invalid: see *vendor_err */
	ONESIDED_CUT_OFF,     /* the peer's process has ended or has revoked the admission */
};

/* Whether this process may execute the WQE at sq.nxt. */
bool onesided_is_permitted(const struct local_qp *lqp, const struct send_wqe *wqe);
enum onesided_result onesided_move(struct local_qp *lqp, struct send_wqe *wqe,
				   uint32_t *budget_bytes, enum access_result *result,
				   enum vendor_err *vendor_err);

/*
 * Executes the atomic operation at sq.nxt, if the peer's memory is mapped. ONESIDED_DECLINED also
 * for operations that the peer will refuse: its engine examines and reports them.
 */
enum onesided_result onesided_atomic(struct local_qp *lqp, struct send_wqe *wqe,
				     enum vendor_err *vendor_err);

#endif
