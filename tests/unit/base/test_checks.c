/* SPDX-License-Identifier: BSD-2-Clause */

/* Which thread holds a lock, and checks that fail. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "../lock_death.h"
#include "base/checks.h"

#define BIAS_ROUNDS 1000 /* more than the streak that gives the bias */

static struct biased_lock lock;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int open_lock(void **state)
{
	(void)state;
	barrier_register();
	biased_lock_init(&lock);
	return 0;
}

static int close_lock(void **state)
{
	(void)state;
	biased_lock_fini(&lock);
	return 0;
}

static void *look_at_locks(void *arg)
{
	bool *is_held = arg;

	*is_held = biased_lock_is_held(&lock) || mutex_is_held(&mutex);
	return NULL;
}

/* Whether another thread believes that it holds one of the locks. */
static bool is_held_by_another(void)
{
	pthread_t thread;
	bool is_held;

	assert_int_equal(pthread_create(&thread, NULL, look_at_locks, &is_held), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return is_held;
}

static void expect_held_between_acquire_and_release(void)
{
	assert_false(biased_lock_is_held(&lock));
	biased_lock_acquire(&lock);
	assert_true(biased_lock_is_held(&lock));
	assert_false(is_held_by_another());
	biased_lock_acquire(&lock);
	assert_true(biased_lock_is_held(&lock));
	biased_lock_release(&lock);
	assert_true(biased_lock_is_held(&lock));
	biased_lock_release(&lock);
	assert_false(biased_lock_is_held(&lock));
}

static void biased_lock_is_held_by_mutex_only_by_its_thread(void **state)
{
	(void)state;
	assert_false(biased_lock_is_mine(&lock));
	expect_held_between_acquire_and_release();
}

static void biased_lock_is_held_by_bias_only_by_its_thread(void **state)
{
	(void)state;
	for (int i = 0; i < BIAS_ROUNDS; i++) {
		biased_lock_acquire(&lock);
		biased_lock_release(&lock);
	}
	/* A kernel without membarrier(2) gives no bias. */
	if (!biased_lock_is_mine(&lock))
		skip();
	expect_held_between_acquire_and_release();
	assert_true(biased_lock_is_mine(&lock));
}

static void *acquire_and_release(void *arg)
{
	(void)arg;
	biased_lock_acquire(&lock);
	biased_lock_release(&lock);
	return NULL;
}

static void biased_lock_is_held_after_revocation_only_while_acquired(void **state)
{
	pthread_t thread;

	(void)state;
	for (int i = 0; i < BIAS_ROUNDS; i++) {
		biased_lock_acquire(&lock);
		biased_lock_release(&lock);
	}
	assert_int_equal(pthread_create(&thread, NULL, acquire_and_release, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(biased_lock_is_mine(&lock));
	expect_held_between_acquire_and_release();
}

static void mutex_is_held_only_by_the_thread_that_locked_it(void **state)
{
	(void)state;
	assert_false(mutex_is_held(&mutex));
	pthread_mutex_lock(&mutex);
	assert_true(mutex_is_held(&mutex));
	assert_false(is_held_by_another());
	pthread_mutex_unlock(&mutex);
	assert_false(mutex_is_held(&mutex));
	assert_int_equal(pthread_mutex_trylock(&mutex), 0);
	assert_true(mutex_is_held(&mutex));
	pthread_mutex_unlock(&mutex);
}

static void check_locked(void *arg)
{
	mutex_assert_locked((pthread_mutex_t *)arg);
}

static void check_unlocked(void *arg)
{
	mutex_assert_unlocked((pthread_mutex_t *)arg);
}

static void mutex_assert_locked_without_mutex_aborts(void **state)
{
	(void)state;
	expect_lock_check(check_locked, &mutex, "check_locked()", "must be held");
	pthread_mutex_lock(&mutex);
	check_locked(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void lock_and_check_unlocked(void *arg)
{
	pthread_mutex_lock(arg);
	check_unlocked(arg);
}

static void mutex_assert_unlocked_with_mutex_aborts(void **state)
{
	(void)state;
	check_unlocked(&mutex);
	expect_lock_check(lock_and_check_unlocked, &mutex, "check_unlocked()", "must not be held");
}

#define LOCK_TEST(name) cmocka_unit_test_setup_teardown(name, open_lock, close_lock)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOCK_TEST(biased_lock_is_held_by_mutex_only_by_its_thread),
		LOCK_TEST(biased_lock_is_held_by_bias_only_by_its_thread),
		LOCK_TEST(biased_lock_is_held_after_revocation_only_while_acquired),
		cmocka_unit_test(mutex_is_held_only_by_the_thread_that_locked_it),
		cmocka_unit_test(mutex_assert_locked_without_mutex_aborts),
		cmocka_unit_test(mutex_assert_unlocked_with_mutex_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
