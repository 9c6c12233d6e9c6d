/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rsocket/stream.h"
#include "rsocket/take_event.h"
#include "rsocket/wait.h"

/*
 * Only the service thread reads a listener's channel, so that connections are accepted while the
 * application is not in a call, as with TCP. Each REQ creates a stream: a half-open child until the
 * handshake is complete, then ready for accept(). When the backlog is full, the channel is not
 * read, and further REQs wait in the daemon.
 */

#define BACKLOG_MAX 4096
#define RETRIES	    7

/* A REQ, copied from its event. */
struct request {
	struct rdma_cm_id *id;
	int conn_ret;
	struct proto_conn conn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
};

/*
 * Takes the next event. id NULL: the event is not a REQ. -errno: no event, or the channel has
 * failed.
 */
static int stream_listen_take_request(struct stream *listener, struct request *request)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *param;
	bool is_removed;

	memset(request, 0, sizeof(*request));
	if (take_cm_event(listener->channel, &event))
		return -errno;
	param = &event->param.conn;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		request->id = event->id;
		request->conn_ret = proto_conn_decode(param->private_data, param->private_data_len,
						      &request->conn);
		request->responder_resources = param->responder_resources;
		request->initiator_depth = param->initiator_depth;
	}
	is_removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == listener->id;
	rdma_ack_cm_event(event);
	return is_removed ? -ENODEV : 0;
}

static void stream_listen_refuse(struct rdma_cm_id *id)
{
	if (rdma_reject(id, NULL, 0))
		log_debug("cannot send the rejection of a connection request: %m");
	rdma_destroy_id(id);
}

/* The child inherits all options of the listener, as with accept() on a TCP socket. */
static void inherit_options(struct stream *child, const struct stream *listener)
{
	child->sock.sizes = listener->sock.sizes;
	child->sock.options = listener->sock.options;
	if (child->sock.options.ints[OPTION_KEEPALIVE] && stream_set_keepalive(child, true))
		log_warn("rsocket %d: the keepalive timer cannot be set", child->sock.fd);
}

static int stream_listen_respond(struct stream *child, const struct request *request)
{
	uint8_t private_data[PROTO_CONN_BYTES];
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.responder_resources = request->responder_resources,
		.initiator_depth = request->initiator_depth,
		.flow_control = 1,
		.rnr_retry_count = RETRIES,
	};
	int ret = stream_endpoint_open(child);

	if (ret)
		return ret;
	stream_conn_learn(child, &request->conn);
	stream_conn_format(child, private_data);
	child->phase = STREAM_ACCEPTING;
	return rdma_accept(child->id, &param) ? -errno : 0;
}

/* Aborts a child that was not accepted. The peer's connection is reset, as with TCP. */
static void stream_listen_drop(struct stream *child)
{
	service_remove(&child->connect_item);
	child->sock.options.linger = (struct linger){.l_onoff = 1, .l_linger = 0};
	stream_close(&child->sock);
	rsock_put(&child->sock);
}

/* Resumes reading the channel after the backlog has shrunk. Locked. */
static void resume_reading(struct stream *listener)
{
	if (listener->is_full)
		service_set_watching(&listener->listen_item, true);
	listener->is_full = false;
}

/*
 * Removes a half-open child from the listener's list; returns false if it was not in the list. A
 * removed child does not keep the listener alive, which another thread may close at this time: the
 * listener is not accessed after its lock is released.
 */
static bool leave_half_open(struct stream *listener, struct stream *child)
{
	bool was_there;

	rsock_lock(&listener->sock);
	was_there = list_is_linked(&child->listener_node);
	list_del(&child->listener_node);
	resume_reading(listener);
	rsock_unlock(&listener->sock);
	return was_there;
}

static void become_ready(struct stream *listener, struct stream *child)
{
	rsock_lock(&listener->sock);
	if (list_is_linked(&child->listener_node)) {
		list_move_tail(&child->listener_node, &listener->ready);
		listener->ready_count++;
		rsock_wake(&listener->sock);
	}
	rsock_unlock(&listener->sock);
}

