/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_COMP_CNTR_H
#define USRDMA_CORE_QUEUE_COMP_CNTR_H

#include "core/engine/lock_check.h"
#include "core/object/objects.h"

#define MAX_COMP_CNTRS 65536u

/*
 * A completion counter: counts completed and failed operations of the QPs it is attached to. Owned
 * by the application; freed by ibv_destroy_comp_cntr(). The values are atomic: completions add
 * under the lock of the QP, the application reads and writes them without a lock. `users` is
 * guarded by engine.lock.
 */
struct comp_cntr {
	struct ibv_comp_cntr pub;
	struct context *context;
	bool counts_bytes;  /* applies to `done`; `failed` always counts work requests */
	unsigned int users; /* number of QP operations it is attached to */
	uint64_t done;
	uint64_t failed;
};

/* Adds to the counter that is attached to the QP for `op`. The slow path of comp_cntr_count(). */
void comp_cntr_add(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op, bool is_success,
		   uint32_t wrs, uint64_t bytes);

/*
 * Counts completed operations of the QP, `bytes` in all, or failed ones. The lock of the QP held.
 */
static inline void comp_cntr_count_many(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op,
					bool is_success, uint32_t wrs, uint64_t bytes)
{
	qp_assert_locked(qp);
	if (__builtin_expect(qp->comp_cntr_ops & op, 0))
		comp_cntr_add(qp, op, is_success, wrs, bytes);
}

static inline void comp_cntr_count(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op,
				   bool is_success, uint64_t bytes)
{
	comp_cntr_count_many(qp, op, is_success, 1, bytes);
}

/*
 * Whether an operation of the peer is counted; then the one-sided path is not used. The lock of the
 * QP held.
 */
static inline bool comp_cntr_counts_remote(const struct qp *qp)
{
	qp_assert_locked(qp);
	return qp->comp_cntr_ops & (IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ |
				    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
}

/* The QP is destroyed: detaches its counters. All locks held. */
void comp_cntr_detach_all(struct qp *qp);

#endif
