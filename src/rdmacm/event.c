/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdpass.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/syscalls.h"
#include "rdmacm/event.h"
#include "rdmacm/multicast.h"
#include "rdmacm/probe.h"
#include "rdmacm/public.h"
#include "rdmacm/session.h"

/*
 * Destroys the daemon's id of a dropped connection request. The daemon then rejects the request.
 * The request to the daemon has no reply, because other threads wait for the channel's lock and
 * signals are blocked. Called with the channel's lock held. Uses channel->refusal.
 */
static void event_refuse(struct rcm_channel *channel, uint32_t handle)
{
	struct ipc_cm_id req = {.hdr.type = IPC_CM_DESTROY, .id = handle};

	mutex_assert_locked(&channel->lock);
	/* -EAGAIN: the thread that uses the connection, or the next request, sends it. */
	(void)!ipc_send_in_order(&channel->session->client, &req, sizeof(req), channel->refusal);
	channel->refusal = NULL;
}

/*
 * Allocates channel->refusal, before a message is received whose event may have to be dropped.
 * false: no memory.
 */
static bool prepare_refusal(struct rcm_channel *channel)
{
	if (!channel->refusal)
		channel->refusal = malloc(sizeof(*channel->refusal));
	return channel->refusal;
}

/*
 * Finds the id of an event by its cookie, or by its handle if the daemon does not have the cookie
 * yet. NULL: none.
 */
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

/* All members except ah_attr, which deliver_on_established() sets from the id's route. */
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
 * Adds an event to the unacked list of its owner. false: the event belongs to a multicast
 * membership that has ended.
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
 * Fills in the event from a message. Called with the channel's lock held and after
 * prepare_refusal(). false: the event is dropped, because its id or multicast membership has ended
 * or because there is no memory. A dropped connection request is rejected.
 */
static bool accept_message(struct rcm_channel *channel, const struct ipc_cm_event *msg,
			   struct rcm_event *event)
{
	bool is_request = msg->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct rcm_id *owner = find_owner(channel, msg);
	struct rcm_id *id = owner;

	mutex_assert_locked(&channel->lock);
	if (owner)
		owner->events_received++;
	if (!owner || owner->is_dying)
		goto unwanted;
	if (is_request && rcm_id_adopt(owner, msg->id, &id)) {
		log_error("out of memory: a connection request is rejected");
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
		event_refuse(channel, msg->id);
	return false;
}

/*
 * The connection to the daemon is lost: creates DEVICE_REMOVAL for one id that has not got it.
 * -ENODEV: all ids have got it.
 */
static int notify_removed(struct rcm_channel *channel, struct ipc_cm_event *msg,
			  struct rcm_event *event)
{
	struct rcm_id *id;

