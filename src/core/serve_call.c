/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/librdmacm_calls.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/user_fault.h"
#include "core/engine/channel.h"
#include "core/engine/engine.h"
#include "core/engine/engine_serve.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"

#define EVENTS 64

/*
 * The calls by which rsockets wait. orphan_child() closes the set in the child of a fork():
 * pub.epoll_fd is set.epoll_fd.
 */
struct serve {
	union {
		struct usrdma_serve pub;
		struct watch_set set;
	};
	struct engine *engine;
};

static_assert(offsetof(struct usrdma_serve, epoll_fd) == offsetof(struct watch_set, epoll_fd),
	      "they share the descriptor");

static struct serve *to_serve(struct usrdma_serve *serve)
{
	return (struct serve *)serve;
}

int usrdma_serve_open(struct ibv_context *context, struct usrdma_serve **made)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	struct engine *engine = to_context(context)->engine;
	int ret = 0;

	if (!serve)
		return -ENOMEM;
	serve->engine = engine;
	engine_lock(engine);
	if (engine->is_fatal || engine->is_orphan)
		ret = -EIO;
	else if (engine->serve.set_count >= ENGINE_SETS_MAX)
		ret = -EMFILE;
	if (!ret)
		ret = watch_set_open(engine, &serve->set, -1);
	if (!ret)
		engine->serve.set_count++;
	engine_unlock(engine);
	if (ret) {
		free(serve);
		return ret;
	}
	*made = &serve->pub;
	return 0;
}

void usrdma_serve_close(struct usrdma_serve *pub)
{
	struct serve *serve = to_serve(pub);
	struct engine *engine = serve->engine;

	engine_lock(engine);
	watch_set_close(engine, &serve->set);
	engine->serve.set_count--;
	engine_unlock(engine);
	free(serve);
}

/* Moves the events of the caller's descriptors to `events`, at most max; returns their number. */
static int take_own(const struct epoll_event *all, int n, struct epoll_event *events, int max)
{
	int count = 0;

	for (int i = 0; i < n && count < max; i++) {
		if (all[i].data.u64 >= SERVE_HANDLE_MIN)
			events[count++] = all[i];
	}
	return count;
}

/* What a round of the transports leaves to the thread. */
enum serve_state {
	SERVE_IDLE, /* nothing is pending */
	SERVE_BUSY, /* work is pending */
	/* completion events were signalled; acknowledgements and doorbells may wait for a reply */
	SERVE_SIGNALLED,
};

/* A complete round, before the thread sleeps. engine.lock held. */
static enum serve_state turn(struct engine *engine)
{
	bool is_busy = engine_turn(engine);

	engine_assert_locked(engine);
	if (!list_is_empty(&engine->signals))
		return SERVE_SIGNALLED;
	return is_busy ? SERVE_BUSY : SERVE_IDLE;
}

/*
 * Runs the transports after doorbells. If there are completion events, the thread may return to the
 * application, which may reply, so that packets that only acknowledge wait for the reply, as in
 * engine_serve_wait().
 */
static int run_after_doorbells(struct engine *engine, const struct epoll_event *events, int n,
			       enum serve_state *state)
{
	bool others_wait = engine->progress.servers > 1 || progress_has_external(&engine->progress);
	bool is_busy;

	engine_serve_note_turn(&engine->serve);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 < SERVE_HANDLE_MIN)
			engine_watch_dispatch(engine, events[i].data.u64);
	}
	if (engine->is_fatal || engine->is_orphan)
		return -EIO;
	is_busy = engine_turn_before_reply(engine, others_wait);
	if (list_is_empty(&engine->signals)) {
		*state = turn(engine);
		return 0;
	}
	*state = SERVE_SIGNALLED;
	if (is_busy && others_wait)
		engine_wake_late(engine);
	return 0;
}

static bool is_past(uint64_t deadline_ns)
{
	return deadline_ns != TIMER_NEVER_NS && clock_now_ns() >= deadline_ns;
}

static int left_ms(uint64_t deadline_ns, enum serve_state state)
{
	if (state != SERVE_IDLE)
		return 0;
	return deadline_ns == TIMER_NEVER_NS ? -1 : clock_left_ms(clock_now_ns(), deadline_ns);
}

/* The events that were signalled belong to other threads: this thread goes on to wait. */
static void finish_turn(struct engine *engine, enum serve_state *state)
{
	engine_lock(engine);
	*state = engine->is_fatal || engine->is_orphan ? SERVE_IDLE : turn(engine);
	engine_unlock(engine);
}

static int serve_until_events(struct serve *serve, struct epoll_event *events, int max,
			      uint64_t deadline_ns, enum serve_state state)
{
	struct engine *engine = serve->engine;
	struct epoll_event all[EVENTS];

	for (;;) {
		/*
		 * Doorbells do not prolong the wait: after the deadline the thread only looks once.
		 */
		bool is_late = is_past(deadline_ns);
		int n = epoll_wait(serve->set.epoll_fd, all, EVENTS, left_ms(deadline_ns, state));
		int own, ret;

		if (n < 0)
			return -errno;
		user_fault_renew();
		own = take_own(all, n, events, max);
		if (own && own == n)
			return own;
		if (is_late || (!n && state == SERVE_IDLE))
			return 0;
		if (!n && state == SERVE_SIGNALLED) {
			finish_turn(engine, &state);
			continue;
		}
		engine_lock(engine);
		ret = run_after_doorbells(engine, all, n, &state);
		engine_unlock_in_turn(engine);
		if (own || ret)
			return own ? own : ret;
	}
}

static int serve_begin(struct engine *engine, enum serve_state *state)
{
	engine_will_block(engine);
	engine_lock(engine);
	if (!engine_may_serve(engine)) {
		engine_unlock(engine);
		return -EIO;
	}
	*state = turn(engine);
	engine_serve_enter(engine);
	engine_unlock(engine);
	return 0;
}

int usrdma_serve_wait(struct usrdma_serve *pub, struct epoll_event *events, int max, int timeout_ms)
{
	struct serve *serve = to_serve(pub);
	uint64_t deadline_ns = TIMER_NEVER_NS;
	enum serve_state state;
	int ret = serve_begin(serve->engine, &state);

	if (ret)
		return ret;
	if (timeout_ms >= 0)
		deadline_ns = clock_now_ns() + (unsigned int)timeout_ms * CLOCK_NS_PER_MS;
	pthread_cleanup_push(engine_serve_leave, serve->engine);
	ret = serve_until_events(serve, events, max, deadline_ns, state);
	pthread_cleanup_pop(1);
	return ret;
}

void usrdma_wait_begins(struct ibv_context *context)
{
	struct engine *engine = to_context(context)->engine;

	engine_will_block(engine);
	engine_lock(engine);
	engine_progress_do(engine, progress_wait_begins(&engine->progress));
	engine_unlock(engine);
}

void usrdma_wait_ends(struct ibv_context *context)
{
	struct engine *engine = to_context(context)->engine;

	engine_lock(engine);
	progress_wait_ends(&engine->progress);
	engine_unlock(engine);
}

void usrdma_catch_up(struct ibv_context *context)
{
	struct engine *engine = to_context(context)->engine;

	engine_lock(engine);
	if (!engine_usable(engine))
		engine_catch_up(engine);
	engine_unlock(engine);
}

int usrdma_take_cq_event(struct ibv_comp_channel *channel)
{
	if (fault_call_fails("ibv_get_cq_event"))
		return -errno;
	return channel_try(to_channel(channel));
}
