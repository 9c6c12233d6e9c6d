/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_RUN_H
#define USRDMA_CORE_ENGINE_ENGINE_RUN_H

#include <stdatomic.h>

#include "core/engine/engine.h"

/* For engine_run.c and engine_thread.c. */

/* How many times the number of polls was doubled (core/engine/progress_limits.h). */
static inline unsigned int spin_shift(struct engine *engine)
{
	return atomic_load_explicit(&engine->polling.spin_shift, memory_order_relaxed);
}

/* The end of a turn of the engine thread: what it has to wait for. engine.lock held. */
enum progress_wait engine_thread_rest(struct engine *engine);

#endif
