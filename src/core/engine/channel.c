/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "core/device/context.h"
#include "core/engine/armed_spin.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine.h"
#include "core/engine/engine_serve.h"
#include "core/engine/lock_check.h"
#include "core/object/event_fd.h"
#include "core/report/call_failed.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibcontext)
{
	struct context *context = to_context(ibcontext);
	struct comp_channel *channel;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->pub.context = ibcontext;
	list_init(&channel->ready);
	list_init(&channel->signal_node);
	list_init(&channel->promise_node);
	channel->set.epoll_fd = -1;
	pthread_mutex_init(&channel->lock, NULL);
	pthread_cond_init(&channel->signalled, NULL);
	channel->pub.fd = event_fd_open();
	channel->units.fd = channel->pub.fd;
	ret = channel->pub.fd;
	if (ret < 0)
		goto err_open;
	engine_lock(context->engine);
	ret = engine_usable(context->engine);
	if (!ret)
		context_get(context);
	engine_unlock(context->engine);
	if (!ret)
		return &channel->pub;
	sys_close(channel->pub.fd);
err_open:
	pthread_cond_destroy(&channel->signalled);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	call_failed(context, __func__, ret);
	errno = -ret;
	return NULL;
}

/* Another thread may still be about to add units to the descriptor (channels_signal). */
static void wait_for_signallers(struct comp_channel *channel)
{
	int cancel_state = cancel_disable();

	pthread_mutex_lock(&channel->lock);
	while (channel->units.signallers)
		pthread_cond_wait(&channel->signalled, &channel->lock);
	pthread_mutex_unlock(&channel->lock);
	cancel_restore(cancel_state);
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibchannel)
{
	struct comp_channel *channel = to_channel(ibchannel);
	struct context *context = to_context(ibchannel->context);
	struct engine *engine = context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (ibchannel->refcnt > 0) {
		engine_unlock(engine);
		return call_failed_busy(context, __func__, (uint64_t)ibchannel->refcnt);
	}
	list_del(&channel->signal_node);
	direct_wake_forget(channel);
	engine->serve.set_count -= channel->set.epoll_fd >= 0;
	watch_set_close(engine, &channel->set);
	if (channel->is_external)
		progress_channel_ends(&engine->progress);
	context_put(context);
	engine_unlock(engine);
	/* The child of a fork() does not have the parent's threads. */
	if (!engine->is_orphan)
		wait_for_signallers(channel);
	sys_close(ibchannel->fd);
	pthread_cond_destroy(&channel->signalled);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

static atomic_uint *events_for_taker(const struct comp_channel *channel)
{
	struct engine *engine = to_context(channel->pub.context)->engine;
	unsigned int taker = atomic_load_explicit(&channel->taker, memory_order_relaxed);

	return &engine->serve.events_for[taker];
}

/* The number of queued events changes by this number. channel.lock held. */
static void count_queued(struct comp_channel *channel, int change)
{
	mutex_assert_locked(&channel->lock);
	atomic_fetch_add_explicit(events_for_taker(channel), (unsigned int)change,
				  memory_order_relaxed);
}

/* The calling thread takes the events of the channel. */
static void set_taker(struct comp_channel *channel)
{
	uint8_t taker = armed_spin_taker();

	if (atomic_load_explicit(&channel->taker, memory_order_relaxed) == taker)
		return;
	pthread_mutex_lock(&channel->lock);
	count_queued(channel, -(int)channel->units.queued);
	atomic_store_explicit(&channel->taker, taker, memory_order_relaxed);
	count_queued(channel, (int)channel->units.queued);
	pthread_mutex_unlock(&channel->lock);
}

void channel_post(struct comp_channel *channel, struct cq *cq)
{
	struct engine *engine = cq->context->engine;
	bool is_promised = promise_keeps(engine, channel);

	engine_assert_locked(engine);
	pthread_mutex_lock(&channel->lock);
	if (!cq->events_queued++)
		list_add_tail(&cq->channel_node, &channel->ready);
	count_queued(channel, 1);
	units_event_queued(&channel->units, is_promised);
	pthread_mutex_unlock(&channel->lock);
	if (!is_promised && !list_is_linked(&channel->signal_node))
		list_add_tail(&channel->signal_node, &engine->signals);
}

/* Locks the units. Peers may have been able to add units since the last time. */
static void lock_units(struct comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->units.has_promises = atomic_load_explicit(&channel->wake_requests,
							   memory_order_relaxed);
}

/* Queues an event for a unit that the calling thread holds, unless there is one. */
static void channel_post_extra(struct comp_channel *channel, struct cq *cq)
{
	lock_units(channel);
	if (!channel->units.queued) {
		list_add_tail(&cq->channel_node, &channel->ready);
		cq->events_queued++;
		count_queued(channel, 1);
		units_event_added(&channel->units);
	}
	pthread_mutex_unlock(&channel->lock);
}

bool channel_take_due(struct comp_channel *channel)
{
	bool is_taken;

	engine_assert_locked(to_context(channel->pub.context)->engine);
	pthread_mutex_lock(&channel->lock);
	is_taken = units_take_due(&channel->units);
	if (!channel->units.due)
		list_del(&channel->signal_node);
	pthread_mutex_unlock(&channel->lock);
	return is_taken;
}

bool channel_absorb_promise(struct comp_channel *channel, const struct cq *cq)
{
	bool is_queued;

	engine_assert_locked(cq->context->engine);
	lock_units(channel);
	is_queued = cq->events_queued;
	if (is_queued)
		units_promise_absorbed(&channel->units);
	pthread_mutex_unlock(&channel->lock);
	return is_queued;
}

bool channel_check_promise(struct comp_channel *channel, bool at_once)
{
	bool is_kept;

	engine_assert_locked(to_context(channel->pub.context)->engine);
	lock_units(channel);
	is_kept = units_check_promise(&channel->units, at_once);
	pthread_mutex_unlock(&channel->lock);
	return is_kept;
}

void channel_spin_begin(struct comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	units_spin_begin(&channel->units);
	pthread_mutex_unlock(&channel->lock);
}

void channel_spin_end(struct comp_channel *channel)
{
	lock_units(channel);
	units_spin_end(&channel->units);
	pthread_mutex_unlock(&channel->lock);
}

bool channel_spin_take(struct comp_channel *channel)
{
	bool is_taken;

	pthread_mutex_lock(&channel->lock);
	is_taken = units_try(&channel->units);
	pthread_mutex_unlock(&channel->lock);
	return is_taken;
}

/* A channel whose units are to be added to its descriptor. */
struct signal {
	struct comp_channel *channel;
	uint32_t units;
};

/*
 * Without channel.lock, which the thread that the descriptor wakes needs at once. The channel is
 * not destroyed before.
 */
static void channel_signal(const struct signal *signal)
{
	struct comp_channel *channel = signal->channel;

	if (signal->units)
		event_fd_post(channel->pub.fd, signal->units);
	lock_units(channel);
	units_signal_end(&channel->units);
	if (!channel->units.signallers)
		pthread_cond_signal(&channel->signalled);
	pthread_mutex_unlock(&channel->lock);
}

/* Of the first channel of engine.signals. */
static struct signal next_signal(struct engine *engine)
{
	struct comp_channel *channel = list_first_entry(&engine->signals, struct comp_channel,
							signal_node);
	struct signal signal = {.channel = channel};

	list_del(&channel->signal_node);
	lock_units(channel);
	signal.units = units_signal_begin(&channel->units);
	pthread_mutex_unlock(&channel->lock);
	return signal;
}

/*
 * Number of channels that one call signals after it has released the lock; others are signalled
 * before.
 */
#define LATE_SIGNALS 16

void channels_signal(struct engine *engine)
{
	struct signal late[LATE_SIGNALS], signal;
	size_t count = 0;

	engine_assert_locked(engine);
	while (!list_is_empty(&engine->signals) && count < LATE_SIGNALS)
		late[count++] = next_signal(engine);
	while (!list_is_empty(&engine->signals)) {
		signal = next_signal(engine);
		channel_signal(&signal);
	}
	biased_lock_release(&engine->lock);
	for (size_t i = 0; i < count; i++)
		channel_signal(&late[i]);
}

void channel_forget(struct comp_channel *channel, struct cq *cq)
{
	lock_units(channel);
	list_del(&cq->channel_node);
	count_queued(channel, -(int)cq->events_queued);
	units_events_removed(&channel->units, cq->events_queued);
	cq->events_queued = 0;
	pthread_mutex_unlock(&channel->lock);
}

/*
 * The CQ of the oldest event, for a unit that the calling thread holds. NULL: no event is queued.
 * Then the thread does not hold the unit any more, unless *is_early: a peer has added the unit of a
 * message that the transports have not executed.
 */
static struct cq *channel_take(struct comp_channel *channel, bool *is_early)
{
	struct cq *cq = NULL;

	*is_early = false;
	lock_units(channel);
	if (channel->units.queued) {
		cq = list_first_entry(&channel->ready, struct cq, channel_node);
		cq->comp_events_fetched++;
		if (--cq->events_queued)
			list_move_tail(&cq->channel_node, &channel->ready);
		else
			list_del(&cq->channel_node);
		count_queued(channel, -1);
		units_event_taken(&channel->units);
	} else if (channel->units.has_promises) {
		*is_early = true;
	} else {
		units_returned(&channel->units);
	}
	pthread_mutex_unlock(&channel->lock);
	return cq;
}

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

/* Whether an event may be queued. Otherwise its descriptor has no unit. */
static bool channel_has_event(struct comp_channel *channel)
{
	bool has_event;

	pthread_mutex_lock(&channel->lock);
	has_event = units_may_be_there(&channel->units);
	pthread_mutex_unlock(&channel->lock);
	return has_event;
}

/* The descriptor is examined once in READY_CALLS calls. */
#define READY_CALLS 64

/*
 * The application has called ibv_get_cq_event() when an event was ready. If the descriptor has
 * O_NONBLOCK, the application waits for it by other means.
 */
static void note_ready(struct engine *engine, struct comp_channel *channel)
{
	if (atomic_load_explicit(&channel->wake_number, memory_order_relaxed) ||
	    channel->ready_calls++ % READY_CALLS || !is_nonblocking(channel->pub.fd))
		return;
	engine_lock(engine);
	engine_serve_set_external(engine, channel, true);
	engine_unlock(engine);
}

/*
 * The calling thread holds a unit, and no event is queued: a peer has added it before the
 * transports have received its message. If there is no such message, an event without a completion
 * is queued, because the application must not see that the descriptor was readable without an
 * event. false: the channel has no CQ any more, and the thread does not hold the unit any more.
 */
static bool run_early(struct comp_channel *channel)
{
	struct engine *engine = to_context(channel->pub.context)->engine;
	struct cq *cq, *found = NULL;

	engine_lock(engine);
	if (engine_may_serve(engine) && engine_turn(engine))
		engine_wake_late(engine);
	list_for_each_entry(cq, &engine->tables.cqs, node) {
		if (!found && cq->channel == channel)
			found = cq;
	}
	if (found) {
		channel_post_extra(channel, found);
	} else {
		lock_units(channel);
		units_returned(&channel->units);
		pthread_mutex_unlock(&channel->lock);
	}
	engine_unlock(engine);
	return found;
}

/*
 * Takes one unit of the descriptor. Before the call may block, it switches the engine from polling
 * to doorbells.
 */
static int channel_wait(struct comp_channel *channel)
{
	struct engine *engine = to_context(channel->pub.context)->engine;
	bool has_run, has_unit, is_blocking;

	if (engine->is_orphan)
		return -EIO;
	if (channel_has_event(channel) && !event_fd_try(channel->pub.fd)) {
		note_ready(engine, channel);
		return 0;
	}
	has_run = direct_wake_run(engine, channel, &has_unit);
	if (has_unit || (has_run && !event_fd_try(channel->pub.fd)))
		return 0;
	is_blocking = !is_nonblocking(channel->pub.fd);
	return has_run && !is_blocking ? -EAGAIN : engine_serve_wait(engine, channel, is_blocking);
}

/* The early unit of a peer is for a later call. */
static void put_unit_back(struct comp_channel *channel)
{
	lock_units(channel);
	units_put_back(&channel->units);
	pthread_mutex_unlock(&channel->lock);
}

int channel_try(struct comp_channel *channel)
{
	bool is_early;

	do {
		if (!channel_has_event(channel) || event_fd_try(channel->pub.fd))
			return -EAGAIN;
		if (channel_take(channel, &is_early)) {
			set_taker(channel);
			return 0;
		}
	} while (!is_early);
	put_unit_back(channel);
	return -EAGAIN;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibchannel, struct ibv_cq **ibcq, void **cq_context)
{
	struct comp_channel *channel = to_channel(ibchannel);
	bool is_early;
	struct cq *cq;
	int ret;

	if (fault_call_fails(__func__))
		return -1;
	do {
		ret = channel_wait(channel);
		if (ret) {
			errno = -ret;
			return -1;
		}
		/* Another thread may take the event that is queued for an early unit. */
		do {
			cq = channel_take(channel, &is_early);
		} while (is_early && run_early(channel));
	} while (!cq);
	set_taker(channel);
	armed_spin_event_taken();
	*ibcq = &cq->pub;
	*cq_context = cq->pub.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
