/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/engine_run.h"

#include <errno.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/engine/progress_limits.h"
#include "core/engine/transport.h"
#include "core/queue/datagram.h"

/*
 * Runs the transports: inline in a polling application, or in a turn of the engine thread
 * (engine_thread.c) or of a thread that serves (engine_serve.c).
 */

/* A thread that polls shard 0 examines the other shards once in SHARD_POLLS polls. */
#define SHARD_POLLS 16
/*
 * Maximum number of rounds that the engine thread runs before it releases the lock, or a thread
 * before it sleeps.
 */
#define RUN_ROUNDS 16

static unsigned int run_transports(struct engine *engine)
{
	unsigned int done = 0;

	for (size_t i = 0; transports[i]; i++)
		done += transports[i]->run(engine);
	return done;
}

static bool sleep_transports(struct engine *engine, bool want_doorbell)
{
	bool is_busy = want_doorbell &&
		       (datagram_is_due(engine) || !list_is_empty(&engine->datagrams.sent));

	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->sleep && transports[i]->sleep(engine, want_doorbell))
			is_busy = true;
	}
	return is_busy;
}

/*
 * The kernel wakes one thread for timer_fd. If that thread is cancelled, or returns to the
 * application before epoll_wait() has reported timer_fd, no thread reads it. It is then armed again
 * here.
 */
void engine_expire_timers(struct engine *engine)
{
	uint64_t now_ns;

	engine_assert_locked(engine);
	if (timer_next_deadline(&engine->timers) == TIMER_NEVER_NS &&
	    engine->watches.timer_armed_ns == TIMER_NEVER_NS)
		return;
	now_ns = clock_now_ns();
	timer_expire(&engine->timers, now_ns);
	if (engine->watches.timer_armed_ns <= now_ns)
		engine->watches.timer_armed_ns = TIMER_NEVER_NS;
	engine_timer_added(engine);
}

/* Runs the timers. Returns true if they must be run with all locks held. engine.lock held. */
static bool poll_timers(struct engine *engine)
{
	engine_assert_locked(engine);
	if (engine->shards.are_open)
		return timer_next_deadline(&engine->timers) <= clock_now_ns();
	engine_expire_timers(engine);
	return false;
}

