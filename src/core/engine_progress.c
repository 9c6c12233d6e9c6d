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
#include "core/datagram.h"
#include "core/engine.h"
#include "core/transport.h"

/* Who drives the transports: an application that polls does so inline, and the engine's thread does whenever none polls. */

/* While the application polls, the thread looks this often whether it still does. */
#define TICK_MS 1
/* So many polls in vain, with no sign of wanting to block, count as spinning: doorbells go off. */
#define SPIN_POLLS 256
/* So often one of them looks at the clock. */
#define TIMER_POLLS 64
/* One turn of the thread with the lock held, or of who is about to sleep. */
#define RUN_ROUNDS 16
/* So many rings of one doorbell are taken at once; more than one is no news. */
#define RINGS_MAX 16

static unsigned int run_transports(struct engine *engine, uint64_t now_ns)
{
	unsigned int done = 0;

	for (size_t i = 0; transports[i]; i++)
		done += transports[i]->run(engine, now_ns);
	return done;
}

static bool sleep_transports(struct engine *engine, bool want_doorbell)
{
	bool is_busy = want_doorbell && datagram_is_due(engine);

	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->sleep && transports[i]->sleep(engine, want_doorbell))
			is_busy = true;
	}
	return is_busy;
}

static void expire_timers(struct engine *engine)
{
	if (timer_next_deadline(&engine->timers) == TIMER_NEVER_NS)
		return;
	timer_expire(&engine->timers, clock_now_ns());
	engine_timer_added(engine);
}

