/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_H
#define USRDMA_CORE_QP_H

#include <stddef.h>

#include "core/objects.h"

/* The largest encoding of min_rnr_timer. */
#define RNR_TIMER_MAX 31

/*
 * Applications built before rdma-core v13 have a struct ibv_qp_attr that ends before rate_limit.
 * Only raw packet QPs have this attribute, so it is neither read nor written.
 */
#define QP_ATTR_COMPAT_BYTES offsetof(struct ibv_qp_attr, rate_limit)

#define QP_NO_EVENT ((enum ibv_event_type) - 1)

/*
 * The QP failed without a call of the application (a failed WR, an error of the peer): enters ERR,
 * halts its transport, flushes both queues in order, and reports `event` unless it is QP_NO_EVENT.
 * No effect in ERR or RESET. The lock of the QP held; takes engine.lock.
 */
void qp_enter_error(struct qp *qp, enum ibv_event_type event);

/*
 * Returns 0 when no peer accesses memory through the QP on the one-sided path any more. -EBUSY: a
 * peer may still do so; the QP is unchanged. All locks held, once: may release them.
 */
int qp_revoke(struct qp *qp) __attribute__((warn_unused_result));

/*
 * A completion of the QP was lost in a full CQ: the QP enters ERR with IBV_EVENT_QP_FATAL. This is
 * deferred to a timer, because the caller is processing the QP's queues. engine.lock held.
 */
void qp_lost_completion(struct engine *engine, uint32_t qpn);

/* qp_enter_error(), deferred to a timer for the same reason. engine.lock held. */
void qp_error_later(struct qp *qp, enum ibv_event_type event);

/*
 * Publishes the QP's state through the transports, for peers and `usrdma status`. engine.lock and
 * the lock of the QP held.
 */
void qp_publish(struct qp *qp);

/* The QP does not wait for a receive WR of its SRQ any more. */
void qp_unstarve(struct qp *qp);

/* Initializes the timer of qp_error_later(). */
void qp_error_init(struct qp *qp);

/*
 * First message on a QP in RTR: reports IBV_EVENT_COMM_EST, once. The lock of the QP held; takes
 * engine.lock.
 */
void qp_comm_established(struct qp *qp);

/*
 * The QP of this process with that number, or NULL. engine.lock or the lock of a shard held: the
 * table changes with all locks held.
 */
struct qp *qp_find(struct engine *engine, uint32_t qpn);

/* Sets the lock of the QP's data path (qp_lock.h), and lets polls of its CQs run its shard. */
void qp_set_lock(struct qp *qp, enum qp_lock lock);

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

/*
 * Resets the QP to its state after creation: empty queues, no completions in its CQs. All locks
 * held.
 */
void qp_reset(struct qp *qp);

/* Frees the memory of a QP that is in no table. */
void qp_free(struct qp *qp);

/*
 * Changes the user counts of the QP's objects by 1 or -1. For XRC_RECV the only object is the xrcd
 * of the handle.
 */
void qp_count_parts(struct qp *qp, int by);

/* Destroys an orphaned QP (xrc_remote.h). All locks held. */
void qp_free_orphaned(struct qp *qp);

/* Fills in the attributes that ibv_query_qp() returns. The lock of the QP held. */
void qp_fill_attr(const struct qp *qp, struct ibv_qp_attr *attr);

/* ibv_modify_qp() through a handle in another process; 0 or -errno. All locks held. */
int qp_modify_of_handle(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
	__attribute__((warn_unused_result));

/* Creates the QP that init_attr describes and writes its capabilities back. */
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init_attr);

/* Sets the ibv_wr_* functions of a QP that was created with send_ops_flags: qp_ex.c. */
void qp_init_ex(struct qp *qp);

#endif
