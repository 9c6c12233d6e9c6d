/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "rdmacm/event.h"
#include "rdmacm/migrate.h"
#include "rdmacm/public.h"

/*
 * A channel's socket is a queue with events of many ids, and only its head can be taken. To take
 * those of one id out of the middle, the daemon is asked to hold its pushes, the queue is emptied,
 * and the daemon gets back what is to be queued again, on whatever channel each event's id has by
 * then (ipc/msg.h at struct ipc_cm_migrate).
 */
struct haul {
	struct ipc_cm_event *events;
	size_t count;
	size_t room;
};

static int hold_pushes(struct rcm_session *session, uint32_t id, uint32_t new_channel,
		       uint64_t cookie)
{
	struct ipc_cm_migrate req = {
		.hdr.type = IPC_CM_MIGRATE_BEGIN,
		.id = id,
		.new_channel = new_channel,
		.cookie = cookie,
	};

	return rcm_session_request(session, &req, sizeof(req));
}

static bool haul_has_room(struct haul *haul)
{
	size_t room = haul->room ? 2 * haul->room : 16;
	struct ipc_cm_event *events;

	if (haul->count < haul->room)
		return true;
	events = realloc(haul->events, room * sizeof(*events));
	if (!events)
		return false;
	haul->events = events;
	haul->room = room;
	return true;
}

/*
 * Empties the socket, with the channel's lock held. Out of memory leaves the rest where it is:
 * those events will be seen before the ones that are given back, which is wrong but loses nothing.
 */
static void empty_socket(struct rcm_channel *channel, struct haul *haul)
{
	int fds[IPC_FDS_MAX];

	while (haul_has_room(haul)) {
		struct ipc_cm_event *event = &haul->events[haul->count];
		int nfds = 0;
		int len = ipc_recv(channel->pub.fd, true, event, sizeof(*event), fds, &nfds);

		if (len == -EINTR)
			continue;
		if (len < 0)
			return;
		fdpass_close(fds, nfds);
		if (len == (int)sizeof(*event) && event->hdr.type == IPC_CM_EVENT)
			haul->count++;
	}
	log_error("out of memory while events of channel %u are moved", channel->handle);
}

/* Lets the pushes on `channel` go on, after the events of the haul. */
static void give_back(struct rcm_session *session, uint32_t channel, const struct haul *haul)
{
	struct ipc_cm_migrate_end *req = calloc(1, sizeof(*req));
	size_t given = 0;
	int ret;

	if (!req) {
		log_error("out of memory: event channel %u stays on hold", channel);
		return;
	}
	do {
		size_t count = haul->count - given;

		if (count > IPC_MIGRATE_EVENTS)
			count = IPC_MIGRATE_EVENTS;
		if (count)
			memcpy(req->events, haul->events + given, count * sizeof(*req->events));
		given += count;
		req->hdr.type = IPC_CM_MIGRATE_END;
		req->channel = channel;
		req->count = (uint32_t)count;
		req->more = given < haul->count;
		ret = rcm_session_request(session, req, sizeof(*req));
	} while (!ret && given < haul->count);
	if (ret && ret != -ENODEV)
		log_error("the daemon does not take events back: %s", strerror(-ret));
	free(req);
}

static bool is_event_of(const struct rcm_id *id, const struct ipc_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return event->listen_cookie == id->cookie;
	return event->cookie ? event->cookie == id->cookie : event->id == id->handle;
}

/* Drops the id's events from a haul; requests among them are refused. */
static void drop_events(const struct rcm_id *id, struct haul *haul)
{
	size_t kept = 0;

	for (size_t i = 0; i < haul->count; i++) {
		const struct ipc_cm_event *event = &haul->events[i];

		if (!is_event_of(id, event))
			haul->events[kept++] = *event;
		else if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rcm_event_refuse(id->session, event->id);
	}
	haul->count = kept;
}

void rcm_migrate_discard(struct rcm_id *id)
{
	struct rcm_channel *channel = id->channel;
	struct haul haul = {0};
	int ret;

	pthread_mutex_lock(&channel->hold_lock);
	ret = hold_pushes(id->session, 0, channel->handle, 0);
	if (!ret) {
		pthread_mutex_lock(&channel->lock);
		empty_socket(channel, &haul);
		pthread_mutex_unlock(&channel->lock);
		drop_events(id, &haul);
		give_back(id->session, channel->handle, &haul);
	}
	pthread_mutex_unlock(&channel->hold_lock);
	if (ret && ret != -ENODEV)
		log_warn("unread events of id %u stay in its channel: %s", id->handle,
			 strerror(-ret));
	free(haul.events);
}

static void enter_channel(struct rcm_id *id, struct rcm_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	channel->refs++;
	list_add_tail(&id->channel_node, &channel->ids);
	id->channel = channel;
	id->pub.channel = &channel->pub;
	pthread_mutex_unlock(&channel->lock);
}

static int change_channel(struct rcm_id *id, struct rcm_channel *to)
{
	struct rcm_channel *from = id->channel;
	struct haul haul = {0};
	int ret;

	pthread_mutex_lock(&from->hold_lock);
	ret = hold_pushes(id->session, id->handle, to->handle, id->cookie);
	if (ret)
		goto out;
	pthread_mutex_lock(&from->lock);
	empty_socket(from, &haul);
	list_del(&id->channel_node);
	pthread_mutex_unlock(&from->lock);
	/* Before the events come: readers of the new channel must find the id there. */
	enter_channel(id, to);
	give_back(id->session, from->handle, &haul);
out:
	pthread_mutex_unlock(&from->hold_lock);
	free(haul.events);
	return ret;
}

int rcm_migrate(struct rcm_id *id, struct rcm_channel *to)
{
	struct rcm_channel *from = id->channel;
	bool was_sync = id->is_sync;
	struct rcm_channel *own = NULL;
	int ret;

	if (!to && was_sync)
		return -EINVAL;
	if (id->session->is_inherited)
		return -ENODEV;
	if (!to) {
		ret = rcm_channel_create(&own);
		if (ret)
			return ret;
	}
	rcm_id_release_event(id);
	rcm_id_wait_acked(id, NULL, "rdma_migrate_id()");
	ret = from == to ? 0 : change_channel(id, to ? to : own);
	if (ret) {
		if (own)
			rcm_channel_close(own);
		return ret;
	}
	if (from == to)
		return 0;
	id->is_sync = own != NULL;
	if (was_sync)
		rcm_channel_close(from);
	rcm_channel_put(from);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(
		rcm_migrate(rcm_id_of(id), channel ? rcm_channel_of(channel) : NULL));
}
