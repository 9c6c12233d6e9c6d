/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/engine_serve.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/restarts.h"
#include "base/spin.h"
#include "base/syscalls.h"
#include "base/user_fault.h"
#include "core/engine/channel.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/object/cq_turns.h"
#include "core/object/event_fd.h"

#define EVENTS 4

bool engine_serve_may_spin_alone(const struct engine *engine)
{
	engine_assert_locked(engine);
	return progress_waits_for_one_channel(&engine->progress) && !engine->shards.are_open;
}

static bool may_serve(struct engine *engine, struct comp_channel *channel)
{
	struct engine_serve *serve = &engine->serve;

	if (!engine_may_serve(engine))
		return false;
	if (channel->set.epoll_fd >= 0)
		return true;
	if (serve->set_count >= ENGINE_SETS_MAX ||
	    watch_set_open(engine, &channel->set, channel->pub.fd))
		return false;
	serve->set_count++;
	return true;
}

void engine_serve_set_external(struct engine *engine, struct comp_channel *channel,
			       bool is_external)
{
	engine_assert_locked(engine);
	if (channel->is_external == is_external)
		return;
	channel->is_external = is_external;
	engine_progress_do(engine, progress_channel_changes(&engine->progress, is_external));
	direct_wake_set_external(engine, channel, is_external);
}

void engine_serve_enter(struct engine *engine)
{
	engine_assert_locked(engine);
	engine_progress_do(engine, progress_server_enters(&engine->progress));
}

/* engine.lock held. */
static void serve_leave(struct engine *engine)
{
	engine_assert_locked(engine);
	engine_progress_do(engine, progress_server_leaves(&engine->progress));
}

void engine_serve_leave(void *arg)
{
	struct engine *engine = arg;

	engine_lock(engine);
	serve_leave(engine);
	engine_unlock(engine);
}

/* The wait of one thread in engine_serve_wait(). */
struct served_wait {
	struct engine *engine;
	struct comp_channel *channel;
	bool has_left; /* with the lock of its last turn, which it does not acquire once more */
};

/* Also the handler of a cancellation. */
static void serve_end_wait(void *arg)
{
	struct served_wait *wait = arg;

	if (!wait->has_left)
		engine_serve_leave(wait->engine);
}

/* Whether the channel's own descriptor is among the events. */
static bool has_own(const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		if (!events[i].data.u64)
			return true;
	}
	return false;
}

/*
 * Runs the transports after doorbells. Returns 0 and takes a unit of the channel if there is one:
 * the thread then returns to the application, which may reply, so that doorbells and packets that
 * only acknowledge wait for the reply (run_by_replier()). -EAGAIN: no event, they were sent; -EIO:
 * the engine became unusable, and its events are posted, or another thread polls. The polling
 * thread and the tick of the engine thread then run the transports and the timers.
 */
static int serve_turn(struct served_wait *wait, const struct epoll_event *events, int n,
		      bool *is_busy)
{
	struct engine *engine = wait->engine;
	int ret = -EIO;

	engine_lock(engine);
	engine_serve_note_turn(&engine->serve);
	/* The event of the channel's own descriptor has handle 0, which is ignored. */
	for (int i = 0; i < n; i++)
		engine_watch_dispatch(engine, events[i].data.u64);
	*is_busy = false;
	if (engine_may_serve(engine)) {
		engine->run_by = RUN_BY_SERVER;
		*is_busy = engine_turn_before_reply(engine, engine->progress.servers > 1);
		ret = channel_take_due(wait->channel) ? 0 : -EAGAIN;
		if (ret)
			*is_busy = engine_turn(engine);
		else if (*is_busy)
			engine_wake_late(engine);
		engine->run_by = RUN_BY_CALL;
	}
	if (!ret) {
		serve_leave(engine);
		wait->has_left = true;
	}
	engine_unlock_in_turn(engine);
	return ret;
}

static int serve_until(struct served_wait *wait, bool is_busy)
{
	struct comp_channel *channel = wait->channel;
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(channel->set.epoll_fd, events, EVENTS, is_busy ? 0 : -1);
		bool is_own;
		int ret;

		if (n < 0 && errno == EINTR && wait_restarts())
			continue;
		if (n < 0)
			/* EBADF: the application closed the engine's descriptors. */
			return errno == EINTR ? -EINTR : -EIO;
		user_fault_renew();
		/*
		 * Another thread ran the transports. With further events, this thread is the one
		 * that the kernel has woken for a doorbell.
		 */
		is_own = has_own(events, n);
		if (n == 1 && is_own && !event_fd_try(channel->pub.fd))
			return 0;
		ret = serve_turn(wait, events, n, &is_busy);
		if (ret == -EAGAIN && is_own)
			ret = event_fd_try(channel->pub.fd);
		if (ret != -EAGAIN)
			return ret;
	}
}

