/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cma_priv.h"
#include "daemon/user_log.h"

static void cma_event_append(struct cma_channel *channel, struct list_head *list,
			     struct cma_queued *queued)
{
	queued->channel = channel;
	list_add_tail(&queued->node, list);
	channel->queued++;
	channel->client->queued++;
	channel->cma->queued++;
	cma_channel_dirty(channel);
}

/*
 * The sum of a user's events is computed only at each UNREAD_LOOKS_EVERY-th event of a client, and
 * only if all clients together have reached the limit of one user.
 */
#define UNREAD_LOOKS_EVERY 16u
#define UNREAD_PER_USER	   (CMA_UNREAD_BYTES_PER_USER / (uint32_t)sizeof(struct cma_queued))

/*
 * Called after an event was queued. If the user has too many queued events, ends its client with
 * the most queued events.
 */
static void limit_unread(const struct cma_client *client)
{
	struct cma_client *other, *most = NULL;
	uint32_t unread = 0;

	if (client->peer.uid == 0 || client->cma->queued < UNREAD_PER_USER ||
	    client->queued % UNREAD_LOOKS_EVERY)
		return;
	list_for_each_entry(other, &client->cma->clients, node) {
		if (other->peer.uid != client->peer.uid || other->is_evicted)
			continue;
		unread += other->queued;
		if (!most || other->queued > most->queued)
			most = other;
	}
	if (unread < UNREAD_PER_USER || !most || !most->peer.end)
		return;
	most->is_evicted = true;
	client->cma->counters.clients_evicted++;
	most->peer.end(most->peer.ctx);
}

/*
 * Most events occur once for each id, and all of them are queued for a client that does not read.
 * Events that a client can cause repeatedly by requests, such as failed resolutions, are limited.
 */
bool cma_client_is_unresponsive(const struct cma_client *client, uint32_t times)
{
	return client->queued / times >= CMA_UNREAD_MAX + CMA_UNREAD_PER_ID * client->id_count;
}

/*
 * During a migration the id's events are queued in the previous channel. So are the events of
 * requests to it that the client has not accepted or rejected. Thus no event overtakes those that
 * are still in that channel.
 */
static struct cma_channel *channel_for(struct cma_id *id)
{
	struct cma_id *listener;

	if (id->held_by)
		return id->held_by;
	listener = id->listener ? cma_id_of(id->client, id->listener) : NULL;
	return listener && listener->held_by ? listener->held_by : id->channel;
}

void cma_event_push(struct cma_id *id, struct cma_id *source, struct ipc_cm_event *event)
{
	struct cma_channel *channel = channel_for(source);
	struct cma_queued *queued;

	cma_failed_event(id, event);
	if (id->client->is_evicted) {
		id->cma->counters.events_lost++;
		return;
	}
	queued = malloc(sizeof(*queued));
	if (!queued) {
		user_log(USER_LOG_MEMORY, LOG_LEVEL_ERROR, id->client->peer.uid,
			 "out of memory: an event of id %u is lost", id->handle);
		id->cma->counters.events_lost++;
		return;
	}
	event->hdr = (struct ipc_hdr){.type = IPC_CM_EVENT, .len = sizeof(*event)};
	event->cookie = id->cookie;
	event->listen_cookie = source == id ? 0 : source->cookie;
	event->events_sent = ++source->events_sent;
	event->id = id->handle;
	if (!event->join_cookie)
		event->route = id->route;
	event->qp = id->qp;
	queued->event = *event;
	list_add_tail(&queued->of_source, &source->unpushed);
	id->cma->counters.events++;
	cma_event_append(channel, &channel->queue, queued);
	limit_unread(channel->client);
}

void cma_event_private_data(struct ipc_cm_event *event, const void *data, size_t len)
{
	memcpy(event->param.private_data, data, len);
	event->param.private_len = (uint32_t)len;
}

/* Queues an event without parameters, except its status. */
void cma_event_status(struct cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct ipc_cm_event event = {.event = type, .status = status};

	cma_event_push(id, id, &event);
}

int cma_write_event(struct cma_id *id, const struct ipc_cm_write_event *req)
{
	struct ipc_cm_event event = {.event = req->event, .status = req->status};

	switch (req->event) {
	case RDMA_CM_EVENT_ADDRINFO_RESOLVED:
	case RDMA_CM_EVENT_ADDRINFO_ERROR:
	case RDMA_CM_EVENT_USER:
		break;
	default:
		return -EINVAL;
	}
	if (id->channel->queued >= CMA_QUEUE_OF_OWN_MAKING)
		return -ENOBUFS;
	memcpy(event.param.private_data, &req->arg, sizeof(req->arg));
	event.param.private_len = sizeof(req->arg);
	cma_event_push(id, id, &event);
	return 0;
}

/* A membership has at most one event. */
void cma_event_purge_join(struct cma_id *id, uint64_t join_cookie)
{
	struct cma_queued *queued;

	list_for_each_entry(queued, &id->unpushed, of_source) {
		if (queued->event.join_cookie != join_cookie)
			continue;
		cma_queued_free(queued);
		id->events_sent--;
		return;
	}
}

