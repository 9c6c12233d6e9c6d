/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/biased_lock.h"

#include <errno.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/checks.h"

/*
 * A thread is given the bias after this many successive acquisitions of the mutex. Revocation costs
 * some microseconds, so that the number is doubled if the thread has used the bias less than WORTH
 * times as often.
 */
#define BIAS_AFTER_MIN 256u
#define BIAS_AFTER_MAX 65536u
#define WORTH	       64u

void biased_lock_init(struct biased_lock *lock)
{
	pthread_mutexattr_t attr;

	*lock = (struct biased_lock){.bias_after = BIAS_AFTER_MIN};
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

void biased_lock_fini(struct biased_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

bool biased_lock_is_mine(const struct biased_lock *lock)
{
	const struct biased_lock_entry *entry = atomic_load(&lock->owner);

	return entry && entry->thread == (uintptr_t)pthread_self();
}

bool biased_lock_is_nested(const struct biased_lock *lock)
{
	const struct biased_lock_entry *entry;

	if (lock->mutex_depth)
		return lock->mutex_depth > 1;
	entry = atomic_load_explicit(&lock->biased, memory_order_relaxed);
	return atomic_load_explicit(&entry->depth, memory_order_relaxed) > 1;
}

void biased_lock_wake(struct biased_lock_entry *entry)
{
	int saved = errno;

	futex_wake_all(&entry->depth);
	errno = saved;
}

/* The bias was revoked. Chooses the streak after which a thread is given the bias again. */
static void bias_has_ended(struct biased_lock *lock, const struct biased_lock_entry *entry)
{
	if (entry->uses - lock->first_use >= WORTH * lock->bias_after)
		lock->bias_after = BIAS_AFTER_MIN;
	else if (lock->bias_after < BIAS_AFTER_MAX)
		lock->bias_after *= 2;
}

/*
 * Revokes the bias of another thread. `mutex` held. With may_wait, waits until that thread has
 * released the lock. Otherwise returns false if it holds the lock, and leaves the bias.
 */
static bool bias_revoke(struct biased_lock *lock, bool may_wait)
{
	struct biased_lock_entry *entry = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	int saved = errno;
	uint32_t depth;

	mutex_assert_locked(&lock->mutex);
	if (!entry)
		return true;
	atomic_store_explicit(&entry->is_awaited, 1, memory_order_relaxed);
	atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
	barrier_threads();
	while ((depth = atomic_load_explicit(&entry->depth, memory_order_acquire)) && may_wait)
		futex_wait(&entry->depth, depth, 0);
	atomic_store_explicit(&entry->is_awaited, 0, memory_order_relaxed);
	if (depth)
		atomic_store_explicit(&lock->owner, entry, memory_order_relaxed);
	else
		bias_has_ended(lock, entry);
	errno = saved;
	return !depth;
}

/* The thread has acquired the mutex and holds the lock. */
static void lock_by_mutex(struct biased_lock *lock)
{
	uintptr_t self = (uintptr_t)pthread_self();

	if (lock->mutex_depth++)
		return;
	atomic_store_explicit(&lock->holder, self, memory_order_relaxed);
	lock->streak = lock->last_thread == self ? lock->streak + 1 : 1;
	lock->last_thread = self;
}

/*
 * The holds of the data path last less than a microsecond, and less than the system calls of a
 * thread that waits.
 */
#define SPINS 64

/* Leaves the execution units to the other thread of the core. */
static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * The mutex has no queue: a thread that was woken for it finds it taken again if other threads
 * acquire it all the time. Polling threads do so by attempts. If BIASED_LOCK_OVERTAKES attempts
 * have succeeded while threads wait, and no waiter has succeeded, the next BIASED_LOCK_REFUSALS
 * attempts fail. They take about as long as a time slice of the scheduler. The number is limited,
 * because an attempt must not depend on a thread that does not run.
 */
static void acquire_mutex(struct biased_lock *lock)
{
	for (int i = 0; i < SPINS; i++) {
		if (!pthread_mutex_trylock(&lock->mutex))
			return;
		relax();
	}
	atomic_fetch_add_explicit(&lock->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&lock->mutex);
	atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
	lock->overtakes = 0;
	atomic_store_explicit(&lock->refusals, 0, memory_order_relaxed);
	atomic_fetch_add(&lock->handovers, 1);
	if (atomic_load(&lock->givers))
		futex_wake_all(&lock->handovers);
}

void biased_lock_let_waiters(struct biased_lock *lock)
{
	uint32_t seen = atomic_load(&lock->handovers);
	int saved = errno;

	if (!atomic_load(&lock->waiters))
		return;
	atomic_fetch_add(&lock->givers, 1);
	futex_wait(&lock->handovers, seen, clock_now_ns() + BIASED_LOCK_GIVE_NS);
	atomic_fetch_sub(&lock->givers, 1);
	errno = saved;
}

void biased_lock_acquire_slow(struct biased_lock *lock)
{
	acquire_mutex(lock);
	(void)bias_revoke(lock, true);
	lock_by_mutex(lock);
}

/* Whether the attempt leaves the lock to a waiter. Nested attempts of the holder do not. */
static bool is_left_to_waiter(struct biased_lock *lock)
{
	uint32_t left = atomic_load_explicit(&lock->refusals, memory_order_relaxed);

	return left &&
	       atomic_load_explicit(&lock->holder, memory_order_relaxed) !=
		       (uintptr_t)pthread_self() &&
	       atomic_compare_exchange_strong_explicit(&lock->refusals, &left, left - 1,
						       memory_order_relaxed, memory_order_relaxed);
}

/* An attempt has acquired the mutex. */
static void count_overtake(struct biased_lock *lock)
{
	if (!atomic_load_explicit(&lock->waiters, memory_order_relaxed) || lock->mutex_depth > 1 ||
	    ++lock->overtakes < BIASED_LOCK_OVERTAKES)
		return;
	lock->overtakes = 0;
	atomic_store_explicit(&lock->refusals, BIASED_LOCK_REFUSALS, memory_order_relaxed);
}

bool biased_lock_try_slow(struct biased_lock *lock)
{
	const struct biased_lock_entry *entry = atomic_load_explicit(&lock->owner,
								     memory_order_acquire);

	/* Without the mutex, this is only a hint, which saves the barrier. */
	if (entry && atomic_load_explicit(&entry->depth, memory_order_relaxed))
		return false;
	if (is_left_to_waiter(lock) || pthread_mutex_trylock(&lock->mutex))
		return false;
	if (!bias_revoke(lock, false)) {
		pthread_mutex_unlock(&lock->mutex);
		return false;
	}
	lock_by_mutex(lock);
	count_overtake(lock);
	return true;
}

/* The entry of the thread; a new one if necessary. NULL: all are used. */
static struct biased_lock_entry *bias_entry(struct biased_lock *lock, uintptr_t thread)
{
	for (uint32_t i = 0; i < lock->entry_count; i++) {
		if (lock->entries[i].thread == thread)
			return &lock->entries[i];
	}
	if (lock->entry_count == BIASED_LOCK_ENTRIES)
		return NULL;
	lock->entries[lock->entry_count].thread = thread;
	return &lock->entries[lock->entry_count++];
}

/* Gives the bias to the calling thread, which holds the mutex. */
static void bias_give(struct biased_lock *lock)
{
	struct biased_lock_entry *entry = bias_entry(lock, lock->last_thread);

	lock->streak = 0;
	if (!entry)
		return;
	lock->first_use = entry->uses;
	atomic_store_explicit(&lock->biased, entry, memory_order_release);
	atomic_store_explicit(&lock->owner, entry, memory_order_release);
}

void biased_lock_release_slow(struct biased_lock *lock)
{
	if (!--lock->mutex_depth) {
		atomic_store_explicit(&lock->holder, 0, memory_order_relaxed);
		if (lock->streak >= lock->bias_after &&
		    atomic_load_explicit(&barrier_has_threads, memory_order_relaxed))
			bias_give(lock);
	}
	pthread_mutex_unlock(&lock->mutex);
}
