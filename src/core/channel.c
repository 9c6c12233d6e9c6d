/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "core/call_failed.h"
#include "core/context.h"
#include "core/engine_serve.h"
#include "core/event_fd.h"

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
	pthread_mutex_init(&channel->lock, NULL);
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
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	call_failed(context, __func__, ret);
	errno = -ret;
	return NULL;
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
	context_put(context);
	engine_unlock(engine);
	sys_close(ibchannel->fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

void channel_post(struct comp_channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	if (!cq->events_queued++)
		list_add_tail(&cq->channel_node, &channel->ready);
	event_fd_post(channel->pub.fd);
	pthread_mutex_unlock(&channel->lock);
}

void channel_forget(struct comp_channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	list_del(&cq->channel_node);
	channel->units_pending = event_fd_drain(channel->pub.fd,
						channel->units_pending + cq->events_queued);
	cq->events_queued = 0;
	pthread_mutex_unlock(&channel->lock);
}

/* The CQ of the oldest event, or NULL if the event that was waited for was removed. */
static struct cq *channel_take(struct comp_channel *channel)
{
	struct cq *cq = NULL;

	pthread_mutex_lock(&channel->lock);
	if (!list_is_empty(&channel->ready)) {
		cq = list_first_entry(&channel->ready, struct cq, channel_node);
		cq->comp_events_fetched++;
		if (--cq->events_queued)
			list_move_tail(&cq->channel_node, &channel->ready);
		else
			list_del(&cq->channel_node);
		channel->units_pending = event_fd_drain(channel->pub.fd, channel->units_pending);
	} else if (channel->units_pending) {
		channel->units_pending--;
	}
	pthread_mutex_unlock(&channel->lock);
	return cq;
}

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

static int wait_or_serve(struct engine *engine, int fd)
{
	int ret = engine_serve_wait(engine, fd);

	return ret == -EAGAIN ? event_fd_wait(fd) : ret;
}

static void stop_waiting(void *engine)
{
	engine_serve_leave(engine);
}

/* Takes one unit of the descriptor. Before the call may block, it switches the engine from polling to doorbells. */
static int channel_wait(struct comp_channel *channel)
{
	struct engine *engine = to_context(channel->pub.context)->engine;
	int ret;

	if (engine->is_orphan)
		return -EIO;
	if (!event_fd_try(channel->pub.fd))
		return 0;
	engine_will_block(engine);
	engine_serve_enter(engine);
	pthread_cleanup_push(stop_waiting, engine);
	ret = is_nonblocking(channel->pub.fd) ? event_fd_wait(channel->pub.fd) :
						wait_or_serve(engine, channel->pub.fd);
	pthread_cleanup_pop(1);
	return ret;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibchannel, struct ibv_cq **ibcq, void **cq_context)
{
	struct comp_channel *channel = to_channel(ibchannel);
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
		cq = channel_take(channel);
	} while (!cq);
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
