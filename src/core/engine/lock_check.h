/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_LOCK_CHECK_H
#define USRDMA_CORE_ENGINE_LOCK_CHECK_H

#include "base/checks.h"

/*
 * Checks of the locks of the engine, the shards, the QPs and the CQs (ARCHITECTURE.md, Locks). A
 * function whose comment states a lock begins with one of the macros.
 */

struct cq;
struct engine;
struct qp;

/* engine.lock is held. */
bool engine_is_locked(const struct engine *engine);
/* engine.lock and the locks of all shards are held (engine_lock()). */
bool engine_is_all_locked(const struct engine *engine);
/*
 * All locks are held, once: the next engine_unlock() releases them, so that the caller can wait for
 * other threads.
 */
bool engine_is_locked_once(const struct engine *engine);
/* engine.lock or the lock of one shard is held, as on the data path of any QP. */
bool engine_is_any_locked(const struct engine *engine);
/* The lock of the shard is held; that of shard 0 is engine.lock. */
bool shard_is_locked(const struct engine *engine, uint32_t shard);
/* The lock of the data path of the QP is held (qp_lock()), or all locks. */
bool qp_is_locked(const struct qp *qp);
bool cq_is_locked(const struct cq *cq);

#define engine_assert_locked(engine) \
	CHECK_RULE(engine_is_locked(engine), "engine.lock must be held")
#define engine_assert_all_locked(engine) \
	CHECK_RULE(engine_is_all_locked(engine), "engine.lock and all shard.lock must be held")
#define engine_assert_once_locked(engine)         \
	CHECK_RULE(engine_is_locked_once(engine), \
		   "engine.lock and all shard.lock must be held once")
#define engine_assert_any_locked(engine) \
	CHECK_RULE(engine_is_any_locked(engine), "engine.lock or a shard.lock must be held")
#define engine_assert_unlocked(engine) \
	CHECK_RULE(!engine_is_any_locked(engine), "engine.lock and shard.lock must not be held")
#define shard_assert_locked(engine, shard) \
	CHECK_RULE(shard_is_locked(engine, shard), "the lock of the shard must be held")
#define qp_assert_locked(qp)   CHECK_RULE(qp_is_locked(qp), "the lock of the QP must be held")
#define cq_assert_locked(cq)   CHECK_RULE(cq_is_locked(cq), "cq.lock must be held")
#define cq_assert_unlocked(cq) CHECK_RULE(!cq_is_locked(cq), "cq.lock must not be held")

#endif
