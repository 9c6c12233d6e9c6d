/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

/*
 * A listener's channel is read by the service's thread alone, so that peers are connected while the
 * program does other things, as with TCP. Each request becomes a stream of its own, an embryo until
 * the handshake is over and then ready for accept(). When more wait than the backlog allows, the
 * channel is left alone, and the peers wait in the daemon.
 */

#define BACKLOG_MAX 4096
#define RETRIES	    7

/* One request, out of its event. */
struct request {
	struct rdma_cm_id *id;
	int conn_ret;
	struct proto_conn conn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
};

/* A request or nothing (id NULL) of interest; -errno if there is no event, or none will come any more. */
static int take_request(struct stream *listener, struct request *request)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *param;
	bool is_removed;

	memset(request, 0, sizeof(*request));
	if (rdma_get_cm_event(listener->channel, &event))
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

static void refuse(struct rdma_cm_id *id)
{
	if (rdma_reject(id, NULL, 0))
		log_debug("a request is refused without a word: %m");
	rdma_destroy_id(id);
}

/* What accept() would have set on a TCP socket too: all that was set on the listener. */
static void inherit_options(struct stream *child, const struct stream *listener)
{
	child->sock.sizes = listener->sock.sizes;
	child->sock.options = listener->sock.options;
	if (child->sock.options.ints[OPTION_KEEPALIVE] && stream_set_keepalive(child, true))
		log_warn("rsocket %d does not keep its peer alive", child->sock.fd);
}

static int answer(struct stream *child, const struct request *request)
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

/* Nobody found it, and nobody will: its peer is reset, as TCP does it. */
static void drop(struct stream *child)
{
	service_remove(&child->connect_item);
	child->sock.options.linger = (struct linger){.l_onoff = 1, .l_linger = 0};
	stream_close(&child->sock);
	rsock_put(&child->sock);
}

/* There is room again: whoever waits in the channel may come in. Locked. */
static void hear_again(struct stream *listener)
{
	if (listener->is_full)
		service_set_hearing(&listener->listen_item, true);
	listener->is_full = false;
}

/*
 * True if the embryo was still one, which it then is no more. Without it nothing keeps the listener, which another thread
 * may be closing: all that there is to do with that is done before the lock is given up.
 */
static bool leave_embryos(struct stream *listener, struct stream *child)
{
	bool was_there;

	rsock_lock(&listener->sock);
	was_there = list_is_linked(&child->listener_node);
	list_del(&child->listener_node);
	hear_again(listener);
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

/* An embryo's channel has something: the handshake is over, or failed. */
static void on_embryo(struct service_item *item)
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
	else if (leave_embryos(listener, child))
		drop(child);
}

static void take_in(struct stream *listener, const struct request *request)
{
	struct stream *child;
	struct rsock *sock;
	int ret;

	ret = stream_create(listener->sock.domain, request->id, &sock);
	if (ret) {
		log_warn("rsocket %d refuses a peer: %s", listener->sock.fd, strerror(-ret));
		refuse(request->id);
		return;
	}
	child = stream_of(sock);
	inherit_options(child, listener);
	child->listener = listener;
	child->connect_item.fn = on_embryo;
	ret = answer(child, request);
	if (ret)
		goto err_answer;
	rsock_lock(&listener->sock);
	list_add_tail(&child->listener_node, &listener->embryos);
	rsock_unlock(&listener->sock);
	ret = service_add(&child->connect_item, child->channel->fd);
	if (!ret)
		return;
	leave_embryos(listener, child);
err_answer:
	log_warn("rsocket %d refuses a peer: %s", listener->sock.fd, strerror(-ret));
	rdma_reject(child->id, NULL, 0);
	drop(child);
}

/* Whether another request may be taken; if not, the channel is left alone until hear_again(). */
static bool has_room(struct stream *listener)
{
	unsigned count;
	struct stream *child;
	bool is_full;

	rsock_lock(&listener->sock);
	count = listener->ready_count;
	list_for_each_entry(child, &listener->embryos, listener_node)
		count++;
	is_full = count >= listener->backlog;
	if (is_full)
		service_set_hearing(&listener->listen_item, false);
	listener->is_full = is_full;
	rsock_unlock(&listener->sock);
	return !is_full;
}

/* The daemon is gone, or the interface that it listened at: who waits for somebody hears of it. */
static void lose_cm(struct stream *listener, int error)
{
	log_warn("rsocket %d listens no more: %s", listener->sock.fd, strerror(error));
	service_remove(&listener->listen_item);
	rsock_lock(&listener->sock);
	listener->has_lost_cm = true;
	listener->phase = STREAM_FAILED;
	listener->sock.error = ENETDOWN;
	rsock_wake(&listener->sock);
	rsock_unlock(&listener->sock);
}

static void on_request(struct service_item *item)
{
	struct stream *listener = container_of(item, struct stream, listen_item);
	struct request request;
	int ret;

	if (!has_room(listener))
		return;
	ret = take_request(listener, &request);
	if (rsock_may_look_again(ret))
		return;
	if (ret) {
		lose_cm(listener, -ret);
	} else if (request.id && request.conn_ret) {
		log_warn("rsocket %d: a peer does not speak our protocol", listener->sock.fd);
		refuse(request.id);
	} else if (request.id) {
		take_in(listener, &request);
	}
}

void stream_listen_init(struct stream *stream)
{
	service_item_init(&stream->listen_item, on_request);
}

/* A socket that nobody bound listens on whatever port is free. */
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
		/* The backlog may be longer now. */
		hear_again(stream);
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
		/* Nobody would hear who calls. The next attempt begins where this one did. */
		err_ret = stream_start_anew(stream);
		return err_ret ? err_ret : ret;
	}
	/* From here on the channel is the service's. */
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

/* Why nobody will come: it does not listen, because it never did, or was shut down, or lost its device. */
static int no_more(const struct stream *listener)
{
	return listener->has_lost_cm ? -ENETDOWN : -EINVAL;
}

/* The one that is ready for longest. Locked. */
static int take_ready(struct stream *listener, struct stream **child)
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
	ret = take_ready(listener, &child);
	if (!ret)
		hear_again(listener);
	rsock_unlock(sock);
	if (ret)
		return ret;
	child->listener = NULL;
	child->connect_item.fn = stream_connect_in_background;
	child->is_told_connected = true;
	*accepted = &child->sock;
	return 0;
}

static struct stream *take_child(struct stream *listener)
{
	struct list_head *from = &listener->embryos;
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
		drop(child);
}

int stream_listen_stop(struct stream *stream)
{
	struct rsock *sock = &stream->sock;
	int ret;

	stream_listen_close(stream);
	rsock_lock(sock);
	ret = stream->phase == STREAM_LISTENING ? stream_start_anew(stream) : 0;
	if (!ret)
		ret = rsock_watch(sock, stream->channel->fd);
	rsock_wake(sock);
	rsock_unlock(sock);
	return ret;
}
