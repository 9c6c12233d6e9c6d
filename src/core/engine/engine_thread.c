/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/user_fault.h"
#include "base/util.h"
#include "core/engine/discard.h"
#include "core/engine/engine_run.h"
#include "core/engine/engine_serve.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/engine/progress_limits.h"
#include "core/engine/transport.h"

/*
 * The engine thread: runs the transports when no other thread does, and waits between its turns. It
 * ticks while another thread runs them.
 */

static void set_spin_shift(struct engine *engine, unsigned int shift)
{
	atomic_store_explicit(&engine->polling.spin_shift, shift, memory_order_relaxed);
}

static unsigned int tick_ns(struct engine *engine)
{
	return spin_shift(engine) ? SHORT_TICK_NS : TICK_MS * 1000000u;
}

/* The application polled during a tick. */
static void note_polled_tick(struct engine *engine, unsigned int polls)
{
	engine->polling.polls_seen = polls;
	engine->polling.polled_ns += tick_ns(engine);
	if (engine->polling.polled_ns < LONG_NS || !spin_shift(engine))
		return;
	set_spin_shift(engine, spin_shift(engine) - 1);
	engine->polling.polled_ns = 0;
}

static void end_polling(struct engine *engine)
{
	if (engine->polling.polled_ns < LONG_NS && spin_shift(engine) < SPIN_SHIFT_MAX)
		set_spin_shift(engine, spin_shift(engine) + 1);
	engine->polling.polled_ns = 0;
	atomic_store_explicit(&engine->polling.streak, 0, memory_order_relaxed);
	engine_progress_do(engine, progress_tick_unpolled(&engine->progress));
}

/*
 * Whether a thread has polled after the last tick. If not, the engine thread runs the transports
 * again.
 */
static bool is_polled_still(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polling.polls, memory_order_relaxed);

	if (!engine_is_polled(engine))
		return false;
	if (polls == engine->polling.polls_seen) {
		end_polling(engine);
		return false;
	}
	note_polled_tick(engine, polls);
	return true;
}

/* Carries out the actions, and those of the cell of the answer. Returns the last cell. */
static struct progress_cell progress_answer(struct engine *engine, struct progress_cell cell)
{
	engine_progress_do(engine, cell);
	if (cell.actions & PROGRESS_DO_LOOK)
		cell = progress_wakes(&engine->progress, direct_wake_look(engine));
	else if (cell.actions & PROGRESS_DO_CHECK)
		cell = progress_wakes(&engine->progress, direct_wake_check(engine));
	else
		return cell;
	engine_progress_do(engine, cell);
	return cell;
}

enum progress_wait engine_thread_rest(struct engine *engine)
{
	struct progress_cell cell;

	engine_assert_locked(engine);
	cell = progress_turn_ends(&engine->progress, !engine->shards.are_open);
	return progress_answer(engine, cell).wait;
}

/*
 * One iteration of the engine thread. Returns what it waits for next. While an application polls,
 * the thread holds the lock for a short time only, because the application waits for it.
 */
static enum progress_wait thread_turn(struct engine *engine)
{
	struct progress_cell cell;

	if (is_polled_still(engine)) {
		engine_expire_timers(engine);
		cell = progress_answer(engine, progress_tick_polled(&engine->progress));
		if (cell.actions & PROGRESS_DO_END_WAKES)
			engine->run_by = RUN_BY_LATE_THREAD;
		engine_run(engine);
		return cell.wait;
	}
	return engine_turn(engine) ? PROGRESS_WAIT_BUSY : engine_thread_rest(engine);
}

/*
 * Waits for the daemon and for this process's own doorbell; returns the number of events. NULL: no
 * timeout. The standby set ends the wait, too, but is no event.
 */
static int wait_for_own(struct engine *engine, struct epoll_event *events, int max,
			const struct timespec *timeout, struct watch_set *standby)
{
	const uint64_t own[] = {engine->notices.watch, engine->watches.doorbell_watch};
	struct pollfd fds[] = {{.fd = engine->notices.fd, .events = POLLIN},
			       {.fd = engine->watches.doorbell_fd, .events = POLLIN},
			       {.fd = standby ? standby->epoll_fd : -1, .events = POLLIN}};
	int n = 0;

	ppoll(fds, COUNT(fds), timeout, NULL);
	for (size_t i = 0; i < COUNT(own) && n < max; i++) {
		if (fds[i].revents)
			events[n++].data.u64 = own[i];
	}
	return n;
}

/*
 * Threads serve. A doorbell for which none of them waits is left to them for STANDBY_MS: in most
 * cases they run. If none has taken a turn in this time, they are suspended or in signal handlers,
 * and the engine thread takes the events.
 */
static int wait_parked(struct engine *engine, struct epoll_event *events, int max)
{
	const struct timespec standby = {.tv_nsec = STANDBY_MS * 1000000};
	unsigned int turns;
	int n;

	do {
		n = wait_for_own(engine, events, max, NULL, &engine->watches.standby);
		turns = atomic_load_explicit(&engine->serve.turns, memory_order_relaxed);
		if (!n)
			n = wait_for_own(engine, events, max, &standby, NULL);
		if (n)
			return n;
	} while (turns != atomic_load_explicit(&engine->serve.turns, memory_order_relaxed));
	return epoll_wait(engine->watches.standby.epoll_fd, events, max, 0);
}

/*
 * Waits for events; returns their number, as epoll_wait(). While the application polls or serves,
 * it also reads the peers and the network.
 */