	if (!channel->is_dead)
		rcm_session_report_end(channel->session);
	channel->is_dead = true;
	list_for_each_entry(id, &channel->ids, channel_node) {
		if (id->is_removal_reported || id->is_dying)
			continue;
		id->is_removal_reported = true;
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
 * Receives one message without waiting. 1: `event` is filled in; 0: the message was dropped;
 * -EAGAIN; -EINTR; -EBADF: the channel is closed; -ENODEV.
 */
static int take_locked(struct rcm_channel *channel, struct ipc_cm_event *msg,
		       struct rcm_event *event)
{
	int fds[IPC_FDS_MAX];
	int nfds = 0;
	int len;

	mutex_assert_locked(&channel->lock);
	if (channel->is_dead)
		return notify_removed(channel, msg, event);
	len = ipc_recv(channel->pub.fd, true, msg, sizeof(*msg), fds, &nfds);
	if (len == -EAGAIN || len == -EINTR || len == -EBADF)
		return len;
	if (len < 0 && len != -EPROTO) {
		log_warn("event channel %u lost its connection to the daemon: %s", channel->handle,
			 strerror(-len));
		return notify_removed(channel, msg, event);
	}
	fdpass_close(fds, nfds);
	if (len < 0 || !is_well_formed(msg, len)) {
		log_error("the daemon sent an invalid message on event channel %u",
			  channel->handle);
		return 0;
	}
	return accept_message(channel, msg, event);
}

/*
 * Whether the event at the head of the socket has an id and, if it is a multicast event, a
 * membership.
 */
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

	mutex_assert_locked(&channel->lock);
	while (channel->has_stale && !channel->is_dead) {
		ssize_t len = sys_recv(channel->pub.fd, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT);

		if (len < 0) {
			channel->has_stale = false;
			return;
		}
		if (len != (ssize_t)sizeof(msg))
			return;
		if (is_wanted(channel, &msg) || !prepare_refusal(channel))
			return;
		/* A message without an owner is dropped; it never becomes an event. */
		if (take_locked(channel, &msg, &none))
			return;
	}
}

/*
 * The value of `wait_key` is the channel on which this thread waits, or NULL. The thread has a
 * reference to it, because a program may destroy a channel while one of its threads waits on it. If
 * a signal handler leaves the wait with siglongjmp(), the thread keeps the reference until its next
 * wait or its exit.
 */
static pthread_key_t wait_key;
static pthread_once_t wait_key_once = PTHREAD_ONCE_INIT;
static int wait_key_error;

/*
 * The C library calls this at the exit of a thread that has a reference, after it has reset the
 * value.
 */
static void put_at_thread_exit(void *channel)
{
	rcm_channel_end_wait(channel);
}

static void create_wait_key(void)
{
	wait_key_error = pthread_key_create(&wait_key, put_at_thread_exit);
}

static void end_wait(void *channel)
{
	/*
	 * If a signal handler interrupted this wait and called rdma_get_cm_event(), it has dropped
	 * the reference.
	 */
	if (pthread_getspecific(wait_key) != channel)
		return;
	/* Cannot fail: begin_wait() has set a value in this thread. */
	(void)pthread_setspecific(wait_key, NULL);
	rcm_channel_end_wait(channel);
}

/* 0 or -ENOMEM; the latter also if the process has no more keys. */
static int begin_wait(struct rcm_channel *channel)
{
	struct rcm_channel *kept;

	pthread_once(&wait_key_once, create_wait_key);
	if (wait_key_error)
		return -ENOMEM;
	kept = pthread_getspecific(wait_key);
	if (kept)
		end_wait(kept);
	if (pthread_setspecific(wait_key, channel))
		return -ENOMEM;
	rcm_channel_begin_wait(channel);
	return 0;
}

/*
 * The thread's cancellation state and signal mask before the call; they are restored during the
 * wait.
 */
struct interruptions {
	int cancel_state;
	sigset_t signals;
};

static void interruptions_disable(struct interruptions *before)
{
	signals_block(&before->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancel_state);
}

static void interruptions_restore(const struct interruptions *before)
{
	pthread_setcancelstate(before->cancel_state, NULL);
	signals_restore(&before->signals);
}

/*
 * Waits until the channel is readable; -EAGAIN if its fd is O_NONBLOCK. MSG_PEEK leaves the message
 * in the socket for take_locked(), and recv() restarts after a signal under the same conditions as
 * read(). Only here can the thread be cancelled and signal handlers run, because the thread holds
 * no lock.
 */
static int wait_readable(struct rcm_channel *channel, const struct interruptions *before)
{
	struct interruptions ignored;
	char byte;
	int ret = begin_wait(channel);

	if (ret)
		return ret;
	pthread_cleanup_push(end_wait, channel);
	interruptions_restore(before);
	ret = recv(channel->pub.fd, &byte, sizeof(byte), MSG_PEEK) < 0 ? -errno : 0;
	interruptions_disable(&ignored);
	if (channel->pub.fd < 0)
		ret = -EBADF;
	pthread_cleanup_pop(1);
	return ret == -EAGAIN || ret == -EINTR || ret == -EBADF ? ret : 0;
}

/*
 * Allocates an event, or uses the channel's spare event if there is no memory. The fd stays
 * readable until an event is received, so a shortage of memory must not prevent that. The spare is
 * allocated again when memory is available.
 */
static struct rcm_event *make_event(struct rcm_channel *channel)
{
	struct rcm_event *event;

	if (!prepare_refusal(channel))
		return NULL;
	event = calloc(1, sizeof(*event));
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

/* Receives the next message and creates its event. Returns as take_locked(), or -ENOMEM. */
static int event_take(struct rcm_channel *channel, struct ipc_cm_event *msg,
		      struct rcm_event **taken)
{
	struct rcm_event *event;
	int ret = -ENOMEM;

