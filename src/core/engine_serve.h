/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_SERVE_H
#define USRDMA_CORE_ENGINE_SERVE_H

#include <stdbool.h>

struct engine;

/*
 * A thread of the application that waits for an event of a completion channel runs the transports itself (docs/adr/0045): a
 * doorbell wakes this thread only, instead of the engine thread, which would wake it in turn. The engine thread ticks as long as
 * threads serve, and waits without a tick while one thread serves for a longer time. Guarded by engine.lock.
 */
struct engine_serve {
	unsigned int waiters; /* threads that wait for an event; one of them can serve */
	bool is_served;
	bool is_parked;		   /* the engine thread waits without a tick */
	bool is_thread_away;	   /* the engine thread does not wait for doorbells of peers */
	unsigned int changes;	   /* number of times that a thread began or ended serving */
	unsigned int changes_seen; /* value at the engine thread's last turn */
};

/* What the engine thread waits for. */
enum engine_rest {
	ENGINE_REST_ALL,    /* all descriptors of the engine */
	ENGINE_REST_TICK,   /* its own descriptors, for one tick */
	ENGINE_REST_PARKED, /* its own descriptors */
};

/*
 * Takes one unit of the descriptor (event_fd.h); waits for it and runs the transports in this time. 0: taken. -EAGAIN: another thread
 * waits, too, or polls, or the engine is not usable; the caller waits by other means. -EINTR: a signal handler was called, and the system calls
 * that it interrupts are not restarted (sigaction(2)). A cancellation point. Takes and releases engine.lock.
 */
int engine_serve_wait(struct engine *engine, int fd) __attribute__((warn_unused_result));

/* As a waiter that does not serve: before and after a thread waits for an event by other means. */
void engine_serve_enter(struct engine *engine);
void engine_serve_leave(struct engine *engine);

/* The engine thread's turn: what it has to wait for. engine.lock held. */
enum engine_rest engine_serve_rest(struct engine *engine);

#endif
