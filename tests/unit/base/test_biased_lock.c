/* SPDX-License-Identifier: BSD-2-Clause */

/* Mutual exclusion, bias and revocation of biased_lock.h. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/biased_lock.h"

#define BIAS_ROUNDS 1000 /* more than the streak that gives the bias */
#define THREADS	    6	 /* more than BIASED_LOCK_ENTRIES */
#define ROUNDS	    20000u

static struct biased_lock lock;
static uint64_t count; /* guarded by lock */

static int open_lock(void **state)
{
	(void)state;
	barrier_register();
	biased_lock_init(&lock);
	count = 0;
	return 0;
}

static int close_lock(void **state)
{
	(void)state;
	biased_lock_fini(&lock);
	return 0;
}

static void gain_bias(void)
{
	for (int i = 0; i < BIAS_ROUNDS; i++) {
		biased_lock_acquire(&lock);
		biased_lock_release(&lock);
	}
	/* A kernel without membarrier(2) gives no bias. */
	if (!biased_lock_is_mine(&lock))
		skip();
}

static void *try_in_thread(void *arg)
{
	bool *is_taken = arg;

	*is_taken = biased_lock_try(&lock);
	if (*is_taken)
		biased_lock_release(&lock);
	return NULL;
}

static bool try_and_release(void)
{
	if (!biased_lock_try(&lock))
		return false;
	biased_lock_release(&lock);
	return true;
}

static bool another_thread_can_lock(void)
{
	pthread_t thread;
	bool is_taken;

	assert_int_equal(pthread_create(&thread, NULL, try_in_thread, &is_taken), 0);
	pthread_join(thread, NULL);
	return is_taken;
}

static void biased_lock_acquire_excludes_other_threads(void **state)
{
	(void)state;
	assert_false(biased_lock_is_mine(&lock));
	biased_lock_acquire(&lock);
	assert_false(another_thread_can_lock());
	biased_lock_release(&lock);
	assert_true(another_thread_can_lock());
}

static void biased_lock_acquire_by_bias_excludes_other_threads(void **state)
{
	(void)state;
	gain_bias();
	biased_lock_acquire(&lock);
	assert_false(another_thread_can_lock());
	/* An attempt does not end the bias. */
	assert_true(biased_lock_is_mine(&lock));
	biased_lock_release(&lock);
	assert_true(another_thread_can_lock());
	assert_false(biased_lock_is_mine(&lock));
	biased_lock_acquire(&lock);
	assert_false(another_thread_can_lock());
	biased_lock_release(&lock);
}

static void biased_lock_acquire_is_recursive(void **state)
{
	(void)state;
	biased_lock_acquire(&lock);
	biased_lock_acquire(&lock);
	assert_true(biased_lock_try(&lock));
	biased_lock_release(&lock);
	biased_lock_release(&lock);
	assert_false(another_thread_can_lock());
	biased_lock_release(&lock);
	gain_bias();
	biased_lock_acquire(&lock);
	biased_lock_acquire(&lock);
	assert_true(biased_lock_try(&lock));
	biased_lock_release(&lock);
	biased_lock_release(&lock);
	assert_false(another_thread_can_lock());
	biased_lock_release(&lock);
	assert_true(another_thread_can_lock());
}

/* The bias is regained after each revocation, and needs a longer streak if it was not used. */
static void biased_lock_bias_returns(void **state)
{
	(void)state;
	gain_bias();
	assert_true(another_thread_can_lock());
	assert_false(biased_lock_is_mine(&lock));
	gain_bias();
	biased_lock_acquire(&lock);
	assert_false(another_thread_can_lock());
	biased_lock_release(&lock);
}

static void *add_and_signal(void *arg)
{
	sem_post(arg);
	biased_lock_acquire(&lock);
	count++;
	biased_lock_release(&lock);
	return NULL;
}

/* A nested acquisition while another thread revokes the bias must not wait for that thread. */
static void biased_lock_nested_acquire_during_revocation_does_not_deadlock(void **state)
{
	pthread_t thread;
	sem_t started;

	(void)state;
	sem_init(&started, 0, 0);
	gain_bias();
	biased_lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, add_and_signal, &started), 0);
	while (sem_wait(&started))
		;
	/* Until the other thread has revoked the bias. */
	while (biased_lock_is_mine(&lock))
		sched_yield();
	biased_lock_acquire(&lock);
	biased_lock_release(&lock);
	assert_int_equal(count, 0);
	biased_lock_release(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(count, 1);
	sem_destroy(&started);
}

/*
 * Attempts that succeed until one fails. A streak of this thread would give it the bias, so that
 * another thread interrupts it.
 */
static unsigned int count_successful_attempts(unsigned int max)
{
	unsigned int done = 0;

	while (done < max && (done % 100 == 99 ? another_thread_can_lock() : try_and_release()))
		done++;
	return done;
}

static unsigned int count_refused_attempts(unsigned int max)
{
	unsigned int refused = 0;

	while (refused < max && !try_and_release())
		refused++;
	return refused;
}

/* `waiters` is what a thread stores that sleeps for the mutex and does not run when it is woken. */
static void biased_lock_try_leaves_lock_to_waiter_after_limit(void **state)
{
	const unsigned int many = BIASED_LOCK_OVERTAKES + BIASED_LOCK_REFUSALS;

	(void)state;
	assert_int_equal(count_successful_attempts(many), many);
	atomic_fetch_add(&lock.waiters, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(count_successful_attempts(many), BIASED_LOCK_OVERTAKES);
		/* The attempt that ended the count was refused, too. */
		assert_int_equal(count_refused_attempts(BIASED_LOCK_REFUSALS - 1),
				 BIASED_LOCK_REFUSALS - 1);
	}
	atomic_fetch_sub(&lock.waiters, 1);
}