void engine_timer_added(struct engine *engine)
{
	uint64_t next_ns = timer_next_deadline(&engine->timers);
	struct itimerspec when = {0};

	/* Who polls, and the thread's tick, see to them. */
	if (engine->is_polled || next_ns >= engine->timer_armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(next_ns / CLOCK_NS_PER_S);
	when.it_value.tv_nsec = (long)(next_ns % CLOCK_NS_PER_S);
	timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	engine->timer_armed_ns = next_ns;
}

void engine_wake(struct engine *engine)
{
	eventfd_write(engine->doorbell_fd, 1);
}

void engine_poll(struct engine *engine)
{
	unsigned int streak;

	atomic_store_explicit(&engine->polls,
			      atomic_load_explicit(&engine->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	streak = atomic_load_explicit(&engine->poll_streak, memory_order_relaxed) + 1;
	atomic_store_explicit(&engine->poll_streak, streak, memory_order_relaxed);
	if (pthread_mutex_trylock(&engine->lock))
		return;
	if (!engine->is_orphan && !engine->is_fatal) {
		if (streak >= SPIN_POLLS && !engine->is_polled && engine->has_thread) {
			engine->is_polled = true;
			sleep_transports(engine, false);
			engine_wake(engine);
		}
		if (streak % TIMER_POLLS == 0)
			expire_timers(engine);
		engine->is_inline = engine->is_polled;
		run_transports(engine, 0);
		engine->is_inline = false;
	}
	engine_unlock(engine);
}

/* Enough for what rings and sockets hold; a peer that never stops sending must not keep the caller here. */
#define CATCH_UP_TURNS 32

void engine_catch_up(struct engine *engine)
{
	for (int i = 0; i < CATCH_UP_TURNS && run_transports(engine, 0); i++)
		;
}

/* From here on the doorbells ring. What is left after one turn is the thread's: a peer that never stops sending must not keep
 * the caller awake. */
static void go_to_sleep(struct engine *engine)
{
	for (int round = 0; sleep_transports(engine, true); round++) {
		if (round == RUN_ROUNDS) {
			engine_wake(engine);
			return;
		}
		if (!run_transports(engine, 0))
			return;
	}
}

void engine_will_block(struct engine *engine)
{
	engine_lock(engine);
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	if (engine->is_polled && !engine->is_orphan && !engine->is_fatal) {
		engine->is_polled = false;
		engine_timer_added(engine);
		go_to_sleep(engine);
	}
	engine_unlock(engine);
}

/* Whether somebody polled since the last tick; if nobody did, the thread is the one that listens again. */
static bool is_polled_still(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polls, memory_order_relaxed);

	if (!engine->is_polled)
		return false;
	if (polls != engine->polls_seen) {
		engine->polls_seen = polls;
		return true;
	}
	engine->is_polled = false;
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	return false;
}

/*
 * What the thread does between two sleeps. Answers how long the next may last: -1 until something is heard. Beside an
 * application that polls it does next to nothing: that one would wait for the lock meanwhile.
 */
static int thread_turn(struct engine *engine)
{
	bool is_done = false;

	if (is_polled_still(engine)) {
		expire_timers(engine);
		run_transports(engine, 0);
		return TICK_MS;
	}
	expire_timers(engine);
	engine_timer_added(engine);
	for (int round = 0; round < RUN_ROUNDS && !is_done; round++)
		is_done = !run_transports(engine, 0);
	/* What a link has in hand already rings no bell. */
	return sleep_transports(engine, true) || !is_done ? 0 : -1;
}

/* A peer rang. At its end, or if it writes what it should not, it is heard no more: the daemon tells of its death. */
static void hear_doorbell(struct engine *engine, int fd)
{
	uint8_t ring[2];
	ssize_t n = 1;

	for (int i = 0; i < RINGS_MAX && n == 1; i++)
		n = recv(fd, ring, sizeof(ring), MSG_DONTWAIT);
	if (n >= 0 && n != 1)
		epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void thread_hear(struct engine *engine, int fd)
{
	uint64_t count;

	if (fd == engine->doorbell_fd) {
		eventfd_read(fd, &count);
	} else if (fd == engine->timer_fd) {
		engine->timer_armed_ns = TIMER_NEVER_NS;
		if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			log_warn("timer: %m");
		expire_timers(engine);
		engine_timer_added(engine);
	} else if (fd == engine->notice_fd) {
		engine_take_notices(engine);
	} else if (fd == engine->lent_fd) {
		engine->lent_is_readable = true;
	} else {
		hear_doorbell(engine, fd);
	}
}

/*
 * Sleeps until something is to be heard; how many events, as epoll_wait. While the application polls, what comes from peers
 * and from the network is its to find: only the daemon and this process itself wake the thread then.
 */
static int thread_wait(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	const int own[] = {engine->notice_fd, engine->doorbell_fd};
	struct pollfd fds[sizeof(own) / sizeof(own[0])];
	int n = 0;

	if (timeout_ms != TICK_MS)
		return epoll_wait(engine->epoll_fd, events, max, timeout_ms);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		fds[i] = (struct pollfd){.fd = own[i], .events = POLLIN};
	poll(fds, sizeof(own) / sizeof(own[0]), timeout_ms);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && n < max; i++) {
		if (fds[i].revents)
			events[n++].data.fd = fds[i].fd;
	}
	return n;
}

/* Sleeps, without the lock, until there is something to do; how many events. A tick that finds the lock taken is over: the
 * application is at it. */
static int thread_sleep(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	int n;

	engine_unlock(engine);
	do {
		n = thread_wait(engine, events, max, timeout_ms);
		if (n > 0 || timeout_ms != TICK_MS) {
			engine_lock(engine);
			return n;
		}
	} while (pthread_mutex_trylock(&engine->lock));
	return 0;
}

static void *thread_main(void *arg)
{
	struct engine *engine = arg;
	struct epoll_event events[4];

	pthread_setname_np(pthread_self(), "usrdma");
	engine_lock(engine);
	while (!engine->is_fatal) {
		int timeout_ms = thread_turn(engine);
		int n = thread_sleep(engine, events, sizeof(events) / sizeof(events[0]),
				     timeout_ms);

		for (int i = 0; i < n; i++)
			thread_hear(engine, events[i].data.fd);
	}
	engine_unlock(engine);
	return NULL;
}

int engine_start_thread(struct engine *engine)
{
	sigset_t all, old;
	int ret;

	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&engine->thread, NULL, thread_main, engine);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	pthread_detach(engine->thread);
	engine->has_thread = true;
	return 0;
}
