/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/lock_check.h"

#include "core/engine/engine.h"
#include "core/object/objects.h"

bool engine_is_locked(const struct engine *engine)
{
	return biased_lock_is_held(&engine->lock);
}

bool engine_is_all_locked(const struct engine *engine)
{
	return engine_is_locked(engine) && engine->shards.all_depth;
}

bool engine_is_locked_once(const struct engine *engine)
{
	return engine_is_locked(engine) && engine->shards.all_depth == 1 &&
	       !biased_lock_is_nested(&engine->lock);
}

bool shard_is_locked(const struct engine *engine, uint32_t shard)
{
	if (!shard)
		return engine_is_locked(engine);
	/* Before the shards are open, another thread may be initialising their locks. */
	return atomic_load_explicit(&engine->shards.are_open, memory_order_acquire) &&
	       biased_lock_is_held(&engine->shards.each[shard].lock);
}

bool engine_is_any_locked(const struct engine *engine)
{
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (shard_is_locked(engine, i))
			return true;
	}
	return false;
}

bool qp_is_locked(const struct qp *qp)
{
	const struct engine *engine = qp->context->engine;

	if (engine_is_all_locked(engine))
		return true;
	switch (atomic_load_explicit(&qp->lock, memory_order_relaxed)) {
	case QP_LOCK_SHARD:
		return shard_is_locked(engine, qp->shard);
	case QP_LOCK_BASE:
		return engine_is_locked(engine);
	case QP_LOCK_ALL:
		break;
	}
	return false;
}

bool cq_is_locked(const struct cq *cq)
{
	return biased_lock_is_held(&cq->lock);
}