static void biased_lock_try_by_holder_is_not_refused(void **state)
{
	(void)state;
	atomic_fetch_add(&lock.waiters, 1);
	assert_int_equal(count_successful_attempts(BIASED_LOCK_OVERTAKES), BIASED_LOCK_OVERTAKES);
	biased_lock_acquire(&lock);
	assert_true(try_and_release());
	biased_lock_release(&lock);
	assert_false(try_and_release());
	atomic_fetch_sub(&lock.waiters, 1);
}

static void biased_lock_acquire_of_waiter_ends_refusals(void **state)
{
	pthread_t thread;
	sem_t started;

	(void)state;
	sem_init(&started, 0, 0);
	atomic_fetch_add(&lock.waiters, 1);
	assert_int_equal(count_successful_attempts(BIASED_LOCK_OVERTAKES), BIASED_LOCK_OVERTAKES);
	assert_false(try_and_release());
	atomic_fetch_sub(&lock.waiters, 1);
	biased_lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, add_and_signal, &started), 0);
	/* Until the other thread sleeps, or is about to. */
	while (!atomic_load(&lock.waiters))
		sched_yield();
	biased_lock_release(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(count, 1);
	assert_int_equal(atomic_load(&lock.waiters), 0);
	assert_true(try_and_release());
	sem_destroy(&started);
}

static void biased_lock_let_waiters_returns_after_handover_or_time(void **state)
{
	uint32_t before = atomic_load(&lock.handovers);
	pthread_t thread;
	sem_t started;

	(void)state;
	/* No thread waits; then one that does not run when it is woken. */
	biased_lock_let_waiters(&lock);
	atomic_fetch_add(&lock.waiters, 1);
	biased_lock_let_waiters(&lock);
	atomic_fetch_sub(&lock.waiters, 1);
	assert_int_equal(atomic_load(&lock.handovers), before);
	sem_init(&started, 0, 0);
	biased_lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, add_and_signal, &started), 0);
	while (!atomic_load(&lock.waiters))
		sched_yield();
	biased_lock_release(&lock);
	while (atomic_load(&lock.handovers) == before)
		biased_lock_let_waiters(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(count, 1);
	assert_int_equal(atomic_load(&lock.givers), 0);
	sem_destroy(&started);
}

/*
 * Streaks of different length, so that the bias is given, revoked during a hold, and given to other
 * threads.
 */
static void *count_in_streaks(void *arg)
{
	uint32_t random = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		bool is_taken = true;

		if (i % 16 == 7)
			is_taken = biased_lock_try(&lock);
		else
			biased_lock_acquire(&lock);
		if (is_taken) {
			count++;
			if (i % 8 == 3) {
				biased_lock_acquire(&lock);
				count++;
				biased_lock_release(&lock);
				count--;
			}
			biased_lock_release(&lock);
		} else {
			biased_lock_acquire(&lock);
			count++;
			biased_lock_release(&lock);
		}
		random = random * 1664525 + 1013904223;
		if (random >> 22 == 0)
			sched_yield();
		if (random >> 20 == 0)
			usleep(random >> 12 & 255);
	}
	return NULL;
}

static void biased_lock_threads_count_exactly(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_in_streaks, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, (uint64_t)THREADS * ROUNDS);
}

/*
 * The thread with the bias never waits in between, and each acquisition of the other thread revokes
 * the bias.
 */
static void biased_lock_revocations_count_exactly(void **state)
{
	pthread_t threads[2];

	(void)state;
	for (int round = 0; round < 20; round++) {
		biased_lock_fini(&lock);
		biased_lock_init(&lock);
		gain_bias();
		count = 0;
		assert_int_equal(pthread_create(&threads[0], NULL, count_in_streaks, (void *)1), 0);
		assert_int_equal(pthread_create(&threads[1], NULL, count_in_streaks, (void *)2), 0);
		for (uint32_t i = 0; i < ROUNDS; i++) {
			biased_lock_acquire(&lock);
			count++;
			biased_lock_release(&lock);
		}
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		assert_int_equal(count, 3 * ROUNDS);
	}
}

/*
 * In the child of a fork() the copy of the lock is held by the calling thread, and can be biased
 * again.
 */
static void biased_lock_init_in_forked_child_is_free(void **state)
{
	int status;
	pid_t child;

	(void)state;
	gain_bias();
	biased_lock_acquire(&lock);
	child = fork();
	if (!child) {
		barrier_register();
		biased_lock_init(&lock);
		gain_bias();
		biased_lock_acquire(&lock);
		_exit(another_thread_can_lock());
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	biased_lock_release(&lock);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_lock, close_lock)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(biased_lock_acquire_excludes_other_threads),
		TEST(biased_lock_acquire_by_bias_excludes_other_threads),
		TEST(biased_lock_acquire_is_recursive),
		TEST(biased_lock_bias_returns),
		TEST(biased_lock_nested_acquire_during_revocation_does_not_deadlock),
		TEST(biased_lock_try_leaves_lock_to_waiter_after_limit),
		TEST(biased_lock_try_by_holder_is_not_refused),
		TEST(biased_lock_acquire_of_waiter_ends_refusals),
		TEST(biased_lock_let_waiters_returns_after_handover_or_time),
		TEST(biased_lock_threads_count_exactly),
		TEST(biased_lock_revocations_count_exactly),
		TEST(biased_lock_init_in_forked_child_is_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
