/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_LOCK_H
#define USRDMA_CORE_QP_LOCK_H

#include "core/engine.h"
#include "core/objects.h"

/*
 * The lock of the data path of one QP (core/shard.h). A QP of shard 0, or that another transport than local carries, needs
 * engine.lock; a QP of another shard that is connected to a process of this host needs the lock of its shard. Before such a
 * QP is connected, all locks.
 */
static inline void qp_lock_as(struct qp *qp, enum qp_lock kind)
{
	struct engine *engine = qp->context->engine;

	if (kind == QP_LOCK_BASE)
		engine_lock_base(engine);
	else if (kind == QP_LOCK_ALL)
		engine_lock(engine);
	else
		biased_lock_acquire(&engine->shards.each[qp->shard].lock);
}

static inline void qp_unlock(struct qp *qp, enum qp_lock kind)
{
	struct engine *engine = qp->context->engine;

	if (kind == QP_LOCK_BASE) {
		engine_unlock_base(engine);
	} else if (kind == QP_LOCK_ALL) {
		engine_unlock(engine);
	} else {
		shard_used(&engine->shards.each[qp->shard]);
		biased_lock_release(&engine->shards.each[qp->shard].lock);
	}
}

/* Returns what qp_unlock() must be given: the kind of lock can change while the thread waits for it. */
static inline enum qp_lock qp_lock(struct qp *qp)
{
	enum qp_lock kind = atomic_load_explicit(&qp->lock, memory_order_relaxed), now;

	for (;; kind = now) {
		qp_lock_as(qp, kind);
		now = atomic_load_explicit(&qp->lock, memory_order_relaxed);
		if (__builtin_expect(now == kind, 1))
			return kind;
		qp_unlock(qp, kind);
	}
}

#endif
