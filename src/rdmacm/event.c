/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "rdmacm/event.h"
#include "rdmacm/multicast.h"
#include "rdmacm/public.h"
#include "rdmacm/session.h"

void rcm_event_refuse(struct rcm_session *session, uint32_t handle)
{
	struct ipc_cm_destroy_reply reply;
	struct ipc_cm_id req = {.hdr.type = IPC_CM_DESTROY, .id = handle};
	int ret = ipc_call(&session->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));

	if (ret && ret != -ENODEV)
		log_warn("the daemon does not end id %u: %s", handle, strerror(-ret));
}

/* Which id an event is for: its cookie says, or, until the daemon knows that, its handle. */
static struct rcm_id *find_owner(struct rcm_channel *channel, const struct ipc_cm_event *msg)
{
	uint64_t cookie = msg->event == RDMA_CM_EVENT_CONNECT_REQUEST ? msg->listen_cookie :
									msg->cookie;
	struct rcm_id *id;

	if (cookie) {
		id = rcm_id_find(cookie);
		return id && id->channel == channel ? id : NULL;
	}
	list_for_each_entry(id, &channel->ids, channel_node)
		if (id->handle == msg->id)
			return id;
	return NULL;
}

static void copy_conn_param(struct rcm_event *event, const struct ipc_cm_param *param)
{
	struct rdma_conn_param *conn = &event->pub.param.conn;

	if (param->private_len) {
		conn->private_data = event->private_data;
		conn->private_data_len = (uint8_t)param->private_len;
	}
	conn->responder_resources = param->responder_resources;
	conn->initiator_depth = param->initiator_depth;
	conn->flow_control = param->flow_control;
	conn->retry_count = param->retry_count;
	conn->rnr_retry_count = param->rnr_retry_count;
	conn->srq = param->srq;
	conn->qp_num = param->qp_num;
}

/* But for the way to the peer, which follows from the id's route. */
static void copy_ud_param(struct rcm_event *event, const struct ipc_cm_param *param)
{
	struct rdma_ud_param *ud = &event->pub.param.ud;

	if (param->private_len) {
		ud->private_data = event->private_data;
		ud->private_data_len = (uint8_t)param->private_len;
	}
	ud->qp_num = param->qp_num;
	ud->qkey = param->qkey;
}

static void copy_param(struct rcm_event *event, const struct rcm_id *id,
		       const struct ipc_cm_param *param)
{
	memcpy(event->private_data, param->private_data, param->private_len);
	if (rcm_id_is_datagram(id))
		copy_ud_param(event, param);
	else
		copy_conn_param(event, param);
}

/*
 * Hands an event to the one who will have to acknowledge it. false: it is about a multicast group
 * that the id has left.
 */
static bool book(struct rcm_event *event, struct rcm_id *owner, uint64_t join_cookie)
{
	struct rcm_membership *membership = NULL;

	event->owner = owner;
	pthread_mutex_lock(&owner->lock);
	if (join_cookie)
		membership = rcm_membership_find(owner, join_cookie);
	if (membership || !join_cookie)
		list_add_tail(&event->node, &owner->unacked);
	event->membership = membership;
	pthread_mutex_unlock(&owner->lock);
	return membership || !join_cookie;
}

/*
 * Makes the user's event of a message, with the channel's lock held. false: nobody wants it,
 * because its id is gone or going, and a request that it brought is refused.
 */
static bool accept_message(struct rcm_channel *channel, const struct ipc_cm_event *msg,
			   struct rcm_event *event)
{
	bool is_request = msg->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct rcm_id *owner = find_owner(channel, msg);
	struct rcm_id *id = owner;

	if (owner)
		owner->events_received++;
	if (!owner || owner->is_dying)
		goto unwanted;
	if (is_request && rcm_id_adopt(owner, msg->id, &id)) {
		log_error("out of memory: a connection request is refused");
		goto unwanted;
	}
	event->pub.event = (enum rdma_cm_event_type)msg->event;
	event->pub.status = msg->status;
	event->pub.id = &id->pub;
	event->pub.listen_id = is_request ? &owner->pub : NULL;
	copy_param(event, id, &msg->param);
	return book(event, owner, msg->join_cookie);

unwanted:
	if (is_request)
		rcm_event_refuse(channel->session, msg->id);
	return false;
}