/* A half-open child's channel has an event: the handshake has completed or failed. */
static void on_half_open(struct service_item *item)
{
	struct stream *child = container_of(item, struct stream, connect_item);
	struct stream *listener = child->listener;
	bool is_opening, was_connected;

	rsock_lock(&child->sock);
	stream_progress_cm(child);
	is_opening = stream_is_opening(child);
	was_connected = stream_was_connected(child);
	rsock_unlock(&child->sock);
	if (is_opening)
		return;
	service_remove(item);
	if (was_connected)
		become_ready(listener, child);
	else if (leave_half_open(listener, child))
		stream_listen_drop(child);
}

static void take_in(struct stream *listener, const struct request *request)
{
	struct stream *child;
	struct rsock *sock;
	int ret;

	ret = stream_create(listener->sock.domain, request->id, &sock);
	if (ret) {
		log_warn("rsocket %d rejects a connection request: %s", listener->sock.fd,
			 strerror(-ret));
		stream_listen_refuse(request->id);
		return;
	}
	child = stream_of(sock);
	inherit_options(child, listener);
	child->listener = listener;
	child->connect_item.fn = on_half_open;
	ret = stream_listen_respond(child, request);
	if (ret)
		goto err_response;
	rsock_lock(&listener->sock);
	list_add_tail(&child->listener_node, &listener->half_open);
	rsock_unlock(&listener->sock);
	ret = service_add(&child->connect_item, child->channel->fd);
	if (!ret)
		return;
	leave_half_open(listener, child);
err_response:
	log_warn("rsocket %d rejects a connection request: %s", listener->sock.fd, strerror(-ret));
	rdma_reject(child->id, NULL, 0);
	stream_listen_drop(child);
}

/*
 * Whether the backlog permits another REQ; if not, the channel is not read until resume_reading().
 */
static bool stream_listen_has_room(struct stream *listener)
{
	unsigned count;
	struct stream *child;
	bool is_full;

	rsock_lock(&listener->sock);
	count = listener->ready_count;
	list_for_each_entry(child, &listener->half_open, listener_node)
		count++;
	is_full = count >= listener->backlog;
	if (is_full)
		service_set_watching(&listener->listen_item, false);
	listener->is_full = is_full;
	rsock_unlock(&listener->sock);
	return !is_full;
}

/*
 * The connection to the daemon or the listener's interface is lost. Waiting accept() calls are
 * woken and fail.
 */
static void stream_listen_lose_cm(struct stream *listener, int error)
{
	log_warn("rsocket %d cannot listen any more: %s", listener->sock.fd, strerror(error));
	service_remove(&listener->listen_item);
	rsock_lock(&listener->sock);
	listener->has_lost_cm = true;
	listener->phase = STREAM_FAILED;
	listener->sock.error = ENETDOWN;
	rsock_wake(&listener->sock);
	rsock_unlock(&listener->sock);
}

static void stream_listen_on_request(struct service_item *item)
{
	struct stream *listener = container_of(item, struct stream, listen_item);
	struct request request;
	int ret;

	if (!stream_listen_has_room(listener))
		return;
	ret = stream_listen_take_request(listener, &request);
	if (rsock_may_look_again(ret))
		return;
	if (ret) {
		stream_listen_lose_cm(listener, -ret);
	} else if (request.id && request.conn_ret) {
		log_warn("rsocket %d: a peer uses another protocol than rsockets",
			 listener->sock.fd);
		stream_listen_refuse(request.id);
	} else if (request.id) {
		take_in(listener, &request);
	}
}

void stream_listen_init(struct stream *stream)
{
	service_item_init(&stream->listen_item, stream_listen_on_request);
}

/* A socket that is not bound listens on a free port. */
static int bind_any(struct stream *stream)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)stream->sock.domain};

	if (stream->phase == STREAM_BOUND)
		return 0;
	return rdma_bind_addr(stream->id, (struct sockaddr *)&any) ? -errno : 0;
}

