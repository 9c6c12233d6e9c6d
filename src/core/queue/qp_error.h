/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_QP_ERROR_H
#define USRDMA_CORE_QUEUE_QP_ERROR_H

#include "core/object/objects.h"

/* Transitions of a QP that an error or a received message causes, and not ibv_modify_qp(). */

#define QP_NO_EVENT ((enum ibv_event_type) - 1)

/*
 * The QP failed without a call of the application (a failed WR, an error of the peer): enters ERR,
 * halts its transport, flushes both queues in order, and reports `event` unless it is QP_NO_EVENT.
 * No effect in ERR or RESET. The lock of the QP held; takes engine.lock.
 */
void qp_enter_error(struct qp *qp, enum ibv_event_type event);

/*
 * A completion of the QP was lost in a full CQ: the QP enters ERR with IBV_EVENT_QP_FATAL. This is
 * deferred to a timer, because the caller is processing the QP's queues. engine.lock held.
 */
void qp_lost_completion(struct engine *engine, uint32_t qpn);

/* qp_enter_error(), deferred to a timer for the same reason. engine.lock held. */
void qp_error_later(struct qp *qp, enum ibv_event_type event);

/* Initializes the timer of qp_error_later(). */
void qp_error_init(struct qp *qp);

/*
 * First message on a QP in RTR: reports IBV_EVENT_COMM_EST, once. The lock of the QP held; takes
 * engine.lock.
 */
void qp_comm_established(struct qp *qp);

/*
 * A send of the QP failed locally; its completion was pushed. RC enters ERR, as above. UC and UD
 * enter SQE: the send queue is flushed and receiving continues (IBA 1.x §10.3.1.6). The lock of the
 * QP held; takes engine.lock.
 */
void qp_enter_send_error(struct qp *qp);

/*
 * A send WQE completed. In SQD, reports IBV_EVENT_SQ_DRAINED if requested and all outstanding WQEs
 * are complete. The lock of the QP held; takes engine.lock.
 */
void qp_check_drained(struct qp *qp);

#endif
