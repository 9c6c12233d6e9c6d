/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads of the application that run the transports while they wait for an event
 * (core/engine/engine_serve.h), with an engine whose thread does not run.
 */

#include "fake.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/spin.h"
#include "core/object/event_fd.h"

#define PATIENCE_MS 40000

/* An engine whose thread has not run since the test began: the test has no thread for it. */
static void idle_open(struct engine *idle)
{
	*idle = (struct engine){.watches.timer_armed_ns = TIMER_NEVER_NS,
				.has_thread = true,
				.progress.state = PROGRESS_THREAD};
	biased_lock_init(&idle->lock);
	engine_init_lists(idle);
	id_table_init(&idle->watches.table, WATCHES_MAX);
	timer_heap_init(&idle->timers);
	datagrams_init(&idle->datagrams);
	idle->watches.doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	idle->watches.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	idle->watches.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	WITH_LOCKS(idle, assert_int_equal(engine_watch_progress(idle), 0));
}

static void idle_close(struct engine *idle)
{
	WITH_LOCKS(idle, engine_unwatch(idle, idle->watches.doorbell_watch));
	WITH_LOCKS(idle, engine_unwatch(idle, idle->watches.timer_watch));
	WITH_LOCKS(idle, watch_set_close(idle, &idle->watches.standby));
	id_table_fini(&idle->watches.table);
	close(idle->watches.doorbell_fd);
	close(idle->watches.epoll_fd);
	close(idle->watches.timer_fd);
	biased_lock_fini(&idle->lock);
}

static bool is_woken(struct engine *idle)
{
	struct pollfd doorbell = {.fd = idle->watches.doorbell_fd, .events = POLLIN};

	return poll(&doorbell, 1, 0) == 1;
}

/* An engine with a channel, and a doorbell of a peer. */
struct serving {
	struct engine idle;
	struct context context;
	struct comp_channel channel;
	int peer_fd; /* as a peer's doorbell */
	uint64_t peer_watch;
};

static void on_peer(struct engine *idle, void *arg)
{
	(void)idle;
	assert_false(event_fd_try(*(int *)arg));
}

static void serving_open(struct serving *serving)
{
	*serving = (struct serving){.channel.set.epoll_fd = -1, .context.engine = &serving->idle};
	serving->channel.pub.context = &serving->context.pub.context;
	idle_open(&serving->idle);
	list_init(&serving->channel.ready);
	list_init(&serving->channel.signal_node);
	pthread_mutex_init(&serving->channel.lock, NULL);
	serving->channel.pub.fd = serving->channel.units.fd = event_fd_open();
	serving->peer_fd = event_fd_open();
	WITH_LOCKS(&serving->idle,
		   assert_int_equal(engine_watch(&serving->idle, serving->peer_fd, WATCH_BY_ANY,
						 on_peer, &serving->peer_fd, &serving->peer_watch),
				    0));
}

static void serving_close(struct serving *serving)
{
	WITH_LOCKS(&serving->idle, engine_unwatch(&serving->idle, serving->peer_watch));
	WITH_LOCKS(&serving->idle, watch_set_close(&serving->idle, &serving->channel.set));
	close(serving->channel.pub.fd);
	close(serving->peer_fd);
	pthread_mutex_destroy(&serving->channel.lock);
	idle_close(&serving->idle);
}

/* The next wait of this thread polls (base/spin.h). */
static void end_short_waits(void)
{
	struct spin spin;

	while (!spin_begin(&spin, clock_now_ns(), 0, 1))
		;
}

/*
 * The engine thread leaves the doorbells of peers to the serving thread, and needs a tick when that
 * thread has returned.
 */
static void engine_serve_wait_wakes_engine_thread(void **state)
{
	static struct serving serving;

	(void)state;
	serving_open(&serving);
	event_fd_post(serving.channel.pub.fd, 1);
	assert_int_equal(engine_serve_wait(&serving.idle, &serving.channel, true), 0);
	assert_true(is_woken(&serving.idle));
	serving_close(&serving);
}

