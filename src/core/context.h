/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_CONTEXT_H
#define USRDMA_CORE_CONTEXT_H

#include <errno.h>

#include "core/engine.h"
#include "core/lock_check.h"
#include "core/objects.h"

/*
 * Whether objects may be created and changed: 0, or -EIO in a fork()ed child and after the daemon
 * connection was lost. Destroying is always permitted. engine.lock or the lock of a shard held:
 * is_fatal changes with all locks held.
 */
static inline int engine_usable(const struct engine *engine)
{
	engine_assert_any_locked(engine);
	return engine->is_orphan || engine->is_fatal ? -EIO : 0;
}

/*
 * An object of the context is created or destroyed. The last one frees a context that was closed.
 * engine.lock held.
 */
void context_get(struct context *context);
void context_put(struct context *context);

/*
 * Whether objects of one context can be imported into the other: one was imported from the other by
 * ibv_import_device().
 */
bool context_is_kin(const struct context *a, const struct context *b);

/* Sets the operations that programs call through the context: ops.c. */
void context_init_ops(struct verbs_context *verbs);

#endif
