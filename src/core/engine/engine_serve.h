/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_SERVE_H
#define USRDMA_CORE_ENGINE_ENGINE_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct comp_channel;
struct engine;

/* Number of threads whose events are counted separately (armed_spin.h). */
#define SERVE_TAKERS 64

/*
 * A thread of the application that waits for an event of a completion channel runs the transports
 * itself (docs/adr/0045): a doorbell wakes one such thread only, instead of the engine thread,
 * which would wake it in turn. The engine thread ticks as long as threads serve. It is parked if
 * the same threads serve for a whole turn: it waits without a tick for doorbells for which no
 * thread waits that serves (engine.watches.standby). Guarded by engine.lock.
 */
struct engine_serve {
	unsigned int set_count; /* open watch_sets */
	/*
	 * By the number of the thread (armed_spin_taker()) that takes the events of a channel: its
	 * events that were not taken yet.
	 */
	atomic_uint events_for[SERVE_TAKERS];
	/* of threads that serve; the parked engine thread reads it without the lock */
	atomic_uint turns;
};

/*
 * Takes one unit of the channel (core/object/event_fd.h); waits for it and runs the transports in
 * this time. 0: taken. -EAGAIN: there is no event now, and is_blocking is false. -EINTR: a signal
 * handler was called, and the system calls that it interrupts are not restarted (sigaction(2)).
 * Other -errno of read(2). A cancellation point. Takes and releases engine.lock.
 */
int engine_serve_wait(struct engine *engine, struct comp_channel *channel, bool is_blocking)
	__attribute__((warn_unused_result));

/*
 * The application waits for the channel's descriptor by other means, so that only the engine thread
 * can run the transports in this time. engine.lock held.
 */
void engine_serve_set_external(struct engine *engine, struct comp_channel *channel,
			       bool is_external);

/* Maximum number of watch_sets. A doorbell may examine all of them. */
#define ENGINE_SETS_MAX 64

/* Without success, one of 17 waits polls SPIN_NS: 5 us for each wait on average. */
#define SERVE_SHORT_WAITS_MAX 16

/*
 * Whether the application waits for one channel by other means, for no other channel, and has no
 * queue pairs that a spin does not run. engine.lock held.
 */
bool engine_serve_may_spin_alone(const struct engine *engine);

/*
 * The calling thread begins a lone spin: doorbells are stopped, and the engine thread ticks. The
 * state continues after the spin, until engine_serve_end_spin_alone(), a tick without a spin, or
 * another thread that waits. Both: engine.lock held.
 */
void engine_serve_spin_alone(struct engine *engine);
void engine_serve_end_spin_alone(struct engine *engine);

/* The calling thread serves from now on. engine.lock held. */
void engine_serve_enter(struct engine *engine);

/* It runs the transports now. */
static inline void engine_serve_note_turn(struct engine_serve *serve)
{
	atomic_store_explicit(&serve->turns,
			      atomic_load_explicit(&serve->turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/*
 * It serves no longer. `arg`: the engine; also the handler of a cancellation. Takes and releases
 * engine.lock.
 */
void engine_serve_leave(void *arg);

#endif