static void engine_serve_wait_takes_event_while_it_spins(void **state)
{
	static struct serving serving;

	(void)state;
	serving_open(&serving);
	end_short_waits();
	serving.channel.units.due = 1;
	assert_int_equal(engine_serve_wait(&serving.idle, &serving.channel, true), 0);
	assert_int_equal(serving.channel.units.due, 0);
	assert_int_equal(serving.channel.units.spinners, 0);
	assert_int_equal(serving.idle.progress.servers, 0);
	/* The engine thread ticks while threads spin. */
	assert_true(is_woken(&serving.idle));
	serving_close(&serving);
}

/* The engine thread parked while this thread was preempted, because another thread serves. */
static void engine_serve_wait_wakes_parked_engine_thread_after_it_spins(void **state)
{
	static struct serving serving;

	(void)state;
	serving_open(&serving);
	end_short_waits();
	serving.idle.progress.state = PROGRESS_PARKED;
	serving.channel.units.due = 1;
	assert_int_equal(engine_serve_wait(&serving.idle, &serving.channel, true), 0);
	assert_true(is_woken(&serving.idle));
	serving_close(&serving);
}

static void ignore_timer(struct timer *timer, uint64_t now_ns)
{
	(void)timer;
	(void)now_ns;
}

/* The thread that was woken for the timer has not read its descriptor. */
static void engine_turn_arms_a_timer_that_expired_unread(void **state)
{
	struct timer timer;
	struct itimerspec armed;
	struct engine idle;
	struct pollfd pollfd;

	(void)state;
	idle_open(&idle);
	timer_init(&timer, ignore_timer);
	pollfd = (struct pollfd){.fd = idle.watches.timer_fd, .events = POLLIN};
	engine_lock(&idle);
	timer_add(&idle.timers, &timer, 1);
	engine_timer_added(&idle);
	assert_int_equal(poll(&pollfd, 1, PATIENCE_MS), 1);
	assert_false(engine_turn(&idle));
	timer_add(&idle.timers, &timer, clock_now_ns() + 1000 * CLOCK_NS_PER_S);
	engine_timer_added(&idle);
	engine_unlock(&idle);
	assert_int_equal(timerfd_gettime(idle.watches.timer_fd, &armed), 0);
	assert_true(armed.it_value.tv_sec > 0);
	timer_cancel(&idle.timers, &timer);
	idle_close(&idle);
}

static void *serve_in_thread(void *arg)
{
	struct serving *serving = arg;

	return (void *)(intptr_t)engine_serve_wait(&serving->idle, &serving->channel, true);
}

static void wait_until_serving(struct engine *idle, unsigned int servers)
{
	unsigned int now;

	do {
		sched_yield();
		engine_lock(idle);
		now = idle->progress.servers;
		engine_unlock(idle);
	} while (now != servers);
}

/* While a thread polls, no timer is armed: the engine thread has to tick. */
static void engine_serve_wait_ends_when_another_thread_polls(void **state)
{
	static struct serving serving;
	struct timespec until;
	pthread_t thread;
	void *result;

	(void)state;
	serving_open(&serving);
	assert_int_equal(pthread_create(&thread, NULL, serve_in_thread, &serving), 0);
	wait_until_serving(&serving.idle, 1);
	engine_lock(&serving.idle);
	(void)progress_polls_long(&serving.idle.progress);
	engine_unlock(&serving.idle);
	event_fd_post(serving.peer_fd, 1);
	wait_until_serving(&serving.idle, 0);
	assert_true(is_woken(&serving.idle));
	event_fd_post(serving.channel.pub.fd, 1);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	assert_int_equal(pthread_timedjoin_np(thread, &result, &until), 0);
	assert_int_equal((intptr_t)result, 0);
	serving_close(&serving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine_serve_wait_wakes_engine_thread),
		cmocka_unit_test(engine_serve_wait_takes_event_while_it_spins),
		cmocka_unit_test(engine_serve_wait_wakes_parked_engine_thread_after_it_spins),
		cmocka_unit_test(engine_turn_arms_a_timer_that_expired_unread),
		cmocka_unit_test(engine_serve_wait_ends_when_another_thread_polls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
