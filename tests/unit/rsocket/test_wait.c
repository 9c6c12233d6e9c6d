/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Sleeping for an rsocket: what wakes a thread, what ends a wait, and that no notification is lost
 * between threads.
 */

#include "fake_sock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/restarts.h"
#include "rsocket/wait.h"

static struct fake_sock *fake;

static int make(void **state)
{
	(void)state;
	fake = fake_sock_new(SOCK_STREAM);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	rsock_put(&fake->sock);
	return 0;
}

static int wait_for_something(bool must_not_wait, uint64_t deadline_ns)
{
	int ret;

	rsock_lock(&fake->sock);
	ret = rsock_wait(&fake->sock, fake_sock_has_something, must_not_wait, deadline_ns);
	rsock_unlock(&fake->sock);
	return ret;
}

static void rsock_wait_true_condition_returns_at_once(void **state)
{
	(void)state;
	fake->available = 1;
	assert_int_equal(wait_for_something(true, WAIT_FOR_EVER), 0);
	assert_int_equal(fake->armed, 0);
}

static void rsock_wait_nonblocking_fails_with_eagain(void **state)
{
	(void)state;
	assert_int_equal(wait_for_something(true, WAIT_FOR_EVER), -EAGAIN);
	assert_int_equal(fake->armed, 0);
}

static void rsock_wait_deadline_fails_with_etimedout(void **state)
{
	(void)state;
	assert_int_equal(wait_for_something(false, clock_now_ns() + 1000000), -EAGAIN);
	assert_true(fake->armed > 0);
	assert_true(list_is_empty(&fake->sock.waiters));
}

static void rsock_wait_readable_descriptor_wakes(void **state)
{
	(void)state;
	fake_sock_post(fake);
	assert_int_equal(wait_for_something(false, WAIT_FOR_EVER), 0);
}

static void rsock_wait_closed_socket_fails_with_ebadf(void **state)
{
	(void)state;
	fake->sock.is_closed = true;
	assert_int_equal(wait_for_something(false, WAIT_FOR_EVER), -EBADF);
	assert_int_equal(wait_for_something(true, WAIT_FOR_EVER), -EBADF);
}

static void *wait_and_take(void *arg)
{
	intptr_t ret;

	(void)arg;
	rsock_lock(&fake->sock);
	ret = rsock_wait(&fake->sock, fake_sock_has_something, false, WAIT_FOR_EVER);
	if (!ret)
		fake->available--;
	rsock_unlock(&fake->sock);
	return (void *)ret;
}

/* Each of several sleeping threads is notified, whichever of them reads the descriptor. */
static void rsock_wait_several_threads_are_all_woken(void **state)
{
	enum { THREADS = 4, ROUNDS = 200 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];
		void *ret;

		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, wait_and_take, NULL), 0);
		for (int i = 0; i < THREADS; i++)
			fake_sock_post(fake);
		for (int i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(threads[i], &ret), 0);
			assert_int_equal((intptr_t)ret, 0);
		}
		assert_int_equal(fake->available, 0);
	}
}

/* A busy thread consumes the notification without sleeping, and wakes the sleeping one. */
static void rsock_progress_busy_thread_wakes_sleeping_thread(void **state)
{
	pthread_t thread;
	void *ret;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_and_take, NULL), 0);
	rsock_lock(&fake->sock);
	while (list_is_empty(&fake->sock.waiters)) {
		rsock_unlock(&fake->sock);
		sched_yield();
		rsock_lock(&fake->sock);
	}
	fake_sock_post(fake);
	rsock_progress(&fake->sock, true);
	rsock_unlock(&fake->sock);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, 0);
}

static void on_signal(int number)
{
	(void)number;
}

/* ThreadSanitizer replaces a program's signal handlers and their flags by its own. */
#ifdef __SANITIZE_THREAD__
static const bool handlers_are_ours = false;
#else
static const bool handlers_are_ours = true;
#endif

static void wait_restarts_follows_sa_restart(void **state)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	(void)state;
	if (!handlers_are_ours)
		skip();
	assert_false(wait_has_handler());
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_true(wait_restarts());
	assert_true(wait_has_handler());
	action.sa_flags = 0;
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_false(wait_restarts());
	action.sa_handler = SIG_DFL;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
}

static void *wait_for_thread(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)wait_for_something(false, WAIT_FOR_EVER);
}

static void rsock_wait_signal_fails_with_eintr(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t thread;
	void *ret = NULL;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_thread, NULL), 0);
	while (pthread_tryjoin_np(thread, &ret)) {
		pthread_kill(thread, SIGUSR1);
		poll(NULL, 0, 1);
	}
	assert_int_equal((intptr_t)ret, -EINTR);
	action.sa_handler = SIG_DFL;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void wait_timeout_ms_rounds_up(void **state)
{
	(void)state;
	assert_int_equal(wait_timeout_ms(1000, WAIT_FOR_EVER, 500), 500);
	assert_int_equal(wait_timeout_ms(1000, WAIT_FOR_EVER, UINT32_MAX), INT_MAX);
	assert_int_equal(wait_timeout_ms(0, 1, 500), 1);
	assert_int_equal(wait_timeout_ms(0, CLOCK_NS_PER_MS, 500), 1);
	assert_int_equal(wait_timeout_ms(0, CLOCK_NS_PER_MS + 1, 500), 2);
	assert_int_equal(wait_timeout_ms(0, CLOCK_NS_PER_S, 500), 500);
	assert_int_equal(wait_timeout_ms(CLOCK_NS_PER_S, 1, 500), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rsock_wait_true_condition_returns_at_once, make,
						drop),
		cmocka_unit_test_setup_teardown(rsock_wait_nonblocking_fails_with_eagain, make,
						drop),
		cmocka_unit_test_setup_teardown(rsock_wait_deadline_fails_with_etimedout, make,
						drop),
		cmocka_unit_test_setup_teardown(rsock_wait_readable_descriptor_wakes, make, drop),
		cmocka_unit_test_setup_teardown(rsock_wait_closed_socket_fails_with_ebadf, make,
						drop),
		cmocka_unit_test_setup_teardown(rsock_wait_several_threads_are_all_woken, make,
						drop),
		cmocka_unit_test_setup_teardown(rsock_progress_busy_thread_wakes_sleeping_thread,
						make, drop),
		cmocka_unit_test(wait_restarts_follows_sa_restart),
		cmocka_unit_test_setup_teardown(rsock_wait_signal_fails_with_eintr, make, drop),
		cmocka_unit_test(wait_timeout_ms_rounds_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
