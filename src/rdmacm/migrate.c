/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fdpass.h"
#include "base/checks.h"
#include "base/log.h"
#include "rdmacm/event.h"
#include "rdmacm/migrate.h"
#include "rdmacm/public.h"

/*
 * A channel's socket is a queue with events of several ids, of which only the head can be received.
 * To remove the events of one id, the daemon suspends its pushes and this process drains the queue.
 * The remaining events are returned to the daemon, which pushes each of them on the current channel
 * of its id (ipc/msg.h, struct ipc_cm_migrate). `drained` is the array of drained events.
 */
struct drained {
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

static bool drained_has_room(struct drained *drained)
{
	size_t room = drained->room ? 2 * drained->room : 16;
	struct ipc_cm_event *events;

	if (drained->count < drained->room)
		return true;
	events = realloc(drained->events, room * sizeof(*events));
	if (!events)
		return false;
	drained->events = events;
	drained->room = room;
	return true;
}

/*
 * Drains the socket. Called with the channel's lock held. Known limit: without memory the rest of
 * the events stays in the socket and is received before the returned events. The order is then
 * wrong, but no event is lost.
 */
static void empty_socket(struct rcm_channel *channel, struct drained *drained)
{
	int fds[IPC_FDS_MAX];

	mutex_assert_locked(&channel->lock);
	while (drained_has_room(drained)) {
		struct ipc_cm_event *event = &drained->events[drained->count];
		int nfds = 0;
		int len = ipc_recv(channel->pub.fd, true, event, sizeof(*event), fds, &nfds);

		if (len == -EINTR)
			continue;
		if (len < 0)
			return;
		fdpass_close(fds, nfds);
		if (len == (int)sizeof(*event) && event->hdr.type == IPC_CM_EVENT)
			drained->count++;
	}
	log_error("out of memory: the events of channel %u cannot be moved", channel->handle);
}

/* Returns the drained events to the daemon and resumes the pushes on `channel`. */
static void migrate_give_back(struct rcm_session *session, uint32_t channel,
			      const struct drained *drained)
{
	struct ipc_cm_migrate_end *req = calloc(1, sizeof(*req));
	size_t given = 0;
	int ret;

	if (!req) {
		log_error("out of memory: event channel %u remains suspended", channel);
		return;
	}
	do {
		size_t count = drained->count - given;

		if (count > IPC_MIGRATE_EVENTS)
			count = IPC_MIGRATE_EVENTS;
		if (count)
			memcpy(req->events, drained->events + given, count * sizeof(*req->events));
		given += count;
		req->hdr.type = IPC_CM_MIGRATE_END;
		req->channel = channel;
		req->count = (uint32_t)count;
		req->more = given < drained->count;
		ret = rcm_session_request(session, req, sizeof(*req));
	} while (!ret && given < drained->count);
	if (ret && ret != -ENODEV)
		log_error("cannot return events to the daemon: %s", strerror(-ret));
	free(req);
}

static bool is_event_of(const struct rcm_id *id, const struct ipc_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return event->listen_cookie == id->cookie;
	return event->cookie ? event->cookie == id->cookie : event->id == id->handle;
}

/* Destroys the daemon's id of a connection request that has no id in this process. */
static void migrate_refuse(struct rcm_session *session, uint32_t handle)
{
	struct ipc_cm_destroy_reply reply;
	struct ipc_cm_id req = {.hdr.type = IPC_CM_DESTROY, .id = handle};
	int ret = ipc_call(&session->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));

	if (ret && ret != -ENODEV)
		log_warn("cannot destroy id %u in the daemon: %s", handle, strerror(-ret));
}

/* Removes the id's events from the drained events; connection requests are rejected. */
static void drop_events(const struct rcm_id *id, struct drained *drained)
{
	size_t kept = 0;

	for (size_t i = 0; i < drained->count; i++) {
		const struct ipc_cm_event *event = &drained->events[i];

		if (!is_event_of(id, event))
			drained->events[kept++] = *event;
		else if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			migrate_refuse(id->session, event->id);
	}
	drained->count = kept;
}

void rcm_migrate_discard(struct rcm_id *id)
{
	struct rcm_channel *channel = id->channel;
	struct drained drained = {0};
	int ret;

	pthread_mutex_lock(&channel->hold_lock);
	ret = hold_pushes(id->session, 0, channel->handle, 0);
	if (!ret) {
		pthread_mutex_lock(&channel->lock);
		empty_socket(channel, &drained);
		pthread_mutex_unlock(&channel->lock);
		drop_events(id, &drained);
		migrate_give_back(id->session, channel->handle, &drained);
	}
	pthread_mutex_unlock(&channel->hold_lock);
	if (ret && ret != -ENODEV)
		log_warn("cannot move the unread events of id %u to its new channel: %s",
			 id->handle, strerror(-ret));
	free(drained.events);
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
	struct drained drained = {0};
	int ret;

	pthread_mutex_lock(&from->hold_lock);
	ret = hold_pushes(id->session, id->handle, to->handle, id->cookie);
	if (ret)
		goto out;
	pthread_mutex_lock(&from->lock);
	empty_socket(from, &drained);
	list_del(&id->channel_node);
	pthread_mutex_unlock(&from->lock);
	/*
	 * Before the events are returned: readers of the new channel must find the id in its list.
	 */
	enter_channel(id, to);
	migrate_give_back(id->session, from->handle, &drained);
out:
	pthread_mutex_unlock(&from->hold_lock);
	free(drained.events);
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
	return rcm_public_call(
		rcm_migrate(rcm_id_of(id), channel ? rcm_channel_of(channel) : NULL));
}
