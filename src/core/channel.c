/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "core/armed_spin.h"
#include "core/call_failed.h"
#include "core/context.h"
#include "core/direct_wake.h"
#include "core/engine_serve.h"
#include "core/event_fd.h"
#include "core/lock_check.h"

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
	while (channel->signallers)
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
	engine->serve.external_channels -= channel->is_external;
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
	channel->queued += (uint32_t)change;
	atomic_fetch_add_explicit(events_for_taker(channel), (unsigned int)change,
				  memory_order_relaxed);
}

/* The calling thread takes the events of the channel. */
static void set_taker(struct comp_channel *channel)
{
	uint8_t taker = armed_spin_taker();
	uint32_t queued;

	if (atomic_load_explicit(&channel->taker, memory_order_relaxed) == taker)
		return;
	pthread_mutex_lock(&channel->lock);
	queued = channel->queued;
	count_queued(channel, -(int)queued);
	atomic_store_explicit(&channel->taker, taker, memory_order_relaxed);
	count_queued(channel, (int)queued);
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
	channel->units_due += !is_promised;
	channel->units_promised += is_promised;
	pthread_mutex_unlock(&channel->lock);
	if (!is_promised && !list_is_linked(&channel->signal_node))
		list_add_tail(&channel->signal_node, &engine->signals);
}

/* Queues an event for a unit that was taken from the descriptor already, unless there is one. */
static void channel_post_extra(struct comp_channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	if (list_is_empty(&channel->ready)) {
		list_add_tail(&cq->channel_node, &channel->ready);
		cq->events_queued++;
		count_queued(channel, 1);
	}
	pthread_mutex_unlock(&channel->lock);
}

/* Whether peers have ever been able to add units to the descriptor. */
static bool wakes_directly(const struct comp_channel *channel)
{
	return atomic_load_explicit(&channel->wake_requests, memory_order_relaxed);
}

/* channel.lock held. */
static bool take_due(struct comp_channel *channel)
{
	mutex_assert_locked(&channel->lock);
	if (!channel->units_due)
		return false;
	channel->units_due--;
	return true;
}

bool channel_take_due(struct comp_channel *channel)
{
	bool is_taken;

	engine_assert_locked(to_context(channel->pub.context)->engine);
	pthread_mutex_lock(&channel->lock);
	is_taken = take_due(channel);
	if (!channel->units_due)
		list_del(&channel->signal_node);
	pthread_mutex_unlock(&channel->lock);
	return is_taken;
}

bool channel_absorb_promise(struct comp_channel *channel, const struct cq *cq)
{
	bool is_queued;

	engine_assert_locked(cq->context->engine);
	pthread_mutex_lock(&channel->lock);
	is_queued = cq->events_queued;
	if (is_queued && take_due(channel))
		channel->units_promised++;
	else if (is_queued)
		channel->units_pending++;
	pthread_mutex_unlock(&channel->lock);
	return is_queued;
}

/* Whether an event is queued, and neither the descriptor nor another thread has a unit. channel.lock held. */
static bool lacks_unit(struct comp_channel *channel)
{
	mutex_assert_locked(&channel->lock);
	return !list_is_empty(&channel->ready) && !channel->units_due && !channel->signallers &&
	       !event_fd_is_readable(channel->pub.fd);
}

bool channel_lacks_unit(struct comp_channel *channel, bool may_add)
{
	bool lacks;

	pthread_mutex_lock(&channel->lock);
	lacks = lacks_unit(channel);
	if (lacks && may_add)
		event_fd_post(channel->pub.fd, 1);
	pthread_mutex_unlock(&channel->lock);
	return lacks;
}

/*
 * Takes the units of events that were removed. If a peer that promised a unit was killed, this may be the unit of another event, which
 * then gets a new one. channel.lock held.
 */
static void settle_units(struct comp_channel *channel)
{
	bool may_lack = channel->units_promised || channel->units_pending;

	mutex_assert_locked(&channel->lock);
	channel->units_pending = event_fd_drain(channel->pub.fd, channel->units_pending);
	if (channel->units_promised > channel->queued)
		channel->units_promised = channel->queued;
	if (may_lack && wakes_directly(channel) && lacks_unit(channel))
		event_fd_post(channel->pub.fd, 1);
}

void channel_spin_begin(struct comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->spinners++;
	pthread_mutex_unlock(&channel->lock);
}

void channel_spin_end(struct comp_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	if (!--channel->spinners && channel->units_due) {
		event_fd_post(channel->pub.fd, channel->units_due);
		channel->units_due = 0;
	}
	pthread_mutex_unlock(&channel->lock);
}

bool channel_spin_take(struct comp_channel *channel)
{
	bool is_taken;

	pthread_mutex_lock(&channel->lock);
	is_taken = take_due(channel);
	/* The descriptor has a unit only for an event that is queued or was removed. */
	if (!is_taken && (!list_is_empty(&channel->ready) || channel->units_pending))
		is_taken = !event_fd_try(channel->pub.fd);
	pthread_mutex_unlock(&channel->lock);
	return is_taken;
}

