/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The engine thread: its timers, and its work while all threads that serve are in signal handlers.
 */

#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/object/event_fd.h"

#define PATIENCE_MS 40000

static struct fake fake;

/* An engine with a thread, which exists until the process ends. */
static int setup(void **state)
{
	struct engine *engine = &fake.engine;
	int pair[2];

	(void)state;
	fake_open(&fake);
	engine->watches.doorbell_fd = event_fd_open();
	engine->watches.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	engine->watches.timer_armed_ns = TIMER_NEVER_NS;
	engine->watches.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	id_table_init(&engine->watches.table, WATCHES_MAX);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	engine->notices.fd = pair[0];
	engine_lock(engine);
	assert_int_equal(engine_watch_progress(engine), 0);
	assert_int_equal(engine_watch_notices(engine), 0);
	assert_int_equal(engine_start_thread(engine), 0);
	engine_unlock(engine);
	return 0;
}

/*
 * A thread that serves, with a peer's doorbell, whose signal handler does not return until
 * `release_fds` is written.
 */
static int release_fds[2];
static sem_t is_in_handler;
static unsigned int peer_calls; /* guarded by engine.lock */

static void stay_in_handler(int signo)
{
	int saved = errno;
	uint8_t byte;

	(void)signo;
	sem_post(&is_in_handler);
	assert_int_equal(read(release_fds[0], &byte, 1), 1);
	errno = saved;
}

static void count_peer(struct engine *from, void *arg)
{
	(void)from;
	assert_false(event_fd_try(*(int *)arg));
	peer_calls++;
}

static void *serve_channel(void *channel)
{
	return (void *)(intptr_t)engine_serve_wait(&fake.engine, channel, true);
}

static void wait_until_parked(void)
{
	bool is_parked;

	do {
		sched_yield();
		engine_lock(&fake.engine);
		is_parked = progress_state(&fake.engine.progress) == PROGRESS_PARKED;
		engine_unlock(&fake.engine);
	} while (!is_parked);
}

static void wait_for_peer_calls(unsigned int calls)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	unsigned int now = 0;

	for (int ms = 0; now != calls && ms < PATIENCE_MS; ms++) {
		nanosleep(&nap, NULL);
		engine_lock(&fake.engine);
		now = peer_calls;
		engine_unlock(&fake.engine);
	}
	assert_int_equal(now, calls);
}

static void engine_serve_wait_in_signal_handler_leaves_doorbells_to_thread(void **state)
{
	const struct sigaction action = {.sa_handler = stay_in_handler, .sa_flags = SA_RESTART};
	struct comp_channel channel = {.set.epoll_fd = -1, .pub.fd = event_fd_open()};
	int peer_fd = event_fd_open();
	uint64_t peer_watch;
	pthread_t thread;
	void *result;

	(void)state;
	channel.units.fd = channel.pub.fd;
	channel.pub.context = fake.ctx;
	list_init(&channel.ready);
	list_init(&channel.signal_node);
	pthread_mutex_init(&channel.lock, NULL);
	assert_int_equal(pipe(release_fds), 0);
	sem_init(&is_in_handler, 0, 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	engine_lock(&fake.engine);
	assert_int_equal(engine_watch(&fake.engine, peer_fd, WATCH_BY_ANY, count_peer, &peer_fd,
				      &peer_watch),
			 0);
	engine_unlock(&fake.engine);
	assert_int_equal(pthread_create(&thread, NULL, serve_channel, &channel), 0);
	wait_until_parked();
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	while (sem_wait(&is_in_handler))
		;
	for (unsigned int i = 1; i <= 2; i++) {
		event_fd_post(peer_fd, 1);
		wait_for_peer_calls(i);
	}
	assert_int_equal(write(release_fds[1], "", 1), 1);
	event_fd_post(channel.pub.fd, 1);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, 0);
	engine_lock(&fake.engine);
	engine_unwatch(&fake.engine, peer_watch);
	watch_set_close(&fake.engine, &channel.set);
	engine_unlock(&fake.engine);
	close(channel.pub.fd);
	close(peer_fd);
	close(release_fds[0]);
	close(release_fds[1]);
	sem_destroy(&is_in_handler);
	pthread_mutex_destroy(&channel.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine_serve_wait_in_signal_handler_leaves_doorbells_to_thread),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
