/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_WAKE_H
#define USRDMA_CORE_ENGINE_WAKE_H

#include <stdbool.h>

/*
 * Wakes threads after engine.lock has been released: a thread that is woken earlier would wait for
 * the lock on another processor, and other threads would wait for the lock during the system call.
 */

struct engine;

/*
 * A socket whose other end is the doorbell of another process, or an eventfd. Closed when the last
 * reference ends.
 */
struct doorbell {
	int fd; /* -1: closed, in the child of a fork() */
	bool is_eventfd;
	unsigned int references;
};

/* Number of doorbells that wait for engine_unlock(); further ones are rung at once. */
#define WAKES_MAX 8

/* What engine_unlock() wakes. */
struct wakes {
	struct doorbell *doorbells[WAKES_MAX]; /* with one reference each */
	unsigned int doorbell_count;
	bool wakes_thread; /* the engine thread of this process */
};

/* Takes over the socket. NULL: no memory; the caller still owns the socket. */
struct doorbell *doorbell_new(int fd);
/* The same for an eventfd. */
struct doorbell *doorbell_new_eventfd(int fd);

/* Another reference to the same doorbell, which is returned. NULL is allowed. */
struct doorbell *doorbell_get(struct doorbell *doorbell);

/* Whether there is another reference than that of the caller. */
bool doorbell_is_shared(const struct doorbell *doorbell);

/* Ends a reference. NULL is allowed. */
void doorbell_put(struct doorbell *doorbell);

/*
 * In the child of a fork(): closes the copy of the socket. The threads that had other references do
 * not exist there.
 */
void doorbell_disown(struct doorbell *doorbell);

/* Sends one message of one byte, or adds one unit. Does not block. */
void doorbell_ring(const struct doorbell *doorbell);

/* As doorbell_ring(), when the calling thread releases engine.lock. engine.lock held. */
void doorbell_ring_late(struct engine *engine, struct doorbell *doorbell);

/* As engine_wake(), when the calling thread releases engine.lock. engine.lock held. */
void engine_wake_late(struct engine *engine);

/*
 * In the child of a fork(): empties engine.wakes. The parent rings these doorbells and wakes its
 * engine thread.
 */
void wakes_forget(struct engine *engine);

/*
 * Releases engine.lock, which is held. If the calling thread does not hold it any more, wakes all
 * that wait in engine.wakes and engine.signals. errno does not change.
 */
void engine_unlock_and_wake(struct engine *engine);

#endif
