/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/checks.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

bool biased_lock_is_held(const struct biased_lock *lock)
{
	uintptr_t self = (uintptr_t)pthread_self();
	const struct biased_lock_entry *entry;

	if (atomic_load_explicit(&lock->holder, memory_order_relaxed) == self)
		return true;
	/*
	 * Only the thread of an entry changes its depth, and no thread is given the bias while
	 * another one holds the lock by it.
	 */
	entry = atomic_load_explicit(&lock->biased, memory_order_acquire);
	return entry && entry->thread == self &&
	       atomic_load_explicit(&entry->depth, memory_order_relaxed);
}

bool mutex_is_held(const pthread_mutex_t *mutex)
{
	return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == gettid();
}

void check_failed(const char *function, const char *rule)
{
	log_print(LOG_LEVEL_USER, "check failed: %s(): %s", function, rule);
	abort();
}