/* The daemon is gone: tells one id that was not told. -ENODEV when all know. */
static int tell_removed(struct rcm_channel *channel, struct ipc_cm_event *msg,
			struct rcm_event *event)
{
	struct rcm_id *id;

	channel->is_dead = true;
	list_for_each_entry(id, &channel->ids, channel_node) {
		if (id->is_told_removed || id->is_dying)
			continue;
		id->is_told_removed = true;
		memset(msg, 0, sizeof(*msg));
		msg->event = RDMA_CM_EVENT_DEVICE_REMOVAL;
		event->pub.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
		event->pub.id = &id->pub;
		return book(event, id, 0);
	}
	return -ENODEV;
}

static bool is_well_formed(const struct ipc_cm_event *msg, int len)
{
	return len == (int)sizeof(*msg) && msg->hdr.type == IPC_CM_EVENT &&
	       msg->event <= RDMA_CM_EVENT_INTERNAL && msg->param.private_len <= UINT8_MAX;
}

/*
 * Takes one message if there is any: 1, an event was made of it; 0, it was dropped; -EAGAIN;
 * -EINTR; -ENODEV.
 */
static int take_locked(struct rcm_channel *channel, struct ipc_cm_event *msg,
		       struct rcm_event *event)
{
	int fds[IPC_FDS_MAX];
	int nfds = 0;
	int len;

	if (channel->is_dead)
		return tell_removed(channel, msg, event);
	len = ipc_recv(channel->pub.fd, true, msg, sizeof(*msg), fds, &nfds);
	if (len == -EAGAIN || len == -EINTR || len == -EBADF)
		return len;
	if (len < 0 && len != -EPROTO) {
		log_warn("event channel %u is lost: %s", channel->handle, strerror(-len));
		return tell_removed(channel, msg, event);
	}
	fdpass_close(fds, nfds);
	if (len < 0 || !is_well_formed(msg, len)) {
		log_error("the daemon pushed nonsense on event channel %u", channel->handle);
		return 0;
	}
	return accept_message(channel, msg, event);
}

/* Whether somebody waits for the event at the head of a socket. */
static bool is_wanted(struct rcm_channel *channel, const struct ipc_cm_event *msg)
{
	struct rcm_id *owner = find_owner(channel, msg);
	bool is_wanted;

	if (!owner || owner->is_dying)
		return false;
	if (!msg->join_cookie)
		return true;
	pthread_mutex_lock(&owner->lock);
	is_wanted = rcm_membership_find(owner, msg->join_cookie);
	pthread_mutex_unlock(&owner->lock);
	return is_wanted;
}

void rcm_event_trim(struct rcm_channel *channel)
{
	struct ipc_cm_event msg;
	struct rcm_event none;

	while (channel->has_stale && !channel->is_dead) {
		ssize_t len = recv(channel->pub.fd, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT);

		if (len < 0) {
			channel->has_stale = false;
			return;
		}
		if (len != (ssize_t)sizeof(msg))
			return;
		if (is_wanted(channel, &msg))
			return;
		/* Without an owner it is dropped, or nonsense: never made an event of. */
		if (take_locked(channel, &msg, &none))
			return;
	}
}

static void leave_channel(void *channel)
{
	rcm_channel_put(channel);
}

/*
 * Sleeps until the channel has something, or answers -EAGAIN if its user made it non-blocking.
 * Looking without taking leaves the taking to take_locked(), and a signal restarts it as it would a
 * read(). Here, and nowhere else on the way to an event, a thread may be cancelled: it holds
 * nothing but a reference, for programs that destroy a channel on which a thread of theirs sleeps.
 */
static int wait_readable(struct rcm_channel *channel, int cancel_state)
{
	int ret;
	char byte;

	rcm_channel_ref(channel);
	pthread_cleanup_push(leave_channel, channel);
	pthread_setcancelstate(cancel_state, NULL);
	ret = recv(channel->pub.fd, &byte, sizeof(byte), MSG_PEEK) < 0 ? -errno : 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (channel->pub.fd < 0)
		ret = -EBADF;
	pthread_cleanup_pop(1);
	return ret == -EAGAIN || ret == -EINTR || ret == -EBADF ? ret : 0;
}