/*
 * Removes the events of an id that is being destroyed from their queues. Requests whose
 * CONNECT_REQUEST is removed are rejected.
 */
void cma_event_purge(struct cma_id *id)
{
	while (!list_is_empty(&id->unpushed)) {
		struct cma_queued *queued = list_first_entry(&id->unpushed, struct cma_queued,
							     of_source);
		struct cma_id *child = NULL;

		if (queued->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			child = cma_id_of(id->client, queued->event.id);
		cma_queued_free(queued);
		/* The client will not receive this event. */
		id->events_sent--;
		if (child && child->listener == id->handle)
			cma_id_destroy(child);
	}
}

static void set_channel(struct cma_id *id, struct cma_channel *channel)
{
	list_del(&id->of_channel);
	id->channel = channel;
	list_add_tail(&id->of_channel, &channel->ids);
}

int cma_migrate_begin(struct cma_client *client, const struct ipc_cm_migrate *req)
{
	struct cma_channel *to = cma_channel_of(client, req->new_channel);
	struct cma_channel *held = to;
	struct cma_id *id = NULL;

	if (!to)
		return -EBADF;
	if (req->id) {
		id = cma_id_of(client, req->id);
		if (!id)
			return -EBADF;
		held = id->channel;
	}
	if (held->is_held || (id && id->held_by))
		return -EBUSY;
	held->is_held = true;
	held->returnable = cma_channel_unread(held);
	list_del(&held->dirty);
	if (!id)
		return 0;
	held->moving = id->handle;
	id->cookie = req->cookie;
	id->held_by = held;
	set_channel(id, to);
	return 0;
}

/*
 * Returns the id that counts the event now, and updates the event's cookies; NULL if the event is
 * obsolete, for example because its id was destroyed. The new id of a request moves with its
 * listener until the client has received the request.
 */
static struct cma_id *cma_event_source_of(struct cma_client *client, struct ipc_cm_event *event)
{
	struct cma_id *id = cma_id_of(client, event->id);
	struct cma_id *listener;

	if (!id)
		return NULL;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		event->cookie = id->cookie;
		return id;
	}
	if (!id->listener)
		return NULL;
	listener = cma_id_of(client, id->listener);
	if (!listener) {
		cma_id_destroy(id);
		return NULL;
	}
	if (!id->held_by)
		set_channel(id, listener->channel);
	event->listen_cookie = listener->cookie;
	return listener;
}

/*
 * Queues a held or returned event in the current channel of its id. In the held channel it precedes
 * the queued events.
 */
static void put_back(struct cma_channel *held, struct cma_id *source, struct cma_queued *queued)
{
	struct cma_channel *to = source->channel;

	list_add_tail(&queued->of_source, &source->unpushed);
	cma_event_append(to, to == held ? &held->returned : &to->queue, queued);
}

/*
 * Queues the events that the client read from the socket and returned, before those that were never
 * in the socket.
 */
static int cma_event_take_back(struct cma_client *client, struct cma_channel *held,
			       const struct ipc_cm_migrate_end *req)
{
	for (uint32_t i = 0; i < req->count; i++) {
		struct cma_queued *queued = malloc(sizeof(*queued));
		struct cma_id *source;

		if (!queued)
			return -ENOMEM;
		queued->event = req->events[i];
		queued->event.hdr = (struct ipc_hdr){.type = IPC_CM_EVENT,
						     .len = sizeof(queued->event)};
		source = cma_event_source_of(client, &queued->event);
		if (source)
			put_back(held, source, queued);
		else
			free(queued);
	}
	return 0;
}

/* Moves the events that were held during the migration to the current channels of their ids. */
static void sort_queue(struct cma_client *client, struct cma_channel *held)
{
	while (!list_is_empty(&held->queue)) {
		struct cma_queued *queued = list_first_entry(&held->queue, struct cma_queued, node);
		struct cma_id *source;

		list_del(&queued->node);
		list_del(&queued->of_source);
		held->queued--;
		client->queued--;
		client->cma->queued--;
		source = cma_event_source_of(client, &queued->event);
		if (source)
			put_back(held, source, queued);
		else
			free(queued);
	}
	list_splice_tail(&held->returned, &held->queue);
}

int cma_migrate_end(struct cma_client *client, const struct ipc_cm_migrate_end *req)
{
	struct cma_channel *held = cma_channel_of(client, req->channel);
	struct cma_id *id;
	int ret;

	if (!held)
		return -EBADF;
	if (!held->is_held || req->count > IPC_MIGRATE_EVENTS || req->more > 1 ||
	    req->count > held->returnable)
		return -EINVAL;
	/*
	 * Returning events that were read does not increase the number of unread events. This limit
	 * stops a client that returns events which it never received.
	 */
	if (req->count && cma_client_is_unresponsive(client, 2))
		return -EDQUOT;
	held->returnable -= req->count;
	ret = cma_event_take_back(client, held, req);
	if (ret || req->more)
		return ret;
	sort_queue(client, held);
	id = held->moving ? cma_id_of(client, held->moving) : NULL;
	if (id && id->held_by == held)
		id->held_by = NULL;
	held->moving = 0;
	held->is_held = false;
	if (!list_is_empty(&held->queue))
		cma_channel_dirty(held);
	return 0;
}
