/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/wr_batch.h"

#include <errno.h>

#include "base/futex.h"
#include "base/thread_id.h"
#include "core/device/ah.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_lock.h"
#include "core/queue/wq.h"

int wr_batch_blocks(struct qp *qp, uint32_t *ticket)
{
	struct wr_batch *batch = &qp->batch;

	qp_assert_locked(qp);
	if (!batch->owner)
		return 0;
	/* The thread of the parent that opened the batch does not exist in the child. */
	if (qp->context->engine->is_orphan)
		return -EIO;
	if (batch->owner == thread_id())
		return -EINVAL;
	batch->has_waiters = true;
	*ticket = atomic_load_explicit(&batch->ends, memory_order_relaxed);
	return -EAGAIN;
}

void wr_batch_wait(struct qp *qp, uint32_t ticket)
{
	futex_wait(&qp->batch.ends, ticket, 0);
}

int wr_batch_await(struct qp *qp, enum qp_lock *lock)
{
	uint32_t ticket;
	int ret;

	qp_assert_locked(qp);
	while ((ret = wr_batch_blocks(qp, &ticket)) == -EAGAIN) {
		qp_unlock(qp, *lock);
		wr_batch_wait(qp, ticket);
		*lock = qp_lock(qp);
	}
	return ret;
}

/* The number of WQEs that the batch may have now. It only grows until the batch ends. */
static uint32_t room_of(const struct qp *qp)
{
	return qp->batch.is_stale ? 0 : qp->sq.max_wr - (qp->sq.head - qp->sq.una);
}

bool wr_batch_open(struct qp *qp)
{
	struct wr_batch *batch = &qp->batch;
	enum qp_lock lock = qp_lock(qp);
	int ret = wr_batch_await(qp, &lock);

	/*
	 * The batch of the parent's thread is of no use in the child of a fork(), where wr_complete
	 * fails with EIO.
	 */
	if (ret != -EINVAL) {
		batch->owner = thread_id();
		batch->is_stale = false;
		batch->first = qp->sq.head;
		batch->room = room_of(qp);
		batch->error = 0;
		batch->count = 0;
	}
	batch->current = NULL;
	qp_unlock(qp, lock);
	return ret != -EINVAL;
}

void wr_batch_end(struct qp *qp)
{
	struct wr_batch *batch = &qp->batch;

	qp_assert_locked(qp);
	batch->owner = 0;
	batch->room = 0;
	batch->count = 0;
	batch->current = NULL;
	if (!batch->has_waiters)
		return;
	batch->has_waiters = false;
	atomic_fetch_add_explicit(&batch->ends, 1, memory_order_relaxed);
	futex_wake_all(&batch->ends);
}

void wr_batch_make_stale(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->batch.owner)
		qp->batch.is_stale = true;
}

void wr_batch_drop(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->type != IBV_QPT_UD)
		return;
	for (uint32_t i = 0; i < qp->batch.count; i++) {
		struct send_wqe *wqe = wr_batch_wqe(qp, i);

		if (wqe->ah)
			ah_put(wqe->ah);
	}
	qp->batch.count = 0;
}

void wr_batch_forget(struct qp *qp)
{
	qp_assert_locked(qp);
	if (qp->batch.owner && qp->batch.owner == thread_id())
		wr_batch_drop(qp);
}

struct send_wqe *wr_batch_wqe(const struct qp *qp, uint32_t number)
{
	return sq_wqe(&qp->sq, qp->batch.first + number);
}

struct send_wqe *wr_batch_next_wqe(struct qp *qp)
{
	struct wr_batch *batch = &qp->batch;

	if (batch->count == batch->room) {
		enum qp_lock lock = qp_lock(qp);

		/* Other threads may have polled completions since. */
		batch->room = batch->owner ? room_of(qp) : 0;
		qp_unlock(qp, lock);
		if (batch->count == batch->room)
			return NULL;
	}
	return wr_batch_wqe(qp, batch->count);
}
