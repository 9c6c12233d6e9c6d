/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_BIASED_LOCK_H
#define USRDMA_BASE_BIASED_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/barrier.h"

/*
 * A recursive lock that is biased to the thread that uses it most (quickly reacquirable locks;
 * Dice, Moir and Scherer, 2003). The biased thread acquires and releases it with plain loads and
 * stores, without an atomic read-modify-write operation and without a memory fence. Any other
 * thread acquires the mutex, revokes the bias, and executes barrier_threads() in place of both
 * fences. Without barrier_has_threads, the lock is a mutex.
 *
 * Protocol: a thread holds the lock if it holds `mutex` and `owner` is NULL and no bias hold is in
 * progress, or if its entry's `depth` is not 0 and it found `owner` to be its entry after it had
 * stored `depth`.
 *
 *     biased thread:  store entry.depth = 1; barrier_light(); load owner
 *     other thread:   lock mutex; store owner = NULL; barrier_threads(); wait until entry.depth is
 *                     0
 *
 * After barrier_threads(), either the biased thread finds the NULL, or the other thread finds the
 * depth. Release is symmetric with `depth` and `is_awaited`. `biased` keeps the entry while the
 * bias is revoked: a nested acquisition in a thread that holds the lock must not wait for the
 * mutex.
 *
 * Only its thread stores depth in an entry, and an entry never changes its thread: a thread that
 * was suspended between the load of `biased` and the store of `depth` may resume after another
 * thread was given the bias. Once all entries are used, no further thread is given the bias.
 *
 * Orders: the release store of `depth` pairs with its acquire load in bias_revoke(): the other
 * thread finds what the biased thread has changed. The opposite direction needs no acquire. Only a
 * thread that holds `mutex` gives itself the bias, so that it has found all changes of other
 * threads by then, and these change nothing while it has the bias. A processor may perform loads of
 * the biased thread before its load of `owner`. If that load finds the entry, the other thread has
 * not executed barrier_threads() yet, and finds `depth` after it.
 * tests/unit/local/test_memory_order.c searches all executions.
 */
#define BIASED_LOCK_ENTRIES 4

/* After this many successful attempts while threads wait, … */
#define BIASED_LOCK_OVERTAKES 512u
/*
 * … this many attempts leave the lock to the threads that wait, unless one of them acquires it
 * before.
 */
#define BIASED_LOCK_REFUSALS 65536u

struct biased_lock_entry {
	uintptr_t thread; /* pthread_self(); a later thread with the same value may use the entry */
	_Atomic uint32_t depth;	     /* how often the thread holds the lock by its bias; a futex */
	_Atomic uint32_t is_awaited; /* another thread waits until `depth` is 0 */
	uint32_t uses;		     /* acquisitions by the bias */
};

struct biased_lock {
	_Atomic(struct biased_lock_entry *)
		owner; /* NULL: no thread may acquire the lock without the mutex */
	_Atomic(struct biased_lock_entry *) biased; /* the last value of `owner` other than NULL */
	/* how often the holder holds `mutex`; 0: it holds the lock by its bias */
	uint32_t mutex_depth;
	/* the thread that holds `mutex`; 0: none, or it only tries to revoke the bias */
	_Atomic uintptr_t holder;
	_Atomic uint32_t waiters;   /* threads that sleep until `mutex` is released */
	_Atomic uint32_t refusals;  /* the next attempts that leave the lock to the waiters */
	_Atomic uint32_t handovers; /* acquisitions by waiters; a futex */
	_Atomic uint32_t givers;    /* threads that wait for a handover */
	pthread_mutex_t mutex;
	/* The following fields are accessed with `mutex` held. */
	/* attempts that acquired the lock since a waiter did, while threads waited */
	uint32_t overtakes;
	uintptr_t last_thread; /* that acquired the mutex */
	uint32_t streak;       /* successive acquisitions of the mutex by last_thread */
	uint32_t bias_after;   /* the streak after which a thread is given the bias */
	uint32_t first_use;    /* biased->uses when the bias was given */
	uint32_t entry_count;
	struct biased_lock_entry entries[BIASED_LOCK_ENTRIES];
};

/*
 * The lock is not biased yet. May be called again in the child of a fork() if the state of the lock
 * is lost.
 */
void biased_lock_init(struct biased_lock *lock);
void biased_lock_fini(struct biased_lock *lock);

/* Whether the calling thread would acquire the lock by its bias. */
bool biased_lock_is_mine(const struct biased_lock *lock);

/* Whether the calling thread, which holds the lock, acquired it more than once. */
bool biased_lock_is_nested(const struct biased_lock *lock);

/*
 * Lets a thread that sleeps for the lock acquire it before the caller, who does not hold it:
 * returns when one has, when none sleeps, or after BIASED_LOCK_GIVE_NS, because the sleeping thread
 * may be suspended.
 */
void biased_lock_let_waiters(struct biased_lock *lock);
#define BIASED_LOCK_GIVE_NS 1000000u

/* The slow paths of the functions below. */
void biased_lock_acquire_slow(struct biased_lock *lock);
bool biased_lock_try_slow(struct biased_lock *lock);
void biased_lock_release_slow(struct biased_lock *lock);
void biased_lock_wake(struct biased_lock_entry *entry);

/* Releases one hold by the bias. */
static inline void biased_lock_drop(struct biased_lock_entry *entry)
{
	uint32_t depth = atomic_load_explicit(&entry->depth, memory_order_relaxed) - 1;

	atomic_store_explicit(&entry->depth, depth, memory_order_release);
	barrier_light();
	if (__builtin_expect(
		    !depth && atomic_load_explicit(&entry->is_awaited, memory_order_relaxed), 0))
		biased_lock_wake(entry);
}

/* Acquires the lock by the bias; false: the calling thread does not have the bias. */
static inline bool biased_lock_acquire_fast(struct biased_lock *lock)
{
	struct biased_lock_entry *entry = atomic_load_explicit(&lock->biased, memory_order_acquire);
	uint32_t depth;

	if (__builtin_expect(!entry || entry->thread != (uintptr_t)pthread_self(), 0))
		return false;
	depth = atomic_load_explicit(&entry->depth, memory_order_relaxed);
	atomic_store_explicit(&entry->depth, depth + 1, memory_order_relaxed);
	barrier_light();
	if (__builtin_expect(depth || atomic_load_explicit(&lock->owner, memory_order_relaxed) ==
					      entry,
			     1)) {
		entry->uses++;
		return true;
	}
	biased_lock_drop(entry);
	return false;
}

static inline void biased_lock_acquire(struct biased_lock *lock)
{
	if (!biased_lock_acquire_fast(lock))
		biased_lock_acquire_slow(lock);
}

/*
 * Does not wait. false: another thread holds the lock, or a thread has waited for it during many
 * successful attempts.
 */
static inline bool biased_lock_try(struct biased_lock *lock)
{
	return biased_lock_acquire_fast(lock) || biased_lock_try_slow(lock);
}

static inline void biased_lock_release(struct biased_lock *lock)
{
	if (__builtin_expect(lock->mutex_depth != 0, 0))
		biased_lock_release_slow(lock);
	else
		biased_lock_drop(atomic_load_explicit(&lock->biased, memory_order_relaxed));
}

#endif