	pthread_mutex_lock(&channel->lock);
	event = make_event(channel);
	if (event)
		ret = take_locked(channel, msg, event);
	if (channel->has_stale)
		rcm_event_trim(channel);
	if (ret > 0) {
		*taken = event;
		channel->reader = pthread_self();
		channel->has_reader = true;
	} else if (event) {
		drop_event(channel, event);
	}
	pthread_mutex_unlock(&channel->lock);
	/*
	 * If the send buffer was full when a connection request was rejected, the request to the
	 * daemon is still queued.
	 */
	(void)!ipc_flush(&channel->session->client);
	return ret;
}

/* Receives messages until one is an event for the application. 0 or -errno. */
static int get(struct rcm_channel *channel, struct rcm_event **taken,
	       const struct interruptions *before)
{
	struct ipc_cm_event msg;
	int ret;

	for (;;) {
		ret = event_take(channel, &msg, taken);
		if (ret > 0 && rcm_event_deliver(*taken, &msg)) {
			trace_cm_event(*taken);
			return 0;
		}
		if (ret > 0)
			rcm_event_ack(*taken);
		if (ret == -EAGAIN)
			ret = wait_readable(channel, before);
		if (ret < 0)
			return ret;
	}
}

int rcm_event_get(struct rcm_channel *channel, struct rcm_event **taken)
{
	struct interruptions before;
	int ret;

	if (channel->session->is_inherited)
		return -ENODEV;
	interruptions_disable(&before);
	ret = get(channel, taken, &before);
	interruptions_restore(&before);
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

/* Whether an event reports the success of the call that waits for `expected`. */
static bool is_success(enum rdma_cm_event_type event, enum rdma_cm_event_type expected)
{
	switch (event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		/*
		 * Reported instead of ESTABLISHED if the id has no QP; rdma_establish() then
		 * completes the connection.
		 */
		return expected == RDMA_CM_EVENT_ESTABLISHED;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		/* The event after DISCONNECTED, if DISCONNECTED was received before the call. */
		return expected == RDMA_CM_EVENT_DISCONNECTED;
	default:
		return event == expected;
	}
}

/* The -errno of an event that reports a failure; 0: the event reports no failure. */
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
	/* A SIDR_REP that rejects the request. */
	if (event->status > 0 && event->event == RDMA_CM_EVENT_UNREACHABLE)
		return -ECONNREFUSED;
	return event->status < 0 ? event->status : -event->status;
}

/* Waits for the result of a request. The event that ends the wait is stored in id->event. */
static int await_outcome(struct rcm_id *id, enum rdma_cm_event_type expected)
{
	struct rcm_event *event;
	int ret;

	for (;;) {
		rcm_id_release_event(id);
		ret = rcm_event_get(id->channel, &event);
		if (ret)
			return ret;
		id->pub.event = &event->pub;
		if (is_success(event->pub.event, expected))
			return event->pub.status > 0 ? -event->pub.status : event->pub.status;
		ret = failure_of(&event->pub);
		if (ret)
			return ret;
	}
}

bool rcm_event_is_awaited(const struct rcm_id *id, enum rdma_cm_event_type expected)
{
	return id->is_sync && id->is_waiting && id->awaited == expected;
}

/*
 * The application itself has read an event of a synchronous id. If an interrupted call waited for
 * the event, a repeated call would never return.
 */
static void end_interrupted_wait(const struct rcm_event *event)
{
	struct rcm_id *owner = event->owner;

	if (owner->is_waiting &&
	    (is_success(event->pub.event, owner->awaited) || failure_of(&event->pub)))
		owner->is_waiting = false;
}

int rcm_event_complete(struct rcm_id *id, enum rdma_cm_event_type expected)
{
	int ret;

	if (!id->is_sync)
		return 0;
	/*
	 * is_waiting remains true if a signal, a longjmp() of its handler, or a cancellation ends
	 * the wait.
	 */
	id->awaited = expected;
	id->is_waiting = true;
	ret = await_outcome(id, expected);
	id->is_waiting = ret == -EINTR || ret == -EAGAIN;
	return ret;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rcm_event *taken;
	int ret;

	if (!channel || !event)
		return rcm_public_result(-EINVAL);
	ret = fault_call(__func__) ?: rcm_event_get(rcm_channel_of(channel), &taken);
	if (!ret) {
		end_interrupted_wait(taken);
		*event = &taken->pub;
	}
	return rcm_public_result(ret);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	int ret;

	if (!event)
		return rcm_public_result(-EINVAL);
	ret = fault_call(__func__);
	if (!ret)
		rcm_event_ack(rcm_event_of(event));
	return rcm_public_result(ret);
}
