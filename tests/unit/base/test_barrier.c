/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <cmocka.h>
#include <linux/membarrier.h>

#include "base/barrier.h"

/*
 * base/barrier.c without a kernel: membarrier(2) and nanosleep(2) are replaced. The other thread's
 * calls are made in the replaced nanosleep().
 */
static bool is_refused;
static unsigned int barriers, drains;
static void (*during_drain)(void);

static long fake_membarrier(int command)
{
	if (is_refused)
		return -1;
	barriers += command == MEMBARRIER_CMD_PRIVATE_EXPEDITED;
	return 0;
}

static long fake_nanosleep(void)
{
	void (*call)(void) = during_drain;

	drains++;
	during_drain = NULL;
	if (call)
		call();
	return 0;
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list args;
	int command;

	if (number == SYS_nanosleep)
		return fake_nanosleep();
	assert_int_equal(number, SYS_membarrier);
	va_start(args, number);
	command = va_arg(args, int);
	va_end(args);
	return fake_membarrier(command);
}

static int start_registered(void **state)
{
	(void)state;
	is_refused = false;
	barrier_register();
	barriers = 0;
	drains = 0;
	during_drain = NULL;
	return 0;
}

static void barrier_threads_if_light_calls_membarrier_after_registration(void **state)
{
	(void)state;
	barrier_threads_if_light();
	assert_int_equal(barriers, 1);
	assert_int_equal(drains, 0);
}

static void barrier_threads_waits_for_stores_if_membarrier_begins_to_fail(void **state)
{
	(void)state;
	is_refused = true;
	barrier_threads();
	assert_int_equal(drains, 1);
	assert_false(atomic_load(&barrier_has_threads));
}

/* The stores of a thread that found barrier_has_threads just before may not be visible yet. */
static void barrier_threads_if_light_waits_while_another_thread_waits(void **state)
{
	(void)state;
	is_refused = true;
	during_drain = barrier_threads_if_light;
	barrier_threads();
	assert_int_equal(drains, 2);
}

static void barrier_threads_if_light_returns_at_once_after_the_wait(void **state)
{
	(void)state;
	is_refused = true;
	barrier_threads();
	barrier_threads_if_light();
	assert_int_equal(drains, 1);
}

static void barrier_threads_if_light_returns_at_once_without_registration(void **state)
{
	(void)state;
	is_refused = true;
	barrier_threads();
	barrier_register();
	drains = 0;
	assert_false(atomic_load(&barrier_has_threads));
	barrier_threads_if_light();
	assert_int_equal(drains, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, start_registered)
	static const struct CMUnitTest tests[] = {
		CASE(barrier_threads_if_light_calls_membarrier_after_registration),
		CASE(barrier_threads_waits_for_stores_if_membarrier_begins_to_fail),
		CASE(barrier_threads_if_light_waits_while_another_thread_waits),
		CASE(barrier_threads_if_light_returns_at_once_after_the_wait),
		CASE(barrier_threads_if_light_returns_at_once_without_registration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
