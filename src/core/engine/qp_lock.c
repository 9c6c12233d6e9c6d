/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/qp_lock.h"

static void acquire(struct qp *qp, enum qp_lock kind)
{
	struct engine *engine = qp->context->engine;

	switch (kind) {
	case QP_LOCK_SHARD:
		biased_lock_acquire(&engine->shards.each[qp->shard].lock);
		break;
	case QP_LOCK_BASE:
		engine_lock_base(engine);
		break;
	case QP_LOCK_ALL:
		engine_lock(engine);
		break;
	}
}

void qp_unlock_of_shard(struct qp *qp, enum qp_lock kind)
{
	struct engine *engine = qp->context->engine;

	switch (kind) {
	case QP_LOCK_SHARD:
		shard_used(&engine->shards.each[qp->shard]);
		biased_lock_release(&engine->shards.each[qp->shard].lock);
		break;
	case QP_LOCK_BASE:
		engine_unlock_base(engine);
		break;
	case QP_LOCK_ALL:
		engine_unlock(engine);
		break;
	}
}

enum qp_lock qp_lock_of_shard(struct qp *qp)
{
	enum qp_lock kind = atomic_load_explicit(&qp->lock, memory_order_relaxed), now;

	for (;; kind = now) {
		acquire(qp, kind);
		now = atomic_load_explicit(&qp->lock, memory_order_relaxed);
		if (now == kind)
			return kind;
		qp_unlock_of_shard(qp, kind);
	}
}
