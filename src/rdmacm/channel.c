/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rdmacm/channel.h"
#include "rdmacm/event.h"

static int rdmacm_channel_notify_daemon(struct rcm_session *session, uint32_t handle)
{
	struct ipc_cm_channel req = {.hdr.type = IPC_CM_CHANNEL_DESTROY, .channel = handle};
	int ret = rcm_session_request(session, &req, sizeof(req));

	if (ret && ret != -ENODEV)
		log_warn("cannot destroy event channel %u in the daemon: %s", handle,
			 strerror(-ret));
	return ret;
}

/*
 * Creates the channel in the daemon and receives the socket on which the daemon pushes the
 * channel's events.
 */
static int connect_channel(struct rcm_channel *channel)
{
	struct ipc_cm_channel_reply reply = {0};
	struct ipc_hdr req = {.type = IPC_CM_CHANNEL_CREATE};
	int ret = ipc_call_fd(&channel->session->client, &req, sizeof(req), NULL, 0, &reply,
			      sizeof(reply), &channel->pub.fd);

	/* The daemon has created the channel, but this process could not receive the descriptor. */
	if (ret == -EMFILE && !reply.hdr.status)
		(void)rdmacm_channel_notify_daemon(channel->session, reply.channel);
	if (ret)
		return ret;
	channel->handle = reply.channel;
	return 0;
}

static int create_once(struct rcm_channel **created)
{
	struct rcm_channel *channel;
	int ret;

	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	channel->spare = calloc(1, sizeof(*channel->spare));
	channel->refusal = malloc(sizeof(*channel->refusal));
	ret = channel->spare && channel->refusal ? rcm_session_get(&channel->session) : -ENOMEM;
	if (ret)
		goto err_session;
	ret = connect_channel(channel);
	if (ret)
		goto err_connect;
	channel->refs = 1;
	list_init(&channel->ids);
	pthread_mutex_init(&channel->lock, NULL);
	pthread_mutex_init(&channel->hold_lock, NULL);
	*created = channel;
	return 0;

err_connect:
	rcm_session_put(channel->session);
err_session:
	free(channel->refusal);
	free(channel->spare);
	free(channel);
	return ret;
}

int rcm_channel_create(struct rcm_channel **channel)
{
	int ret = create_once(channel);

	/*
	 * The end of a daemon is only detected by a failing call. The second call connects to a new
	 * daemon.
	 */
	if (ret == -ENODEV)
		ret = create_once(channel);
	return ret;
}

void rcm_channel_ref(struct rcm_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->refs++;
	pthread_mutex_unlock(&channel->lock);
}

void rcm_channel_put(struct rcm_channel *channel)
{
	unsigned refs;

	/*
	 * In the child of a fork() the lock may be held by a thread that exists only in the parent.
	 */
	if (channel->session->is_inherited)
		return;
	pthread_mutex_lock(&channel->lock);
	refs = --channel->refs;
	pthread_mutex_unlock(&channel->lock);
	if (refs > 0)
		return;
	/* The daemon refused it before, because another thread migrated an id. */
	if (!channel->is_destroyed)
		(void)rdmacm_channel_notify_daemon(channel->session, channel->handle);
	rcm_session_put(channel->session);
	pthread_mutex_destroy(&channel->hold_lock);
	pthread_mutex_destroy(&channel->lock);
	free(channel->refusal);
	free(channel->spare);
	free(channel);
}

bool rcm_channel_is_destroyed(struct rcm_channel *channel)
{
	bool is_destroyed;

	pthread_mutex_lock(&channel->lock);
	is_destroyed = channel->is_destroyed;
	pthread_mutex_unlock(&channel->lock);
	return is_destroyed;
}

/*
 * Destroys the daemon's channel and ids, unless a thread waits for an event of the closed channel.
 */
static void destroy_closed(struct rcm_channel *channel)
{
	bool is_due;

	pthread_mutex_lock(&channel->lock);
	is_due = channel->is_closed && !channel->waiters && !channel->is_destroyed;
	/* Before the request: another thread that ends its wait must not send a second one. */
	channel->is_destroyed |= is_due;
	pthread_mutex_unlock(&channel->lock);
	if (!is_due || !rdmacm_channel_notify_daemon(channel->session, channel->handle))
		return;
	pthread_mutex_lock(&channel->lock);
	channel->is_destroyed = false;
	pthread_mutex_unlock(&channel->lock);
}

void rcm_channel_begin_wait(struct rcm_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->refs++;
	channel->waiters++;
	pthread_mutex_unlock(&channel->lock);
}

void rcm_channel_end_wait(struct rcm_channel *channel)
{
	if (!channel->session->is_inherited) {
		pthread_mutex_lock(&channel->lock);
		channel->waiters--;
		pthread_mutex_unlock(&channel->lock);
		destroy_closed(channel);
	}
	rcm_channel_put(channel);
}

void rcm_channel_close(struct rcm_channel *channel)
{
	sys_close(channel->pub.fd);
	channel->pub.fd = -1;
	/* In the child of a fork() the channel still exists in the parent. */
	if (!channel->session->is_inherited) {
		pthread_mutex_lock(&channel->lock);
		channel->is_closed = true;
		pthread_mutex_unlock(&channel->lock);
		destroy_closed(channel);
	}
	rcm_channel_put(channel);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rcm_channel *channel;
	int ret;

	probe_init();
	if (fault_call_fails(__func__))
		return NULL;
	ret = rcm_channel_create(&channel);
	if (ret) {
		errno = -ret;
		return NULL;
	}
	return &channel->pub;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel)
		rcm_channel_close(rcm_channel_of(channel));
}
