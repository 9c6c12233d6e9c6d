/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_CHECKS_H
#define USRDMA_BASE_CHECKS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/biased_lock.h"

/*
 * Checks of a function's rules: that the calling thread holds a lock, or does not hold it
 * (docs/adr/0079), and that an input occurs in the state of a table. They exist in checking builds:
 * -Dchecks=enabled, and builds with a sanitizer. A check that fails writes the name of the function
 * and the rule to standard error and calls abort(). In other builds the macros generate no code and
 * do not evaluate their arguments.
 */

/* The calling thread holds the lock, by its mutex or by its bias. */
bool biased_lock_is_held(const struct biased_lock *lock);

/*
 * The calling thread holds the mutex, which is not shared with other processes. In the child of a
 * fork() false for a mutex that was locked before: the C library stores the number of the kernel's
 * thread.
 */
bool mutex_is_held(const pthread_mutex_t *mutex);

/* `rule` is a sentence that is true whenever the function is called. */
void check_failed(const char *function, const char *rule) __attribute__((noreturn, cold));

#ifdef USRDMA_CHECKS
#define CHECK_RULE(is_true, rule) ((is_true) ? (void)0 : check_failed(__func__, rule))
#else
#define CHECK_RULE(is_true, rule) ((void)sizeof(is_true))
#endif

#define biased_lock_assert_locked(lock) CHECK_RULE(biased_lock_is_held(lock), #lock " must be held")
#define mutex_assert_locked(mutex)	CHECK_RULE(mutex_is_held(mutex), #mutex " must be held")
#define mutex_assert_unlocked(mutex)	CHECK_RULE(!mutex_is_held(mutex), #mutex " must not be held")

#endif