/* The engine thread then leaves the doorbells of peers to the thread that polls. */
static bool serve_spin_begin(struct engine *engine, struct comp_channel *channel, struct spin *spin)
{
	bool spins;

	if (!spin_begin(spin, clock_now_ns(), 0, SERVE_SHORT_WAITS_MAX))
		return false;
	engine_lock(engine);
	spins = !progress_has_external(&engine->progress) && may_serve(engine, channel);
	if (spins) {
		engine_progress_do(engine, progress_serve_spin_begins(&engine->progress));
		channel_spin_begin(channel);
	}
	engine_unlock(engine);
	return spins;
}

/*
 * Runs shard 0, to which all channels belong, once, unless another thread does. Returns whether
 * there was a unit of the channel. Threads that serve keep their request for doorbells: a doorbell
 * that was rung has woken one of them, which requests the next one.
 */
static bool serve_spin_run(struct engine *engine, struct comp_channel *channel)
{
	bool has_event = false;

	if (!biased_lock_try(&engine->lock))
		return false;
	if (engine_may_serve(engine)) {
		engine_run_before_reply(engine);
		has_event = channel_take_due(channel);
	}
	engine_unlock_base(engine);
	return has_event;
}

/*
 * If the engine thread is parked, because another thread serves since then, it is woken:
 * acknowledgements may wait for a reply, as in engine_serve_leave().
 */
static void serve_spin_end(struct engine *engine, struct comp_channel *channel)
{
	engine_lock(engine);
	channel_spin_end(channel);
	engine_progress_do(engine, progress_serve_spin_ends(&engine->progress));
	engine_unlock(engine);
}

/*
 * Polls for a short time before the thread sleeps. Returns whether it has taken a unit of the
 * channel.
 */
static bool serve_spin(struct engine *engine, struct comp_channel *channel)
{
	bool has_event = false;
	struct spin spin;

	if (!serve_spin_begin(engine, channel, &spin))
		return false;
	while (!has_event && spin_continue(&spin, clock_now_ns()))
		has_event = serve_spin_run(engine, channel) || channel_spin_take(channel);
	if (has_event)
		spin_succeed(&spin);
	serve_spin_end(engine, channel);
	return has_event;
}

/*
 * Takes a unit if there is one now. Otherwise this thread serves, or the application or the engine
 * thread does. engine.lock held.
 */
static int begin(struct engine *engine, struct comp_channel *channel, bool is_blocking,
		 bool *serves, bool *is_busy)
{
	bool may_run = !engine->is_fatal && !engine->is_orphan;

	engine_assert_locked(engine);
	*serves = is_blocking && may_serve(engine, channel);
	engine_serve_set_external(engine, channel, !*serves);
	/* Acknowledgements that waited for a reply are sent now. */
	engine->run_by = *serves ? RUN_BY_SERVER : RUN_BY_CALL;
	*is_busy = may_run && engine_turn(engine);
	engine->run_by = RUN_BY_CALL;
	if (channel_take_due(channel))
		return 0;
	if (*serves)
		engine_serve_enter(engine);
	else if (*is_busy)
		engine_wake(engine);
	return -EAGAIN;
}

int engine_serve_wait(struct engine *engine, struct comp_channel *channel, bool is_blocking)
{
	struct served_wait wait = {.engine = engine, .channel = channel};
	bool serves, is_busy;
	int ret;

	cq_turn_ends(&channel->turns);
	engine_will_block(engine);
	if (is_blocking && serve_spin(engine, channel))
		return 0;
	engine_lock(engine);
	ret = begin(engine, channel, is_blocking, &serves, &is_busy);
	engine_unlock(engine);
	if (!ret)
		return 0;
	if (serves) {
		pthread_cleanup_push(serve_end_wait, &wait);
		ret = serve_until(&wait, is_busy);
		pthread_cleanup_pop(1);
		if (ret != -EIO)
			return ret;
	}
	return event_fd_wait(channel->pub.fd);
}

void engine_serve_spin_alone(struct engine *engine)
{
	engine_assert_locked(engine);
	engine_progress_do(engine, progress_lone_spin_begins(&engine->progress));
}

void engine_serve_end_spin_alone(struct engine *engine)
{
	engine_assert_locked(engine);
	engine_progress_do(engine, progress_lone_spin_ends(&engine->progress));
}
