/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_WR_BATCH_H
#define USRDMA_CORE_QUEUE_WR_BATCH_H

#include <stdint.h>

#include "core/object/objects.h"

/*
 * The batch of a QP between ibv_wr_start() and ibv_wr_complete() or ibv_wr_abort(). The library has
 * no lock in between: the thread may wait for another thread that makes any call. Its WQEs are
 * stored behind sq.head, so that no other thread may post to the QP until the batch ends. After
 * RESET the batch is stale, and cannot be posted.
 */

/*
 * Opens a batch. Waits for the end of another thread's. false: the calling thread has one already.
 */
bool wr_batch_open(struct qp *qp);

/* Ends the batch; the lock of the QP held. */
void wr_batch_end(struct qp *qp);

/* The QP is reset; the lock of the QP held. */
void wr_batch_make_stale(struct qp *qp);

/* Releases what the WQEs of the batch refer to; the lock of the QP held. */
void wr_batch_drop(struct qp *qp);

/*
 * The QP is destroyed, perhaps with an open batch of the calling thread. The lock of the QP held.
 */
void wr_batch_forget(struct qp *qp);

/* The WQE of a number in the batch. */
struct send_wqe *wr_batch_wqe(const struct qp *qp, uint32_t number);

/*
 * The WQE after the last one of the batch, or NULL: no batch is open, or the queue is full. Does
 * not count it.
 */
struct send_wqe *wr_batch_next_wqe(struct qp *qp);

/*
 * Whether another WQE may be posted now; the lock of the QP held. 0; -EIO: child of a fork();
 * -EINVAL: the calling thread has an open batch on the QP; -EAGAIN: another thread has one. In the
 * last case the caller releases its locks, calls wr_batch_wait(qp, *ticket), and begins again.
 */
int wr_batch_blocks(struct qp *qp, uint32_t *ticket) __attribute__((warn_unused_result));

/* Waits until the batch of another thread ends. Called without engine.lock. */
void wr_batch_wait(struct qp *qp, uint32_t ticket);

/*
 * wr_batch_blocks() with the lock of the QP held, which the function releases while it waits: 0,
 * -EIO or -EINVAL.
 */
int wr_batch_await(struct qp *qp, enum qp_lock *lock) __attribute__((warn_unused_result));

#endif
