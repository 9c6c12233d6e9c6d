/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine_serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "base/restarts.h"
#include "base/syscalls.h"
#include "core/engine.h"
#include "core/engine_watch.h"
#include "core/event_fd.h"

#define EVENTS 4

void engine_serve_enter(struct engine *engine)
{
	engine_lock(engine);
	engine->serve.waiters++;
	/* Acknowledgements that waited for a reply are sent now. */
	if (!engine->is_fatal && !engine->is_orphan && engine_turn(engine))
		engine_wake(engine);
	engine_unlock(engine);
}

void engine_serve_leave(struct engine *engine)
{
	engine_lock(engine);
	engine->serve.waiters--;
	engine_unlock(engine);
}

enum engine_rest engine_serve_rest(struct engine *engine)
{
	struct engine_serve *serve = &engine->serve;
	bool is_changed = serve->changes != serve->changes_seen;

	serve->changes_seen = serve->changes;
	serve->is_parked = serve->is_served && !is_changed;
	serve->is_thread_away = serve->is_served || is_changed;
	if (!serve->is_thread_away)
		return ENGINE_REST_ALL;
	return serve->is_parked ? ENGINE_REST_PARKED : ENGINE_REST_TICK;
}

/* Whether this thread serves now. The only waiter serves, so that no other waiter depends on a thread that leaves. */
static bool begin(struct engine *engine)
{
	struct engine_serve *serve = &engine->serve;

	engine_lock(engine);
	if (serve->waiters > 1 || serve->is_served || !engine->has_thread || engine->is_polled ||
	    engine->is_fatal || engine->is_orphan) {
		engine_unlock(engine);
		return false;
	}
	serve->is_served = true;
	serve->changes++;
	if (!serve->is_thread_away)
		engine_wake(engine);
	engine_unlock(engine);
	return true;
}

/*
 * The engine thread takes over within one tick, or at once if another thread waits. This thread may have read the doorbell of
 * begin() before the engine thread saw it: the engine thread then has no tick yet. Also the handler of a cancellation.
 */
static void end(void *arg)
{
	struct engine *engine = arg;
	struct engine_serve *serve = &engine->serve;

	engine_lock(engine);
	serve->is_served = false;
	serve->changes++;
	if (serve->waiters > 1)
		serve->changes_seen = serve->changes;
	if (serve->waiters > 1 || serve->is_parked || !serve->is_thread_away)
		engine_wake(engine);
	engine_unlock(engine);
}

/*
 * Runs the transports after a doorbell. Returns 0 and takes a unit of the descriptor if there is one: the thread then returns to the
 * application, which may reply, so that doorbells and packets that only acknowledge wait for the reply (engine.is_inline). -EAGAIN:
 * no event, they were sent; -EIO: the engine became unusable, and its events are posted, or another thread polls. The polling thread
 * and the tick of the engine thread then run the transports and the timers.
 */
static int serve_turn(struct engine *engine, int fd)
{
	struct epoll_event events[EVENTS];
	bool is_busy;
	int ret = -EIO;
	int n;

	engine_lock(engine);
	n = sys_epoll_look(engine->epoll_fd, events, EVENTS);
	for (int i = 0; i < n; i++)
		engine_watch_dispatch(engine, events[i].data.u64);
	if (n >= 0 && !engine->is_polled && !engine->is_fatal && !engine->is_orphan) {
		is_busy = engine_turn_before_reply(engine);
		ret = event_fd_try(fd);
		if (ret)
			is_busy = engine_turn(engine);
		if (is_busy)
			engine_wake(engine);
	}
	engine_unlock(engine);
	return ret;
}

static int serve_until(struct engine *engine, int fd)
{
	struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
			       {.fd = engine->epoll_fd, .events = POLLIN}};

	for (;;) {
		int n = poll(fds, 2, -1);
		int ret;

		if (n < 0 && (errno != EINTR || !wait_restarts()))
			return -errno;
		if (n < 0)
			continue;
		/* POLLNVAL: the application closed the engine's descriptors. */
		if (fds[1].revents & ~POLLIN || fds[0].revents & ~POLLIN)
			return -EAGAIN;
		ret = fds[1].revents ? serve_turn(engine, fd) : event_fd_try(fd);
		if (ret != -EAGAIN)
			return ret == -EIO ? -EAGAIN : ret;
	}
}

int engine_serve_wait(struct engine *engine, int fd)
{
	int ret;

	if (!begin(engine))
		return -EAGAIN;
	pthread_cleanup_push(end, engine);
	ret = serve_until(engine, fd);
	pthread_cleanup_pop(1);
	return ret;
}
