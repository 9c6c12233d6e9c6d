/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_WATCH_H
#define USRDMA_CORE_ENGINE_WATCH_H

#include <stdint.h>

struct engine;

/* Descriptors of one engine: its own four, one doorbell for each peer process, and those of transports. */
#define WATCHES_MAX 1024

/*
 * Makes the engine thread call `callback` when fd is readable, at its end of file, or in error, until engine_unwatch().
 * The thread holds engine.lock, and runs the transports after the callbacks. The callback must not block. If neither
 * the callback nor a transport reads fd, the thread is woken again.
 *
 * The thread does not wait for fd while the application polls: the transports then read their descriptors in run().
 *
 * *handle, never 0, is set to the argument of engine_unwatch(). The caller still owns fd. 0 or -errno. engine.lock held.
 */
int engine_watch(struct engine *engine, int fd, void (*callback)(struct engine *engine, void *arg),
		 void *arg, uint64_t *handle) __attribute__((warn_unused_result));

/*
 * Ends a watch; to be called before its descriptor is closed. The callback is not called any more, also for an event
 * that the thread has received already. No effect on 0 and on a handle whose watch has ended. engine.lock held.
 */
void engine_unwatch(struct engine *engine, uint64_t handle);

/* Calls the callback of a watch; no effect if the watch has ended. engine.lock held. */
void engine_watch_dispatch(struct engine *engine, uint64_t handle);

#endif
