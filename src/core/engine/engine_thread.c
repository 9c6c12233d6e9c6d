/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include "base/user_fault.h"
#include "base/util.h"
#include "core/engine/discard.h"
#include "core/engine/engine_progress.h"
#include "core/engine/engine_serve.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"

/*
 * The engine thread: runs the transports when no other thread does, and waits between its turns. It
 * ticks while another thread runs them.
 */

/* Period in which the thread checks whether the application still polls. */
#define TICK_MS 1
/* Maximum number of successive ticks without the lock. */
#define QUIET_TICKS 16
/* The same while direct wake-ups are on. */
#define WOKEN_TICKS 4
/* No timeout, as -1: another thread waits for the peers (engine_serve.h). */
#define PARKED_MS (-2)
/* As TICK_MS, and for messages that need the doorbell: direct wake-ups are on. */
#define WAKE_TICK_MS (-3)
/* No wait: direct wake-ups went off. */
#define AGAIN_MS (-4)
/*
 * Time for which the parked thread leaves a doorbell to the threads that serve. Shorter than usual
 * ACK timeouts.
 */
#define STANDBY_MS 4
/* The period while spin_shift is not 0. */
#define SHORT_TICK_NS 200000u

static void set_spin_shift(struct engine *engine, unsigned int shift)
{
	atomic_store_explicit(&engine->spin_shift, shift, memory_order_relaxed);
}

static unsigned int tick_ns(struct engine *engine)
{
	return spin_shift(engine) ? SHORT_TICK_NS : TICK_MS * 1000000u;
}

/* The application polled during a tick. */
static void note_polled_tick(struct engine *engine, unsigned int polls)
{
	engine->polls_seen = polls;
	engine->polled_ns += tick_ns(engine);
	if (engine->polled_ns < LONG_NS || !spin_shift(engine))
		return;
	set_spin_shift(engine, spin_shift(engine) - 1);
	engine->polled_ns = 0;
}

static void end_polling(struct engine *engine)
{
	if (engine->polled_ns < LONG_NS && spin_shift(engine) < SPIN_SHIFT_MAX)
		set_spin_shift(engine, spin_shift(engine) + 1);
	engine->polled_ns = 0;
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	engine->is_polled = false;
}

/*
 * Whether a thread has polled after the last tick. If not, the engine thread runs the transports
 * again.
 */
static bool is_polled_still(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polls, memory_order_relaxed);

	if (!engine->is_polled)
		return false;
	if (polls == engine->polls_seen) {
		end_polling(engine);
		return false;
	}
	note_polled_tick(engine, polls);
	return true;
}

/*
 * One iteration of the engine thread. Returns the timeout of its next sleep: 0, TICK_MS, PARKED_MS,
 * or -1 (until an event). While an application polls, the thread holds the lock for a short time
 * only, because the application waits for it.
 */
static int thread_turn(struct engine *engine)
{
	if (is_polled_still(engine)) {
		engine_expire_timers(engine);
		engine->is_catching_up |= direct_wake_end(engine);
		engine_run(engine);
		return TICK_MS;
	}
	if (engine_turn(engine))
		return 0;
	switch (engine_serve_rest(engine)) {
	case ENGINE_REST_AGAIN:
		return AGAIN_MS;
	case ENGINE_REST_ALL_TICK:
		return WAKE_TICK_MS;
	case ENGINE_REST_TICK:
		return TICK_MS;
	case ENGINE_REST_PARKED:
		return PARKED_MS;
	default:
		return -1;
	}
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
static int thread_wait(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	struct timespec tick = {0};

	if (timeout_ms == PARKED_MS)
		return wait_parked(engine, events, max);
	if (timeout_ms == AGAIN_MS)
		return 0;
	if (timeout_ms == WAKE_TICK_MS)
		return epoll_wait(engine->watches.epoll_fd, events, max, TICK_MS);
	if (timeout_ms != TICK_MS)
		return epoll_wait(engine->watches.epoll_fd, events, max, timeout_ms);
	tick.tv_nsec = tick_ns(engine);
	return wait_for_own(engine, events, max, &tick, NULL);
}

/*
 * Whether the application has polled so often since the last tick that it has run the timers. The
 * thread then needs no lock, so that the polling thread keeps the bias of the lock. Not more than
 * QUIET_TICKS times in succession: the application's polls may have found the lock taken.
 */
static bool is_polled_often(struct engine *engine, unsigned int *quiet_ticks)
{
	unsigned int polls = atomic_load_explicit(&engine->polls, memory_order_relaxed);

	if (polls - engine->polls_seen < TIMER_POLLS || ++*quiet_ticks > QUIET_TICKS)
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
static int thread_sleep(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	struct discard *discard = discard_next(engine);
	unsigned int quiet_ticks = 0;
	bool is_quiet;
	int n;

	engine_unlock_in_turn(engine);
	if (discard) {
		discard_finish(discard);
		timeout_ms = AGAIN_MS;
	}
	do {
		n = thread_wait(engine, events, max, timeout_ms);
		if (n || (timeout_ms != TICK_MS && timeout_ms != WAKE_TICK_MS)) {
			engine_lock(engine);
			return n;
		}
		is_quiet = timeout_ms == TICK_MS ? is_polled_often(engine, &quiet_ticks) :
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
		int timeout_ms, n;

		user_fault_forget();
		user_fault_renew();
		engine->is_catching_up = is_late;
		engine->is_thread_turn = true;
		timeout_ms = thread_turn(engine);
		engine->is_thread_turn = false;
		engine->is_catching_up = false;
		n = thread_sleep(engine, events, COUNT(events), timeout_ms);
		/*
		 * While direct wake-ups are on, no timer ends the waits of acknowledgements
		 * (core/queue/reply_wait.h).
		 */
		is_late = timeout_ms == AGAIN_MS || (timeout_ms == WAKE_TICK_MS && !n);

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
	if (!ret) {
		pthread_detach(engine->thread);
		pthread_barrier_wait(&engine->thread_begins);
		ret = engine->thread_error;
	}
	engine->has_thread = !ret;
	return ret;
}
