/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "rdmacm/channel.h"
#include "rdmacm/event.h"

/* Gives the daemon one end of a new pair and keeps the other. */
static int connect_channel(struct rcm_channel *channel)
{
	struct ipc_cm_channel_reply reply;
	struct ipc_hdr req = {.type = IPC_CM_CHANNEL_CREATE};
	int ends[2];
	int ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	ret = ipc_call(&channel->session->client, &req, sizeof(req), &ends[1], 1, &reply,
		       sizeof(reply));
	close(ends[1]);
	if (ret) {
		close(ends[0]);
		return ret;
	}
	channel->pub.fd = ends[0];
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
	ret = channel->spare ? rcm_session_get(&channel->session) : -ENOMEM;
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
	free(channel->spare);
	free(channel);
	return ret;
}

int rcm_channel_create(struct rcm_channel **channel)
{
	int ret = create_once(channel);

	/*
	 * A daemon that died since the last call is only noticed by calling it; the next one may be
	 * alive.
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

static void tell_daemon(struct rcm_channel *channel)
{
	struct ipc_cm_channel req = {
		.hdr.type = IPC_CM_CHANNEL_DESTROY,
		.channel = channel->handle,
	};
	int ret = rcm_session_request(channel->session, &req, sizeof(req));

	if (ret && ret != -ENODEV)
		log_warn("the daemon keeps event channel %u: %s", channel->handle, strerror(-ret));
}

void rcm_channel_put(struct rcm_channel *channel)
{
	unsigned refs;

	/* In the child of a fork() the lock may be held by a thread that was left behind. */
	if (channel->session->is_inherited)
		return;
	pthread_mutex_lock(&channel->lock);
	refs = --channel->refs;
	pthread_mutex_unlock(&channel->lock);
	if (refs > 0)
		return;
	tell_daemon(channel);
	rcm_session_put(channel->session);
	pthread_mutex_destroy(&channel->hold_lock);
	pthread_mutex_destroy(&channel->lock);
	free(channel->spare);
	free(channel);
}

void rcm_channel_close(struct rcm_channel *channel)
{
	close(channel->pub.fd);
	channel->pub.fd = -1;
	rcm_channel_put(channel);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rcm_channel *channel;
	int ret = rcm_channel_create(&channel);

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
