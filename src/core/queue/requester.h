/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_REQUESTER_H
#define USRDMA_CORE_QUEUE_REQUESTER_H

#include "core/object/objects.h"
#include "core/object/vendor_err.h"

/*
 * The transport-independent part of a requester: which WQE of the send queue is processed next, the
 * checks before it is sent, the execution of local operations, and failures. The transport advances
 * nxt when it has sent a WQE. The lock of the QP guards the queue.
 */

/* What the transport does with the WQE at nxt. */
enum requester_next {
	REQUESTER_NEXT_SEND, /* send it */
	/* a local operation that was executed now or before; nxt was advanced */
	REQUESTER_NEXT_EXECUTED,
	REQUESTER_NEXT_WAIT, /* wait until outstanding requests are complete (IBV_SEND_FENCE) */
	REQUESTER_NEXT_FAIL, /* fail it with the error, after preceding WQEs are complete */
};

/* The completion of a WQE that fails. */
struct requester_error {
	enum ibv_wc_status status;
	enum vendor_err vendor_err;
};

/*
 * Checks the WQE at nxt. requests_out: outstanding WQEs that have a response of their own. A local
 * operation is executed once, also if preceding WQEs are sent again; it is complete (SEND_WQE_DONE)
 * when all preceding WQEs are. The lock of the QP held.
 */
enum requester_next requester_prepare(struct qp *qp, uint32_t requests_out,
				      struct requester_error *error);

/*
 * Completes the oldest WQE with the error. The other WQEs are flushed, and the QP enters ERR (UC,
 * UD: SQE). The lock of the QP held.
 */
void requester_fail(struct qp *qp, enum ibv_wc_status status, enum vendor_err vendor_err);

/*
 * The time without a response after which a request is retried; 0: unlimited (IBA 1.x §9.9.2.1.1).
 */
uint64_t requester_ack_timeout_ns(const struct qp *qp);

/*
 * The end of the WQEs that may be sent. In SQD only WQEs that were started are finished (IBA 1.x
 * §10.3.1.5).
 */
static inline uint32_t requester_sendable_end(const struct qp *qp)
{
	if (__builtin_expect(qp->state == IBV_QPS_RTS, 1))
		return qp->sq.head;
	return qp->state == IBV_QPS_SQD ? qp->sq.begun : qp->sq.nxt;
}

/* Whether no WQE before nxt is outstanding. The WQE at nxt may fail only then. */
static inline bool requester_is_oldest(const struct send_queue *sq)
{
	return sq->una == sq->nxt;
}

/* The transport starts to send the WQE at nxt: SQD waits for its completion. */
static inline void requester_begin(struct send_queue *sq)
{
	if ((int32_t)(sq->begun - sq->nxt) <= 0)
		sq->begun = sq->nxt + 1;
}

/*
 * Limit of outstanding requests that have a response of their own (initiator depth). At least 1, as
 * on NICs; with 0 such a WQE would wait indefinitely.
 */
static inline uint32_t requester_depth(const struct qp *qp)
{
	return qp->attr.max_rd_atomic ? qp->attr.max_rd_atomic : 1;
}

#endif
