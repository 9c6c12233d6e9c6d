/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_QP_LOCK_H
#define USRDMA_CORE_ENGINE_QP_LOCK_H

#include "core/engine/engine.h"
#include "core/object/objects.h"

/*
 * The lock of the data path of one QP (core/engine/shard.h). A QP of shard 0, or that another
 * transport than local carries, needs engine.lock; a QP of another shard that is connected to a
 * process of this host needs the lock of its shard. Before such a QP is connected, it needs all
 * locks.
 */

/* The slow paths of the functions below. */
enum qp_lock qp_lock_of_shard(struct qp *qp);
void qp_unlock_of_shard(struct qp *qp, enum qp_lock kind);

/*
 * Returns what qp_unlock() must be given: the kind of lock can change while the thread waits for
 * it.
 */
static inline enum qp_lock qp_lock(struct qp *qp)
{
	if (__builtin_expect(qp->shard != 0, 0))
		return qp_lock_of_shard(qp);
	engine_lock_base(qp->context->engine);
	return QP_LOCK_BASE;
}

static inline void qp_unlock(struct qp *qp, enum qp_lock kind)
{
	if (__builtin_expect(kind != QP_LOCK_BASE, 0))
		qp_unlock_of_shard(qp, kind);
	else
		engine_unlock_base(qp->context->engine);
}

#endif
