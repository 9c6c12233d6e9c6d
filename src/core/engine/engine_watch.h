/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_WATCH_H
#define USRDMA_CORE_ENGINE_ENGINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id_table.h"
#include "base/list.h"

struct engine;

/*
 * Descriptors of one engine: its own four, one doorbell for each peer process, and those of
 * transports.
 */
#define WATCHES_MAX 1024

/* Which threads wait for a descriptor. */
enum watch_scope {
	WATCH_BY_ENGINE, /* the engine thread */
	WATCH_BY_ANY,	 /* one of the threads that serve (engine_serve.h), or the engine thread */
};

/*
 * An epoll descriptor of a thread that serves. The kernel wakes one of the threads that wait for a
 * descriptor with WATCH_BY_ANY (EPOLLEXCLUSIVE).
 */
struct watch_set {
	int epoll_fd; /* -1: not open */
	struct list_head node;
};

/*
 * What the engine thread and the threads that serve wait for. Part of struct engine; guarded by
 * engine.lock. The descriptors do not change while the engine has a thread, except -1 in the child
 * of a fork(); threads wait for them without the lock.
 */
struct engine_watches {
	int epoll_fd;
	struct id_table table; /* handle -> struct watch (engine_watch.c) of epoll_fd */
	struct list_head list; /* the same, in the order of their creation */
	struct list_head sets; /* struct watch_set: epoll descriptors of threads that serve */
	struct watch_set
		standby; /* the last of `sets`, that of the engine thread while it is parked */
	int doorbell_fd; /* eventfd by which this process wakes its own engine thread */
	int timer_fd;	 /* wakes the thread for engine.timers */
	/* Handles of the watches of these two descriptors; 0: not watched. */
	uint64_t doorbell_watch;
	uint64_t timer_watch;
	uint64_t timer_armed_ns; /* expiry time of timer_fd; UINT64_MAX: not armed */
};

/*
 * Calls `callback` in the thread that waits when fd is readable, at its end of file, or in error,
 * until engine_unwatch(). The thread holds engine.lock, and runs the transports after the
 * callbacks. The callback must not block. If neither the callback nor a transport reads fd, the
 * thread is woken again.
 *
 * No thread waits for fd while the application polls: the transports then read their descriptors in
 * run().
 *
 * *handle, never 0, is set to the argument of engine_unwatch(). The caller still owns fd. 0 or
 * -errno. engine.lock held.
 */
int engine_watch(struct engine *engine, int fd, enum watch_scope scope,
		 void (*callback)(struct engine *engine, void *arg), void *arg, uint64_t *handle)
	__attribute__((warn_unused_result));

/*
 * Ends a watch; to be called before its descriptor is closed. The callback is not called any more,
 * also for an event that the thread has received already. No effect on 0 and on a handle whose
 * watch has ended. engine.lock held.
 */
void engine_unwatch(struct engine *engine, uint64_t handle);

/* Calls the callback of a watch; no effect if the watch has ended. engine.lock held. */
void engine_watch_dispatch(struct engine *engine, uint64_t handle);

/*
 * Opens a set with fd (-1: none), whose events carry handle 0, and all present and later
 * descriptors with WATCH_BY_ANY. 0 or -errno. engine.lock held.
 *
 * The first call opens engine.watches.standby as well. The kernel examines it after the sets of all
 * threads that serve. A descriptor makes it readable only if none of these threads waits at that
 * time: each of them runs, is suspended, or is in a signal handler.
 */
int watch_set_open(struct engine *engine, struct watch_set *set, int fd)
	__attribute__((warn_unused_result));

/* No effect on a set that is not open. engine.lock held. */
void watch_set_close(struct engine *engine, struct watch_set *set);

#endif