/*
 * Room for an event. Where there is no memory the spare serves: who waits for the channel finds it readable until somebody
 * takes what is there, so that it must not lie there for want of memory. What the spare's event gives back when it is
 * acknowledged is the next spare.
 */
static struct rcm_event *make_event(struct rcm_channel *channel)
{
	struct rcm_event *event = calloc(1, sizeof(*event));

	if (!event) {
		event = channel->spare;
		channel->spare = NULL;
	} else if (!channel->spare) {
		channel->spare = calloc(1, sizeof(*event));
	}
	return event;
}

static void drop_event(struct rcm_channel *channel, struct rcm_event *event)
{
	if (channel->spare) {
		free(event);
		return;
	}
	memset(event, 0, sizeof(*event));
	channel->spare = event;
}

/* Makes an event of the next message, if there is one and it has an owner: 1, or as take_locked(); or -ENOMEM. */
static int take(struct rcm_channel *channel, struct ipc_cm_event *msg, struct rcm_event **taken)
{
	struct rcm_event *event;
	int ret = -ENOMEM;

	pthread_mutex_lock(&channel->lock);
	event = make_event(channel);
	if (event)
		ret = take_locked(channel, msg, event);
	if (channel->has_stale)
		rcm_event_trim(channel);
	if (ret > 0)
		*taken = event;
	else if (event)
		drop_event(channel, event);
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

/* 0 with an event for the user, or -errno. */
static int get(struct rcm_channel *channel, struct rcm_event **taken, int cancel_state)
{
	struct ipc_cm_event msg;
	int ret;

	for (;;) {
		ret = take(channel, &msg, taken);
		if (ret > 0 && rcm_event_deliver(*taken, &msg))
			return 0;
		if (ret > 0)
			rcm_event_ack(*taken);
		if (ret == -EAGAIN)
			ret = wait_readable(channel, cancel_state);
		if (ret < 0)
			return ret;
	}
}

int rcm_event_get(struct rcm_channel *channel, struct rcm_event **taken)
{
	int cancel_state, ret;

	if (channel->session->is_inherited)
		return -ENODEV;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	ret = get(channel, taken, cancel_state);
	pthread_setcancelstate(cancel_state, NULL);
	return ret;
}

void rcm_event_ack(struct rcm_event *event)
{
	struct rcm_id *owner = event->owner;

	pthread_mutex_lock(&owner->lock);
	list_del(&event->node);
	pthread_cond_broadcast(&owner->acked);
	pthread_mutex_unlock(&owner->lock);
	free(event);
}

/* The errno of an outcome that is not the expected one, or 0 if the event says nothing about it. */
static int failure_of(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDRINFO_ERROR:
		break;
	default:
		return 0;
	}
	if (event->status == 0)
		return -EIO;
	/* A datagram service that answered, and said no. */
	if (event->status > 0 && event->event == RDMA_CM_EVENT_UNREACHABLE)
		return -ECONNREFUSED;
	return event->status < 0 ? event->status : -event->status;
}

int rcm_event_complete(struct rcm_id *id, enum rdma_cm_event_type expected)
{
	struct rcm_event *event;
	int ret;

	if (!id->is_sync)
		return 0;
	for (;;) {
		rcm_id_release_event(id);
		ret = rcm_event_get(id->channel, &event);
		if (ret)
			return ret;
		id->pub.event = &event->pub;
		if (event->pub.event == expected)
			return event->pub.status > 0 ? -event->pub.status : event->pub.status;
		ret = failure_of(&event->pub);
		if (ret)
			return ret;
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rcm_event *taken;
	int ret;

	if (!channel || !event)
		return rcm_public_result(-EINVAL);
	ret = rcm_event_get(rcm_channel_of(channel), &taken);
	if (!ret)
		*event = &taken->pub;
	return rcm_public_result(ret);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return rcm_public_result(-EINVAL);
	rcm_event_ack(rcm_event_of(event));
	return 0;
}
