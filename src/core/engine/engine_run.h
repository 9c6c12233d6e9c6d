/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_RUN_H
#define USRDMA_CORE_ENGINE_ENGINE_RUN_H

#include <stdatomic.h>

#include "core/engine/engine.h"

/* For engine_run.c and engine_thread.c: when the application is considered polling. */

/*
 * Number of polls of an empty CQ after which the application is considered spinning: doorbells go
 * off. The number is doubled each time the application then stops polling within LONG_NS, up to
 * SPIN_SHIFT_MAX times. Such an application polls for the completion of its RDMA WRITE, and then
 * polls its memory for the peer's WRITE, which would be executed at the next tick.
 */
#define SPIN_POLLS     256u
#define SPIN_SHIFT_MAX 6u
#define LONG_NS	       8000000u
/* A spinning application runs the timers once in TIMER_POLLS polls. */
#define TIMER_POLLS 64

static inline unsigned int spin_shift(struct engine *engine)
{
	return atomic_load_explicit(&engine->polling.spin_shift, memory_order_relaxed);
}

/* The end of a turn of the engine thread: what it has to wait for. engine.lock held. */
enum progress_wait engine_thread_rest(struct engine *engine);

#endif
