/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_QP_H
#define USRDMA_CORE_QP_QP_H

#include <stddef.h>

#include "core/object/objects.h"

/*
 * Applications built before rdma-core v13 have a struct ibv_qp_attr that ends before rate_limit.
 * Only raw packet QPs have this attribute, so it is neither read nor written.
 */
#define QP_ATTR_COMPAT_BYTES offsetof(struct ibv_qp_attr, rate_limit)

/*
 * Returns 0 when no peer accesses memory through the QP on the one-sided path any more. -EBUSY: a
 * peer may still do so; the QP is unchanged. All locks held, once: may release them.
 */
int qp_revoke(struct qp *qp) __attribute__((warn_unused_result));

/*
 * Publishes the QP's state through the transports, for peers and `usrdma status`. engine.lock and
 * the lock of the QP held.
 */
void qp_publish(struct qp *qp);

/* The QP does not wait for a receive WR of its SRQ any more. */
void qp_unstarve(struct qp *qp);

/*
 * Sets the lock of the QP's data path (core/engine/qp_lock.h), and lets polls of its CQs run its
 * shard.
 */
void qp_set_lock(struct qp *qp, enum qp_lock lock);

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