/* Without channel.lock, which the thread that the descriptor wakes needs at once. */
static void channel_signal(struct comp_channel *channel)
{
	uint32_t units;

	pthread_mutex_lock(&channel->lock);
	units = channel->spinners ? 0 : channel->units_due;
	channel->units_due -= units;
	pthread_mutex_unlock(&channel->lock);
	if (units)
		event_fd_post(channel->pub.fd, units);
	pthread_mutex_lock(&channel->lock);
	if (!--channel->signallers)
		pthread_cond_signal(&channel->signalled);
	/* Units of events that channel_forget() has removed in between. */
	settle_units(channel);
	pthread_mutex_unlock(&channel->lock);
}

/* The first channel of engine.signals. It is not destroyed before channel_signal() returns. */
static struct comp_channel *next_signal(struct engine *engine)
{
	struct comp_channel *channel = list_first_entry(&engine->signals, struct comp_channel,
							signal_node);

	list_del(&channel->signal_node);
	pthread_mutex_lock(&channel->lock);
	channel->signallers++;
	pthread_mutex_unlock(&channel->lock);
	return channel;
}

/* Number of channels that one call signals after it has released the lock; others are signalled before. */
#define LATE_SIGNALS 16

void channels_signal(struct engine *engine)
{
	struct comp_channel *channels[LATE_SIGNALS];
	size_t count = 0;

	engine_assert_locked(engine);
	while (!list_is_empty(&engine->signals) && count < LATE_SIGNALS)
		channels[count++] = next_signal(engine);
	while (!list_is_empty(&engine->signals))
		channel_signal(next_signal(engine));
	biased_lock_release(&engine->lock);
	for (size_t i = 0; i < count; i++)
		channel_signal(channels[i]);
}

void channel_forget(struct comp_channel *channel, struct cq *cq)
{
	uint32_t due;

	pthread_mutex_lock(&channel->lock);
	list_del(&cq->channel_node);
	due = cq->events_queued < channel->units_due ? cq->events_queued : channel->units_due;
	channel->units_due -= due;
	channel->units_pending += cq->events_queued - due;
	count_queued(channel, -(int)cq->events_queued);
	cq->events_queued = 0;
	settle_units(channel);
	pthread_mutex_unlock(&channel->lock);
}

/*
 * The CQ of the oldest event, or NULL if the event that was waited for was removed. *is_early: there is no event, but a peer has added the
 * unit of one.
 */
static struct cq *channel_take(struct comp_channel *channel, bool *is_early)
{
	struct cq *cq = NULL;

	*is_early = false;
	pthread_mutex_lock(&channel->lock);
	if (!list_is_empty(&channel->ready)) {
		cq = list_first_entry(&channel->ready, struct cq, channel_node);
		cq->comp_events_fetched++;
		if (--cq->events_queued)
			list_move_tail(&cq->channel_node, &channel->ready);
		else
			list_del(&cq->channel_node);
		count_queued(channel, -1);
		settle_units(channel);
	} else {
		channel->units_pending -= channel->units_pending > 0;
		*is_early = wakes_directly(channel);
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
	has_event = !list_is_empty(&channel->ready) || channel->units_pending;
	pthread_mutex_unlock(&channel->lock);
	return has_event;
}

/* The descriptor is examined once in READY_CALLS calls. */
#define READY_CALLS 64

/*
 * The application has called ibv_get_cq_event() when an event was ready. If the descriptor has O_NONBLOCK, the application waits for
 * it by other means.
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
 * The calling thread has read a unit before the transports have received the message for which a peer has added it. If there is no
 * such message, it gets an event without a completion: it must not see that the descriptor was readable without an event.
 */
static struct cq *take_early(struct comp_channel *channel)
{
	struct engine *engine = to_context(channel->pub.context)->engine;
	struct cq *cq, *found = NULL;
	bool is_early;

	engine_lock(engine);
	if (engine_may_serve(engine) && engine_turn(engine))
		engine_wake_late(engine);
	list_for_each_entry(cq, &engine->cqs, node) {
		if (!found && cq->channel == channel)
			found = cq;
	}
	if (found)
		channel_post_extra(channel, found);
	engine_unlock(engine);
	return channel_take(channel, &is_early);
}

/* Takes one unit of the descriptor. Before the call may block, it switches the engine from polling to doorbells. */
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

int channel_try(struct comp_channel *channel)
{
	bool is_early;

	do {
		if (!channel_has_event(channel) || event_fd_try(channel->pub.fd))
			return -EAGAIN;
	} while (!channel_take(channel, &is_early));
	set_taker(channel);
	return 0;
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
		cq = channel_take(channel, &is_early);
		if (is_early)
			cq = take_early(channel);
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