static int thread_wait(struct engine *engine, struct epoll_event *events, int max,
		       enum progress_wait wait)
{
	const struct timespec tick = {.tv_nsec = tick_ns(engine)};

	switch (wait) {
	case PROGRESS_WAIT_BUSY:
		return epoll_wait(engine->watches.epoll_fd, events, max, 0);
	case PROGRESS_WAIT_ALL:
		return epoll_wait(engine->watches.epoll_fd, events, max, -1);
	case PROGRESS_WAIT_ALL_TICK:
		return epoll_wait(engine->watches.epoll_fd, events, max, TICK_MS);
	case PROGRESS_WAIT_OWN_TICK:
		return wait_for_own(engine, events, max, &tick, NULL);
	case PROGRESS_WAIT_PARKED:
		return wait_parked(engine, events, max);
	default:
		return 0;
	}
}

/*
 * Whether the application has polled so often since the last tick that it has run the timers. The
 * thread then needs no lock, so that the polling thread keeps the bias of the lock. Not more than
 * QUIET_TICKS times in succession: the application's polls may have found the lock taken.
 */
static bool is_polled_often(struct engine *engine, unsigned int *quiet_ticks)
{
	unsigned int polls = atomic_load_explicit(&engine->polling.polls, memory_order_relaxed);

	if (polls - engine->polling.polls_seen < TIMER_POLLS || ++*quiet_ticks > QUIET_TICKS)
		return false;
	note_polled_tick(engine, polls);
	return true;
}

/* The same for threads that peers have woken. */
static bool is_woken_often(struct engine *engine, unsigned int *quiet_ticks)
{
	return direct_wake_has_turned(engine) && ++*quiet_ticks <= WOKEN_TICKS;
}

/*
 * Waits without the lock for an event; returns the number of events. If the lock is taken when a
 * tick ends, the thread continues to wait: the application runs the transports.
 */
static int thread_sleep(struct engine *engine, struct epoll_event *events, int max,
			enum progress_wait wait)
{
	struct discard *discard = discard_next(engine);
	unsigned int quiet_ticks = 0;
	bool is_quiet;
	int n;

	engine_unlock_in_turn(engine);
	if (discard) {
		discard_finish(discard);
		wait = PROGRESS_WAIT_AGAIN;
	}
	do {
		n = thread_wait(engine, events, max, wait);
		if (n || (wait != PROGRESS_WAIT_OWN_TICK && wait != PROGRESS_WAIT_ALL_TICK)) {
			engine_lock(engine);
			return n;
		}
		is_quiet = wait == PROGRESS_WAIT_OWN_TICK ? is_polled_often(engine, &quiet_ticks) :
							    is_woken_often(engine, &quiet_ticks);
	} while (is_quiet || !engine_try_lock(engine));
	return 0;
}

/* Calls every transport's thread_begins(). 0, or the first error. */
static int begin_thread(struct engine *engine)
{
	int ret = 0;

	for (size_t i = 0; !ret && transports[i]; i++) {
		if (transports[i]->thread_begins)
			ret = transports[i]->thread_begins(engine);
	}
	return ret;
}

static void end_thread(struct engine *engine)
{
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->thread_ends)
			transports[i]->thread_ends(engine);
	}
}

static void *thread_main(void *arg)
{
	struct engine *engine = arg;
	struct epoll_event events[4];
	bool is_late = false;
	int error = begin_thread(engine);

	user_fault_adopt_thread();
	pthread_setname_np(pthread_self(), "usrdma");
	engine->thread_error = error;
	pthread_barrier_wait(&engine->thread_begins);
	if (error)
		return NULL;
	engine_lock(engine);
	while (!engine->is_fatal) {
		enum progress_wait wait;
		int n;

		user_fault_forget();
		user_fault_renew();
		engine->run_by = is_late ? RUN_BY_LATE_THREAD : RUN_BY_THREAD;
		wait = thread_turn(engine);
		engine->run_by = RUN_BY_CALL;
		n = thread_sleep(engine, events, COUNT(events), wait);
		/*
		 * While direct wake-ups are on, no timer ends the waits of acknowledgements
		 * (core/queue/reply_wait.h).
		 */
		is_late = wait == PROGRESS_WAIT_AGAIN || (wait == PROGRESS_WAIT_ALL_TICK && !n);

		for (int i = 0; i < n; i++)
			engine_watch_dispatch(engine, events[i].data.u64);
		/*
		 * The application may have closed the engine's descriptors (closefrom(3)). Then
		 * reading notices.fd fails, and the engine becomes fatal.
		 */
		if (n < 0)
			engine_take_notices(engine);
	}
	engine_unlock(engine);
	end_thread(engine);
	return NULL;
}

int engine_start_thread(struct engine *engine)
{
	sigset_t all, old;
	int ret;

	engine_assert_locked(engine);
	/*
	 * Block all signals in the engine thread: the application handles its signals in its own
	 * threads.
	 */
	sigfillset(&all);
	pthread_barrier_init(&engine->thread_begins, NULL, 2);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(&engine->thread, NULL, thread_main, engine);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret == -EAGAIN)
		log_user(
			"no RDMA devices: cannot create a thread: the limit of processes (ulimit -u, or "
			"pids.max of the container's cgroup) is reached; raise it (--pids-limit)");
	if (!ret) {
		pthread_detach(engine->thread);
		pthread_barrier_wait(&engine->thread_begins);
		ret = engine->thread_error;
	}
	engine->has_thread = !ret;
	if (!ret)
		engine_progress_do(engine, progress_thread_starts(&engine->progress));
	return ret;
}
