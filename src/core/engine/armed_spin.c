/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/armed_spin.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/spin.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine.h"
#include "core/engine/engine_serve.h"
#include "core/engine/lock_check.h"
#include "core/engine/progress_limits.h"
#include "core/queue/cq.h"

/* This thread has taken an event since its last spin. */
static __thread bool has_new_event;
/* This thread does not spin until then: other programs need the processor. */
static __thread uint64_t pause_end_ns;

uint8_t armed_spin_taker(void)
{
	/* pthread_self() is the address of a structure in the thread's memory. */
	uint64_t thread = (uint64_t)(uintptr_t)pthread_self() * UINT64_C(0x9e3779b97f4a7c15);

	return (uint8_t)(1 + (thread >> 32) % (SERVE_TAKERS - 1));
}

void armed_spin_event_taken(void)
{
	has_new_event = true;
}

void armed_spin_cq_armed(struct cq *cq)
{
	cq_assert_locked(cq);
	atomic_store_explicit(&cq->may_spin, direct_wake_is_possible(cq), memory_order_relaxed);
}

/*
 * Whether there may be an event for the calling thread. Those of the CQ itself do not count: the
 * thread has polled the completions that caused them.
 */
static bool has_event_for(const struct engine_serve *serve, const struct cq *cq, uint8_t taker)
{
	unsigned int own = 0;

	if (atomic_load_explicit(&cq->channel->taker, memory_order_relaxed) == taker)
		own = atomic_load_explicit(&cq->events_queued, memory_order_relaxed);
	return atomic_load_explicit(&serve->events_for[taker], memory_order_relaxed) > own;
}

static bool spin_enter(struct engine *engine, bool *is_alone)
{
	bool spins;

	engine_lock(engine);
	spins = engine_may_serve(engine);
	*is_alone = spins && engine_serve_may_spin_alone(engine);
	if (spins) {
		engine_expire_timers(engine);
		direct_wake_pause(engine);
	}
	if (*is_alone)
		engine_serve_spin_alone(engine);
	engine_unlock(engine);
	return spins;
}

/*
 * The thread is about to sleep: the engine thread waits for messages again. Acknowledgements that
 * waited for a reply are sent.
 */
static void prepare_to_sleep(struct engine *engine)
{
	if (!engine_may_serve(engine))
		return;
	engine_serve_end_spin_alone(engine);
	if (engine_turn(engine))
		engine_wake_late(engine);
}

/*
 * After a completion the thread polls again soon, so that it executes messages of peers that have
 * not seen yet that this process takes wake-ups again. If it computes for a longer time, the tick
 * of the engine thread executes them.
 */
static void spin_leave(struct engine *engine, bool has_completion)
{
	engine_lock(engine);
	direct_wake_resume(engine);
	if (!has_completion)
		prepare_to_sleep(engine);
	engine_unlock(engine);
}

static bool ticks_while_spinning(const struct engine *engine)
{
	enum progress_state state = progress_state(&engine->progress);

	return progress_has_wakes(state) || progress_spins_alone(state);
}

/*
 * Runs the transports once. Acknowledgements wait for the application's reply only if the engine
 * thread ticks, which ends their wait.
 */
static void spin_run(struct engine *engine)
{
	if (!biased_lock_try(&engine->lock))
		return;
	if (engine_may_serve(engine) && ticks_while_spinning(engine))
		engine_run_before_reply(engine);
	else if (engine_may_serve(engine))
		engine_run(engine);
	engine_unlock_base(engine);
}

/*
 * A thread that spins alone yields its processor at times: the kernel may have put the peer's
 * thread on the same one, because the two wake each other.
 */
#define ALONE_YIELD_NS 20000u

/*
 * A yield of LONG_YIELD_NS or more has let another program compute. So would the next ones, each
 * for the rest of that program's time slice: some milliseconds. The thread does not spin for
 * PAUSE_TIMES as long, but sleeps: the kernel lets a thread that it wakes run soon.
 */
#define LONG_YIELD_NS 500000u
#define PAUSE_TIMES   32

/* false: the thread is to sleep. */
static bool spin_yield(uint64_t now_ns)
{
	uint64_t taken_ns;

	sched_yield();
	taken_ns = clock_now_ns() - now_ns;
	if (taken_ns < LONG_YIELD_NS)
		return true;
	pause_end_ns = now_ns + (1 + PAUSE_TIMES) * taken_ns;
	return false;
}

/*
 * Returns whether the CQ has a completion, or the thread an event. false also after a long yield.
 */
static bool spin_until(struct engine *engine, struct cq *cq, struct spin *spin, bool is_alone)
{
	uint8_t taker = armed_spin_taker();
	uint64_t yielded_ns = spin->start_ns;
	uint64_t now_ns = spin->start_ns;

	while (spin_continue(spin, now_ns)) {
		if (is_alone && now_ns - yielded_ns >= ALONE_YIELD_NS) {
			if (!spin_yield(now_ns))
				return false;
			yielded_ns = now_ns;
		}
		spin_run(engine);
		if (!cq_looks_empty(cq) || has_event_for(&engine->serve, cq, taker))
			return true;
		now_ns = clock_now_ns();
	}
	return false;
}

/* The thread sleeps without a spin, after one that was alone. */
static void end_spin_alone(struct engine *engine)
{
	if (!progress_spins_alone(progress_state(&engine->progress)))
		return;
	engine_lock(engine);
	prepare_to_sleep(engine);
	engine_unlock(engine);
}

static bool may_begin_spin(struct spin *spin)
{
	uint64_t now_ns = clock_now_ns();
	bool is_first = has_new_event;

	has_new_event = false;
	return is_first && now_ns >= pause_end_ns &&
	       spin_begin(spin, now_ns, 0, SERVE_SHORT_WAITS_MAX);
}

void armed_spin_run(struct cq *cq)
{
	struct engine *engine = cq->context->engine;
	bool is_alone, has_succeeded;
	struct spin spin;

	atomic_store_explicit(&cq->may_spin, false, memory_order_relaxed);
	if (has_event_for(&engine->serve, cq, armed_spin_taker()))
		return;
	if (!may_begin_spin(&spin)) {
		end_spin_alone(engine);
		return;
	}
	if (!spin_enter(engine, &is_alone))
		return;
	if (is_alone)
		spin_lengthen(&spin, ALONE_SPIN_NS);
	has_succeeded = spin_until(engine, cq, &spin, is_alone);
	if (has_succeeded)
		spin_succeed(&spin);
	spin_leave(engine, !cq_looks_empty(cq));
}
