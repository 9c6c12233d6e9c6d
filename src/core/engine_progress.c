/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/user_fault.h"
#include "base/util.h"
#include "core/datagram.h"
#include "core/discard.h"
#include "core/engine.h"
#include "core/engine_serve.h"
#include "core/engine_watch.h"
#include "core/lock_check.h"
#include "core/transport.h"

/*
 * Runs the transports: inline in a polling application, or in the engine thread when no thread
 * polls.
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
/*
 * Number of polls of an empty CQ after which the application is considered spinning: doorbells go
 * off. The number is doubled each time the application then stops polling within LONG_NS, up to
 * SPIN_SHIFT_MAX times. Such an application polls for the completion of its RDMA WRITE, and then
 * polls its memory for the peer's WRITE, which would be executed at the next tick.
 */
#define SPIN_POLLS     256u
#define SPIN_SHIFT_MAX 6u
#define LONG_NS	       8000000u
/* The period while the number is doubled. */
#define SHORT_TICK_NS 200000u
/* A thread that polls shard 0 examines the other shards once in SHARD_POLLS polls. */
#define SHARD_POLLS 16
/* A spinning application runs the timers once in TIMER_POLLS polls. */
#define TIMER_POLLS 64
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
	    engine->timer_armed_ns == TIMER_NEVER_NS)
		return;
	now_ns = clock_now_ns();
	timer_expire(&engine->timers, now_ns);
	if (engine->timer_armed_ns <= now_ns)
		engine->timer_armed_ns = TIMER_NEVER_NS;
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
	if (engine->is_polled || next_ns >= engine->timer_armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(next_ns / CLOCK_NS_PER_S);
	when.it_value.tv_nsec = (long)(next_ns % CLOCK_NS_PER_S);
	timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	engine->timer_armed_ns = next_ns;
}

void engine_wake(struct engine *engine)
{
	sys_eventfd_write(engine->doorbell_fd, 1);
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

static unsigned int spin_shift(struct engine *engine)
{
	return atomic_load_explicit(&engine->spin_shift, memory_order_relaxed);
}

static void set_spin_shift(struct engine *engine, unsigned int shift)
{
	atomic_store_explicit(&engine->spin_shift, shift, memory_order_relaxed);
}

void engine_stop_doorbells(struct engine *engine)
{
	engine_assert_locked(engine);
	sleep_transports(engine, false);
}

/* Turns the doorbells off. The engine thread begins to tick. */
static void begin_polling(struct engine *engine)
{
	engine->is_polled = true;
	engine_stop_doorbells(engine);
	engine_wake(engine);
}

/* Returns the number of polls since the last call that may block. */
static unsigned int count_poll(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polls, memory_order_relaxed) + 1;
	unsigned int streak = atomic_load_explicit(&engine->poll_streak, memory_order_relaxed) + 1;

	atomic_store_explicit(&engine->polls, polls, memory_order_relaxed);
	atomic_store_explicit(&engine->poll_streak, streak, memory_order_relaxed);
	return streak;
}

static void begin_polling_if_due(struct engine *engine, unsigned int streak)
{
	if (streak >= SPIN_POLLS << spin_shift(engine) && !engine->is_polled && engine->has_thread)
		begin_polling(engine);
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
		engine->is_inline = engine->is_polled;
		run_transports(engine);
		engine->is_inline = false;
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
	engine_assert_locked(engine);
	engine->is_catching_up = true;
	for (int i = 0; i < CATCH_UP_TURNS && run_transports(engine); i++)
		;
	engine->is_catching_up = false;
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

void engine_will_block(struct engine *engine)
{
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	/*
	 * Without the lock, for which threads that wait often would otherwise wait here, too. A
	 * thread that begins to poll at the same time has the effect of one that begins after this
	 * call.
	 */
	if (!engine->is_polled)
		return;
	engine_lock(engine);
	if (engine->is_polled && !engine->is_orphan && !engine->is_fatal) {
		engine->is_polled = false;
		engine_timer_added(engine);
		engine_progress_go_to_sleep(engine);
	}
	engine_unlock(engine);
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
	engine->is_inline = true;
	run_transports(engine);
	engine->is_inline = false;
}

bool engine_turn_before_reply(struct engine *engine, bool others_wait)
{
	bool is_busy = true;

	engine_expire_timers(engine);
	engine_timer_added(engine);
	/* Another round without new work would send the acknowledgements. */
	engine->is_inline = true;
	engine->has_foreign_rest = false;
	for (int round = 0; round < RUN_ROUNDS && is_busy && !engine->has_foreign_rest; round++) {
		run_transports(engine);
		is_busy = others_wait && sleep_transports(engine, true);
	}
	engine->is_inline = false;
	return is_busy;
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
		run_transports(engine);
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

/* Another thread of this process called engine_wake(). */
static void progress_read_doorbell(struct engine *engine, void *arg)
{
	uint64_t count;

	(void)arg;
	sys_eventfd_read(engine->doorbell_fd, &count);
}

static void progress_read_timer(struct engine *engine, void *arg)
{
	uint64_t count;

	(void)arg;
	engine->timer_armed_ns = TIMER_NEVER_NS;
	if (sys_read(engine->timer_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_warn("cannot read the timer: %m");
	engine_expire_timers(engine);
	engine_timer_added(engine);
}

int engine_watch_progress(struct engine *engine)
{
	int ret = engine_watch(engine, engine->doorbell_fd, WATCH_BY_ENGINE, progress_read_doorbell,
			       NULL, &engine->doorbell_watch);

	engine_assert_locked(engine);
	if (!ret)
		ret = engine_watch(engine, engine->timer_fd, WATCH_BY_ANY, progress_read_timer,
				   NULL, &engine->timer_watch);
	return ret;
}

/*
 * Waits for the daemon and for this process's own doorbell; returns the number of events. NULL: no
 * timeout. The standby set ends the wait, too, but is no event.
 */
static int wait_for_own(struct engine *engine, struct epoll_event *events, int max,
			const struct timespec *timeout, struct watch_set *standby)
{
	const uint64_t own[] = {engine->notice_watch, engine->doorbell_watch};
	struct pollfd fds[] = {{.fd = engine->notice_fd, .events = POLLIN},
			       {.fd = engine->doorbell_fd, .events = POLLIN},
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
		n = wait_for_own(engine, events, max, NULL, &engine->standby);
		turns = atomic_load_explicit(&engine->serve.turns, memory_order_relaxed);
		if (!n)
			n = wait_for_own(engine, events, max, &standby, NULL);
		if (n)
			return n;
	} while (turns != atomic_load_explicit(&engine->serve.turns, memory_order_relaxed));
	return epoll_wait(engine->standby.epoll_fd, events, max, 0);
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
		return epoll_wait(engine->epoll_fd, events, max, TICK_MS);
	if (timeout_ms != TICK_MS)
		return epoll_wait(engine->epoll_fd, events, max, timeout_ms);
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
		 * (core/reply_wait.h).
		 */
		is_late = timeout_ms == AGAIN_MS || (timeout_ms == WAKE_TICK_MS && !n);

		for (int i = 0; i < n; i++)
			engine_watch_dispatch(engine, events[i].data.u64);
		/*
		 * The application may have closed the engine's descriptors (closefrom(3)). Then
		 * reading notice_fd fails, and the engine becomes fatal.
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
