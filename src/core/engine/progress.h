/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_PROGRESS_H
#define USRDMA_CORE_ENGINE_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/engine/progress_state.h"

/*
 * Which threads run the transports of an engine now. The functions below are called when an event
 * happens, and are the only ones that write the members. Each derives the input from the numbers,
 * applies it to the table (core/engine/progress_state.h), and returns the cell, whose actions the
 * caller carries out (engine_progress_do()). engine.lock guards the members; `state` is also read
 * without it.
 */
struct progress_now {
	atomic_uint state;    /* enum progress_state */
	unsigned int servers; /* threads that serve (core/engine/engine_serve.h) */
	/* channels whose application waits by other means than ibv_get_cq_event() */
	unsigned int external_channels;
	unsigned int external_waits; /* threads that wait by other means (usrdma_wait_begins()) */
	/*
	 * a thread has begun or ended serving, a spin or an external wait since the last turn of
	 * the engine thread
	 */
	bool has_changed;
};

static inline enum progress_state progress_state(const struct progress_now *now)
{
	return (enum progress_state)atomic_load_explicit(&now->state, memory_order_relaxed);
}

/*
 * Whether an application waits by other means, so that only the engine thread can run the
 * transports in this time.
 */
static inline bool progress_has_external(const struct progress_now *now)
{
	return now->external_channels || now->external_waits;
}

/*
 * Whether the application waits for one channel by other means, and nowhere else: the conditions of
 * a lone spin that this module has.
 */
static inline bool progress_waits_for_one_channel(const struct progress_now *now)
{
	return now->external_channels == 1 && !now->external_waits && !now->servers;
}

/* The engine thread has started. */
struct progress_cell progress_thread_starts(struct progress_now *now);

/* The application has found CQs empty so often that it is considered polling. */
struct progress_cell progress_polls_long(struct progress_now *now);

/* The application is about to block. */
struct progress_cell progress_will_block(struct progress_now *now);

/* A thread serves from now on, or no longer. */
struct progress_cell progress_server_enters(struct progress_now *now);
struct progress_cell progress_server_leaves(struct progress_now *now);

/* A thread spins before it serves. */
struct progress_cell progress_serve_spin_begins(struct progress_now *now);
struct progress_cell progress_serve_spin_ends(struct progress_now *now);

/*
 * A thread spins alone. This continues after the spin, until the second function, a tick without a
 * spin, or another thread that waits ends it.
 */
struct progress_cell progress_lone_spin_begins(struct progress_now *now);
struct progress_cell progress_lone_spin_ends(struct progress_now *now);

/* The application waits for a channel by other means from now on, or no longer. */
struct progress_cell progress_channel_changes(struct progress_now *now, bool is_external);

/* Such a channel is destroyed. */
void progress_channel_ends(struct progress_now *now);

/* A thread waits by other means, or no longer. */
struct progress_cell progress_wait_begins(struct progress_now *now);
void progress_wait_ends(struct progress_now *now);

/* An event was queued whose unit a peer adds (core/engine/direct_wake.h). */
struct progress_cell progress_unit_promised(struct progress_now *now);

/* At the engine thread's tick, while the application is considered polling. */
struct progress_cell progress_tick_polled(struct progress_now *now);
struct progress_cell progress_tick_unpolled(struct progress_now *now);

/* The engine thread ends a turn. may_spin_alone: by the conditions of other modules. */
struct progress_cell progress_turn_ends(struct progress_now *now, bool may_spin_alone);

/* The answer to PROGRESS_DO_LOOK or PROGRESS_DO_CHECK: PROGRESS_IN_WAKES_*. */
struct progress_cell progress_wakes(struct progress_now *now, enum progress_input input);

struct progress_cell progress_daemon_lost(struct progress_now *now);
struct progress_cell progress_forked(struct progress_now *now);

#endif