static int listen_locked(struct stream *stream, int backlog)
{
	int ret, err_ret;

	stream->backlog = backlog < 1 ? 1 : backlog > BACKLOG_MAX ? BACKLOG_MAX : (unsigned)backlog;
	if (stream->phase == STREAM_LISTENING) {
		/* The backlog may be larger now. */
		resume_reading(stream);
		return 0;
	}
	if (stream->phase != STREAM_IDLE && stream->phase != STREAM_BOUND)
		return -EINVAL;
	ret = bind_any(stream);
	if (ret)
		return ret;
	if (rdma_listen(stream->id, backlog))
		return -errno;
	ret = service_add(&stream->listen_item, stream->channel->fd);
	if (ret) {
		/*
		 * Without the service, REQs would not be processed. The next rlisten() begins from
		 * the initial state again.
		 */
		err_ret = stream_reset_id(stream);
		return err_ret ? err_ret : ret;
	}
	/* From here on only the service thread reads the channel. */
	rsock_unwatch(&stream->sock, stream->channel->fd);
	stream->phase = STREAM_LISTENING;
	return 0;
}

int stream_listen(struct rsock *sock, int backlog)
{
	int ret;

	rsock_lock(sock);
	ret = listen_locked(stream_of(sock), backlog);
	rsock_unlock(sock);
	return ret;
}

static bool has_ready(struct rsock *sock)
{
	struct stream *listener = stream_of(sock);

	return listener->phase != STREAM_LISTENING || !list_is_empty(&listener->ready);
}

/* The error of accept(): the socket never listened or was shut down, or its device was lost. */
static int no_more(const struct stream *listener)
{
	return listener->has_lost_cm ? -ENETDOWN : -EINVAL;
}

/* Takes the child that has been ready for the longest time. Locked. */
static int stream_listen_take_ready(struct stream *listener, struct stream **child)
{
	int ret;

	if (listener->phase != STREAM_LISTENING)
		return no_more(listener);
	ret = rsock_wait(&listener->sock, has_ready, rsock_must_not_wait(&listener->sock, 0),
			 listener->sock.options.receive_timeout_ns ?
				 clock_now_ns() + listener->sock.options.receive_timeout_ns :
				 WAIT_FOR_EVER);
	if (ret)
		return ret;
	if (list_is_empty(&listener->ready))
		return no_more(listener);
	*child = list_first_entry(&listener->ready, struct stream, listener_node);
	list_del(&(*child)->listener_node);
	listener->ready_count--;
	return 0;
}

int stream_accept(struct rsock *sock, struct rsock **accepted)
{
	struct stream *listener = stream_of(sock);
	struct stream *child;
	int ret;

	rsock_lock(sock);
	ret = stream_listen_take_ready(listener, &child);
	if (!ret)
		resume_reading(listener);
	rsock_unlock(sock);
	if (ret)
		return ret;
	child->listener = NULL;
	child->connect_item.fn = stream_connect_in_background;
	child->is_connected_reported = true;
	*accepted = &child->sock;
	return 0;
}

static struct stream *take_child(struct stream *listener)
{
	struct list_head *from = &listener->half_open;
	struct stream *child = NULL;

	rsock_lock(&listener->sock);
	if (list_is_empty(from))
		from = &listener->ready;
	if (!list_is_empty(from)) {
		child = list_first_entry(from, struct stream, listener_node);
		list_del(&child->listener_node);
	}
	rsock_unlock(&listener->sock);
	return child;
}

void stream_listen_close(struct stream *stream)
{
	struct stream *child;

	service_remove(&stream->listen_item);
	while ((child = take_child(stream)))
		stream_listen_drop(child);
}

int stream_listen_stop(struct stream *stream)
{
	struct rsock *sock = &stream->sock;
	int ret;

	stream_listen_close(stream);
	rsock_lock(sock);
	ret = stream->phase == STREAM_LISTENING ? stream_reset_id(stream) : 0;
	if (!ret)
		ret = rsock_watch(sock, stream->channel->fd);
	rsock_wake(sock);
	rsock_unlock(sock);
	return ret;
}
