/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/cma_priv.h"
#include "daemon/push.h"
#include "ipc/client.h"

/* *client_end is to be passed to the client. */
int cma_channel_create(struct cma_client *client, int *client_end, struct cma_channel **out)
{
	struct cma_channel *channel;
	const int sndbuf = cma_user_sndbuf_bytes(client);
	uint64_t handle;
	int ret;

	if (client->channel_count >= CMA_CHANNELS_PER_CLIENT)
		return -EDQUOT;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	ret = push_socketpair(&channel->fd, client_end);
	if (ret)
		goto err_socket;
	ret = -EDQUOT;
	if (!cma_user_may_add_channel(client, channel->fd))
		goto err_handle;
	(void)setsockopt(channel->fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
	ret = id_table_add(&client->cma->channels, channel, &handle);
	if (ret)
		goto err_handle;
	channel->cma = client->cma;
	channel->client = client;
	channel->handle = (uint32_t)handle;
	list_init(&channel->ids);
	list_init(&channel->queue);
	list_init(&channel->returned);
	list_init(&channel->dirty);
	list_add_tail(&channel->node, &client->channels);
	client->channel_count++;
	*out = channel;
	return 0;

err_handle:
	close(channel->fd);
	close(*client_end);
	*client_end = -1;
err_socket:
	free(channel);
	return ret;
}

void cma_queued_free(struct cma_queued *queued)
{
	list_del(&queued->node);
	list_del(&queued->of_source);
	queued->channel->queued--;
	queued->channel->client->queued--;
	queued->channel->cma->queued--;
	free(queued);
}

static void drop_all(struct list_head *list)
{
	while (!list_is_empty(list))
		cma_queued_free(list_first_entry(list, struct cma_queued, node));
}

static void cma_channel_on_poll_closed(uv_handle_t *handle)
{
	struct cma_channel *channel = container_of(handle, struct cma_channel, poll);

	close(channel->fd);
	free(channel);
}

/* Frees a channel without ids. The socket is closed when libuv has closed the poll handle. */
void cma_channel_destroy(struct cma_channel *channel)
{
	id_table_remove(&channel->cma->channels, channel->handle);
	list_del(&channel->node);
	list_del(&channel->dirty);
	channel->client->channel_count--;
	drop_all(&channel->returned);
	drop_all(&channel->queue);
	if (channel->has_poll) {
		uv_close((uv_handle_t *)&channel->poll, cma_channel_on_poll_closed);
		return;
	}
	close(channel->fd);
	free(channel);
}

struct cma_channel *cma_channel_of(struct cma_client *client, uint32_t handle)
{
	struct cma_channel *channel = id_table_get(&client->cma->channels, handle);

	return channel && channel->client == client ? channel : NULL;
}

/* Upper limit of the events in the socket: each uses more buffer space than its own size. */
uint32_t cma_channel_unread(const struct cma_channel *channel)
{
	int unread_bytes = 0;

	if (ioctl(channel->fd, SIOCOUTQ, &unread_bytes) || unread_bytes < 0)
		return 0;
	return (uint32_t)unread_bytes / (uint32_t)sizeof(struct ipc_cm_event);
}

/* Whether the client has read all events of the channel. */
bool cma_channel_is_read(const struct cma_channel *channel)
{
	return channel->queued == 0 && !channel->is_held && cma_channel_unread(channel) == 0;
}

static void cma_channel_on_writable(uv_poll_t *poll, int status, int events)
{
	struct cma_channel *channel = container_of(poll, struct cma_channel, poll);

	(void)status;
	(void)events;
	uv_poll_stop(poll);
	channel->is_blocked = false;
	cma_channel_flush(channel);
}

/* The socket is full: cma_channel_on_writable() runs when it has room. */
static void cma_channel_wait_writable(struct cma_channel *channel)
{
	if (!channel->has_poll) {
		if (uv_poll_init(channel->cma->loop, &channel->poll, channel->fd))
			return;
		channel->has_poll = true;
	}
	if (!uv_poll_start(&channel->poll, UV_WRITABLE, cma_channel_on_writable))
		channel->is_blocked = true;
}

void cma_channel_flush(struct cma_channel *channel)
{
	list_del(&channel->dirty);
	while (!channel->is_held && !channel->is_blocked && !list_is_empty(&channel->queue)) {
		struct cma_queued *queued = list_first_entry(&channel->queue, struct cma_queued,
							     node);
		int ret = ipc_send(channel->fd, &queued->event, sizeof(queued->event), NULL, 0);

		if (ret == -EAGAIN) {
			cma_channel_wait_writable(channel);
			return;
		}
		/*
		 * An error other than -EAGAIN means that the client closed its end. The event is
		 * dropped.
		 */
		if (ret)
			channel->cma->counters.events_lost++;
		cma_queued_free(queued);
	}
}

void cma_channel_dirty(struct cma_channel *channel)
{
	if (channel->is_held || channel->is_blocked || list_is_linked(&channel->dirty))
		return;
	list_add_tail(&channel->dirty, &channel->cma->dirty);
	cma_wake(channel->cma);
}
