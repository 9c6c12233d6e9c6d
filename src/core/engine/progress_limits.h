/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_PROGRESS_LIMITS_H
#define USRDMA_CORE_ENGINE_PROGRESS_LIMITS_H

#include "base/spin.h"

/*
 * The times and numbers of the threads that make progress. docs/progress-states.md is generated
 * with them; core/engine/progress_state.h has the states.
 */

/* Period in which the engine thread checks whether the application still polls. */
#define TICK_MS 1
/* The period while polling.spin_shift is not 0. */
#define SHORT_TICK_NS 200000u
/* Maximum number of successive ticks without the lock, while the application polls. */
#define QUIET_TICKS 16
/* The same while direct wake-ups are on. */
#define WOKEN_TICKS 4
/*
 * Time for which the parked thread leaves a doorbell to the threads that serve. Shorter than usual
 * ACK timeouts.
 */
#define STANDBY_MS 4

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

/* Without a message for this time, direct wake-ups go off. One tick of the engine thread. */
#define REST_NS 1000000u

/*
 * A thread that spins alone spins for twice the time: without the spin, a message over RoCE costs
 * two wake-ups, first that of the engine thread, and so does the reply in the peer.
 */
#define ALONE_SPIN_NS (2 * SPIN_NS)

#endif
