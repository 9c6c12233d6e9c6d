/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_H
#define USRDMA_CORE_QP_H

#include "core/objects.h"

/* The largest code of min_rnr_timer. */
#define RNR_TIMER_MAX 31

/*
 * The QP went wrong by itself (a failed WR, a peer's fault): enters ERR, halts its transport, flushes both queues in
 * order, and reports `event` unless it is 0. engine.lock held. Harmless on a QP that is in ERR or RESET.
 */
#define QP_NO_EVENT ((enum ibv_event_type) - 1)
void qp_enter_error(struct qp *qp, enum ibv_event_type event);

/*
 * A completion of that QP found its CQ full: it enters ERR with IBV_EVENT_QP_FATAL. Not before the call that is under way
 * is over, since whoever completes something is in the midst of the QP's queues. engine.lock held.
 */
void qp_lost_completion(struct engine *engine, uint32_t qpn);

/* Has the transports show the QP's state to those who may look: peers, `usrdma status`. engine.lock held. */
void qp_publish(struct qp *qp);

/* First message on a QP in RTR: IBV_EVENT_COMM_EST, once. engine.lock held. */
void qp_comm_established(struct qp *qp);

/* A local QP by number, or NULL. engine.lock held. */
struct qp *qp_find(struct engine *engine, uint32_t qpn);

/*
 * A send of the QP failed by itself, its completion is in: RC enters ERR, as above; UC and UD enter SQE, where the send
 * queue is flushed and receiving goes on (IBA 1.x §10.3.1.6). engine.lock held.
 */
void qp_enter_send_error(struct qp *qp);

/* The send queue moved on: in SQD, when all that was handed over is done, IBV_EVENT_SQ_DRAINED if it was asked for.
 * engine.lock held. */
void qp_check_drained(struct qp *qp);

/* A QP goes back to where create left it, its queues empty and its completions gone. engine.lock held. */
void qp_reset(struct qp *qp);

/* A QP without names goes (xrc_far.h). engine.lock held. */
void qp_end_forsaken(struct qp *qp);

/* What ibv_query_qp() answers of it. engine.lock held. */
void qp_fill_attr(const struct qp *qp, struct ibv_qp_attr *attr);

/* ibv_modify_qp() by a name in another process; 0 or -errno. engine.lock held. */
int qp_modify_of_name(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
	__attribute__((warn_unused_result));

/* For the extensible calls: makes the QP that init_attr describes and writes its caps back. */
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init_attr);

/* Fills in the ibv_wr_* calls of a QP that was created with send_ops_flags: qp_ex.c. */
void qp_init_ex(struct qp *qp);

/* The send_ops_flags that QPs of a type can have. */
uint64_t qp_send_ops(enum ibv_qp_type type);

#endif