void engine_timer_added(struct engine *engine)
{
	uint64_t next_ns = timer_next_deadline(&engine->timers);
	struct itimerspec when = {0};

	/* The polling application and the periodic tick of the engine thread run the timers. */
	if (engine_is_polled(engine) || next_ns >= engine->watches.timer_armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(next_ns / CLOCK_NS_PER_S);
	when.it_value.tv_nsec = (long)(next_ns % CLOCK_NS_PER_S);
	timerfd_settime(engine->watches.timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	engine->watches.timer_armed_ns = next_ns;
}

void engine_wake(struct engine *engine)
{
	sys_eventfd_write(engine->watches.doorbell_fd, 1);
}

/* The timers of all shards need all locks. */
static void try_expire_timers(struct engine *engine)
{
	if (!engine_try_lock(engine))
		return;
	if (!engine->is_orphan && !engine->is_fatal)
		engine_expire_timers(engine);
	engine_unlock(engine);
}

/* Returns the number of polls since the last call that may block. */
static unsigned int count_poll(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polling.polls, memory_order_relaxed) + 1;
	unsigned int streak = atomic_load_explicit(&engine->polling.streak, memory_order_relaxed) +
			      1;

	atomic_store_explicit(&engine->polling.polls, polls, memory_order_relaxed);
	atomic_store_explicit(&engine->polling.streak, streak, memory_order_relaxed);
	return streak;
}

static void begin_polling_if_due(struct engine *engine, unsigned int streak)
{
	if (streak >= SPIN_POLLS << spin_shift(engine) && !engine_is_polled(engine))
		engine_progress_do(engine, progress_polls_long(&engine->progress));
}

void engine_expect_polls(struct engine *engine)
{
	engine_assert_locked(engine);
	begin_polling_if_due(engine, count_poll(engine));
}

void engine_poll(struct engine *engine, uint32_t shards)
{
	bool are_timers_due = false;
	unsigned int streak;

	if (__builtin_expect(shards > 1, 0) && shards_poll(engine, shards))
		return;
	streak = count_poll(engine);
	if (!biased_lock_try(&engine->lock))
		return;
	if (!engine->is_orphan && !engine->is_fatal) {
		begin_polling_if_due(engine, streak);
		if (streak % TIMER_POLLS == 0)
			are_timers_due = poll_timers(engine);
		engine->run_by = engine_is_polled(engine) ? RUN_BY_REPLIER : RUN_BY_CALL;
		run_transports(engine);
		engine->run_by = RUN_BY_CALL;
		if (__builtin_expect(engine->shards.are_open, 0) &&
		    (shards > 1 || streak % SHARD_POLLS == 0))
			shards_run_idle(engine);
	}
	engine_unlock_base(engine);
	if (__builtin_expect(are_timers_due, 0))
		try_expire_timers(engine);
}

/*
 * Sufficient for the contents of all rings and sockets; bounded because a peer may send
 * continuously.
 */
#define CATCH_UP_TURNS 32

void engine_catch_up(struct engine *engine)
{
	enum run_by before = engine->run_by;

	engine_assert_locked(engine);
	engine->run_by = RUN_BY_CATCH_UP;
	for (int i = 0; i < CATCH_UP_TURNS && run_transports(engine); i++)
		;
	engine->run_by = before;
}

/*
 * Requests doorbells from the peers. If work is still pending after RUN_ROUNDS rounds, it is left
 * to the engine thread: the number of rounds is bounded because a peer may send continuously.
 */
static void engine_progress_go_to_sleep(struct engine *engine)
{
	engine->has_foreign_rest = false;
	for (int round = 0; sleep_transports(engine, true); round++) {
		if (round == RUN_ROUNDS || engine->has_foreign_rest) {
			engine_wake(engine);
			return;
		}
		if (!run_transports(engine))
			return;
	}
}

void engine_progress_do(struct engine *engine, struct progress_cell cell)
{
	engine_assert_locked(engine);
	CHECK_RULE(!(cell.actions & PROGRESS_DO_NEVER), "the input does not occur in this state");
	if (cell.actions & PROGRESS_DO_STOP_DOORBELLS)
		sleep_transports(engine, false);
	if (cell.actions & PROGRESS_DO_REQUEST_DOORBELLS) {
		engine_timer_added(engine);
		engine_progress_go_to_sleep(engine);
	}
	if (cell.actions & PROGRESS_DO_BEGIN_WAKES)
		direct_wake_begin(engine);
	if (cell.actions & PROGRESS_DO_END_WAKES)
		direct_wake_end(engine);
	if (cell.actions & PROGRESS_DO_WAKE_THREAD)
		engine_wake_late(engine);
}

void engine_will_block(struct engine *engine)
{
	atomic_store_explicit(&engine->polling.streak, 0, memory_order_relaxed);
	/*
	 * Without the lock, for which threads that wait often would otherwise wait here, too. A
	 * thread that begins to poll at the same time has the effect of one that begins after this
	 * call.
	 */
	if (!engine_is_polled(engine))
		return;
	engine_lock(engine);
	engine_progress_do(engine, progress_will_block(&engine->progress));
	engine_unlock(engine);
}

bool engine_turn(struct engine *engine)
{
	bool is_done = false;

	engine_assert_locked(engine);
	engine_expire_timers(engine);
	engine_timer_added(engine);
	engine->has_foreign_rest = false;
	for (int round = 0; round < RUN_ROUNDS && !is_done && !engine->has_foreign_rest; round++)
		is_done = !run_transports(engine);
	/* A link may have received datagrams that its descriptor does not report. */
	return sleep_transports(engine, true) || !is_done;
}

void engine_run(struct engine *engine)
{
	engine_assert_locked(engine);
	run_transports(engine);
}

void engine_run_before_reply(struct engine *engine)
{
	engine->run_by = RUN_BY_REPLIER;
	run_transports(engine);
	engine->run_by = RUN_BY_CALL;
}

bool engine_turn_before_reply(struct engine *engine, bool others_wait)
{
	enum run_by before = engine->run_by;
	bool is_busy = true;

	engine_expire_timers(engine);
	engine_timer_added(engine);
	/* Another round without new work would send the acknowledgements. */
	engine->run_by = before == RUN_BY_SERVER ? RUN_BY_SERVER_REPLIER : RUN_BY_REPLIER;
	engine->has_foreign_rest = false;
	for (int round = 0; round < RUN_ROUNDS && is_busy && !engine->has_foreign_rest; round++) {
		run_transports(engine);
		is_busy = others_wait && sleep_transports(engine, true);
	}
	engine->run_by = before;
	return is_busy;
}

/* Another thread of this process called engine_wake(). */
static void progress_read_doorbell(struct engine *engine, void *arg)
{
	uint64_t count;

	(void)arg;
	sys_eventfd_read(engine->watches.doorbell_fd, &count);
}

static void progress_read_timer(struct engine *engine, void *arg)
{
	uint64_t count;

	(void)arg;
	engine->watches.timer_armed_ns = TIMER_NEVER_NS;
	if (sys_read(engine->watches.timer_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_warn("cannot read the timer: %m");
	engine_expire_timers(engine);
	engine_timer_added(engine);
}

int engine_watch_progress(struct engine *engine)
{
	int ret = engine_watch(engine, engine->watches.doorbell_fd, WATCH_BY_ENGINE,
			       progress_read_doorbell, NULL, &engine->watches.doorbell_watch);

	engine_assert_locked(engine);
	if (!ret)
		ret = engine_watch(engine, engine->watches.timer_fd, WATCH_BY_ANY,
				   progress_read_timer, NULL, &engine->watches.timer_watch);
	return ret;
}
