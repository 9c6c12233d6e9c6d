/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/addr.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

/* The first try of resolving waits so long, and each one after it twice as long. */
#define RESOLVE_MS    1000
#define RESOLVE_TRIES 6
#define RETRIES	      7 /* of a request; for "receiver not ready" it means for ever */

/* What is kept of an event; the event itself is acknowledged at once. */
struct news {
	enum rdma_cm_event_type type;
	int status;
	uint8_t private_data[PROTO_CONN_BYTES];
	size_t private_bytes;
};

/* Which step of connecting is the first to notice that there is no device any more makes no difference. */
static int step_error(int error)
{
	return error == ENODEV ? -ENETDOWN : -error;
}

static int resolve_addr(struct stream *stream)
{
	int timeout_ms = RESOLVE_MS << stream->tries++;

	if (rdma_resolve_addr(stream->id, NULL, (struct sockaddr *)&stream->peer, timeout_ms))
		return step_error(errno);
	stream->phase = STREAM_RESOLVING_ADDR;
	return 0;
}

/* RDMA_ROUTE names the path; the id then says that its route is resolved. */
static int use_route(struct stream *stream)
{
	int ret = rdma_set_option(stream->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, stream->route,
				  stream->route_bytes);
	int error = errno;

	free(stream->route);
	stream->route = NULL;
	return ret ? step_error(error) : 0;
}

static int resolve_route(struct stream *stream)
{
	int timeout_ms = RESOLVE_MS << stream->tries++;
	int ret = 0;

	if (stream->route)
		ret = use_route(stream);
	else if (rdma_resolve_route(stream->id, timeout_ms))
		ret = step_error(errno);
	if (!ret)
		stream->phase = STREAM_RESOLVING_ROUTE;
	return ret;
}

static int request(struct stream *stream)
{
	uint8_t private_data[PROTO_CONN_BYTES];
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
	int ret = stream_endpoint_open(stream);

	if (ret)
		return ret;
	stream_conn_format(stream, private_data);
	if (rdma_connect(stream->id, &param))
		return step_error(errno);
	stream->phase = STREAM_CONNECTING;
	return 0;
}

static void establish(struct stream *stream)
{
	stream->phase = STREAM_CONNECTED;
	stream->can_read = true;
	stream->can_write = true;
	/* The second half of the ring goes out, and whatever came meanwhile comes in. */
	stream_progress_cq(stream, true);
}

/* The active side learns the peer from REP; the passive one knew it before it answered. */
static int on_established(struct stream *stream, const struct news *news)
{
	struct proto_conn conn;
	int ret;

	if (stream->phase == STREAM_CONNECTING) {
		ret = proto_conn_decode(news->private_data, news->private_bytes, &conn);
		if (ret)
			return ret;
		stream_conn_learn(stream, &conn);
	} else if (stream->phase != STREAM_ACCEPTING) {
		return 0;
	}
	establish(stream);
	return 0;
}

/* The peer's last messages came before its goodbye. */
static void on_disconnected(struct stream *stream)
{
	stream_progress_cq(stream, true);
	stream_break(stream, ECONNRESET);
	/* Answers the peer's goodbye, so that it need not wait. */
	if (rdma_disconnect(stream->id))
		log_debug("rsocket %d: %m", stream->sock.fd);
}

static int status_error(const struct news *news, int otherwise)
{
	return news->status < 0 ? step_error(-news->status) : -otherwise;
}

/* The next step of connecting, or -errno if there is none. */
static int on_news(struct stream *stream, const struct news *news)
{
	switch (news->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		stream->tries = 0;
		return stream->phase == STREAM_RESOLVING_ADDR ? resolve_route(stream) : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return stream->phase == STREAM_RESOLVING_ROUTE ? request(stream) : 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (news->status == -ETIMEDOUT && stream->tries < RESOLVE_TRIES)
			return resolve_addr(stream);
		return status_error(news, EHOSTUNREACH);
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (news->status == -ETIMEDOUT && stream->tries < RESOLVE_TRIES)
			return resolve_route(stream);
		return status_error(news, EHOSTUNREACH);
	case RDMA_CM_EVENT_ESTABLISHED:
		return on_established(stream, news);
	case RDMA_CM_EVENT_UNREACHABLE:
		return -ETIMEDOUT;
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status_error(news, ECONNABORTED);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENETDOWN;
	case RDMA_CM_EVENT_DISCONNECTED:
		on_disconnected(stream);
		return -ECONNRESET;
	default:
		return 0;
	}
}

/* One way or another it is not, or no longer, connected. */
static void fail(struct stream *stream, int error)
{
	stream_break(stream, error);
	if (!stream_is_opening(stream))
		return;
	stream->phase = STREAM_FAILED;
	stream->sock.error = error;
}

/* -EAGAIN: nothing there. */
static int take_news(struct stream *stream, struct news *news)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *param;

	if (rdma_get_cm_event(stream->channel, &event))
		return -errno;
	param = &event->param.conn;
	news->type = event->event;
	news->status = event->status;
	news->private_bytes = 0;
	if (news->type == RDMA_CM_EVENT_ESTABLISHED && param->private_data &&
	    param->private_data_len >= PROTO_CONN_BYTES) {
		news->private_bytes = PROTO_CONN_BYTES;
		memcpy(news->private_data, param->private_data, PROTO_CONN_BYTES);
	}
	rdma_ack_cm_event(event);
	return 0;
}

/* The daemon is gone, and with it everything; a channel that only says so is not listened to. */
static void lose_cm(struct stream *stream, int error)
{
	log_debug("rsocket %d: its channel ended: %s", stream->sock.fd, strerror(error));
	stream->has_lost_cm = true;
	rsock_unwatch(&stream->sock, stream->channel->fd);
	fail(stream, ENETDOWN);
}

bool stream_progress_cm(struct stream *stream)
{
	bool has_news = false;
	struct news news;
	int ret;

	while (!stream->has_lost_cm) {
		ret = take_news(stream, &news);
		/* Who connects can be told, and try again; a connection does not end of it. */
		if (ret == -ENOMEM && stream_is_opening(stream))
			fail(stream, ENOMEM);
		if (rsock_may_look_again(ret))
			break;
		has_news = true;
		if (ret) {
			lose_cm(stream, -ret);
			break;
		}
		ret = on_news(stream, &news);
		if (ret)
			fail(stream, -ret);
	}
	return has_news;
}

static bool is_settled(struct rsock *sock)
{
	return !stream_is_opening(stream_of(sock));
}

/* In the service's thread, so that a connection is completed while its program does other things. */
void stream_connect_in_background(struct service_item *item)
{
	struct stream *stream = container_of(item, struct stream, connect_item);
	bool has_settled;

	rsock_lock(&stream->sock);
	if (stream_progress_cm(stream))
		rsock_wake(&stream->sock);
	has_settled = is_settled(&stream->sock);
	rsock_unlock(&stream->sock);
	if (has_settled)
		service_remove(item);
}

/* The outcome, told once. Locked. */
static int outcome(struct stream *stream)
{
	if (stream_was_connected(stream)) {
		stream->is_told_connected = true;
		return 0;
	}
	return stream->sock.error ? rsock_take_error(&stream->sock) : -ECONNABORTED;
}

int stream_start_anew(struct stream *stream)
{
	struct rdma_cm_id *id;

	if (stream->has_lost_cm)
		return -ENETDOWN;
	if (rdma_create_id(stream->channel, &id, stream, RDMA_PS_TCP))
		return -errno;
	stream_endpoint_close(stream);
	rdma_destroy_id(stream->id);
	stream->id = id;
	stream->tries = 0;
	stream->phase = STREAM_IDLE;
	stream_apply_options(stream);
	if (!stream->local.ss_family)
		return 0;
	if (rdma_bind_addr(id, (struct sockaddr *)&stream->local))
		return -errno;
	stream->phase = STREAM_BOUND;
	return 0;
}

/*
 * Whether this call is to begin anything: 0, or what a further connect() hears. One that failed, and
 * was told so, may try again.
 */
static int may_begin(struct stream *stream)
{
	if (stream->phase == STREAM_IDLE || stream->phase == STREAM_BOUND)
		return 0;
	if (stream_is_opening(stream))
		return -EALREADY;
	if (stream->phase == STREAM_LISTENING || stream->is_told_connected)
		return -EISCONN;
	if (stream->phase == STREAM_FAILED && !stream->sock.error)
		return stream_start_anew(stream);
	return outcome(stream);
}

static int begin(struct stream *stream, const struct sockaddr *addr, socklen_t bytes)
{
	int ret = addr_take(&stream->peer, addr, bytes, stream->sock.domain);

	if (!ret)
		ret = resolve_addr(stream);
	return ret ? ret : -EINPROGRESS;
}

static int connect_locked(struct stream *stream, const struct sockaddr *addr, socklen_t bytes,
			  bool must_not_wait)
{
	int begun = may_begin(stream);
	int ret;

	if (!begun && !stream_was_connected(stream))
		begun = begin(stream, addr, bytes);
	if ((begun != -EINPROGRESS && begun != -EALREADY) || must_not_wait)
		return begun;
	/* For what a call before this one began, too: that one may have been interrupted. */
	ret = rsock_wait(&stream->sock, is_settled, false, stream_send_deadline(stream));
	if (!ret)
		return outcome(stream);
	if (ret == -EAGAIN)
		return begun;
	/* What cannot be waited for ends here, told once, and may be tried again; a signal changes nothing. */
	if (ret == -ENOMEM && stream_is_opening(stream)) {
		fail(stream, ENOMEM);
		ret = rsock_take_error(&stream->sock);
	}
	return ret;
}

int stream_connect(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes)
{
	struct stream *stream = stream_of(sock);
	int err_ret, ret;

	/* What served the last try has nothing to do any more. */
	service_remove(&stream->connect_item);
	rsock_lock(sock);
	ret = connect_locked(stream, addr, bytes, rsock_must_not_wait(sock, 0));
	rsock_unlock(sock);
	if (ret != -EINPROGRESS && ret != -EINTR && ret != -EALREADY)
		return ret;
	err_ret = service_add(&stream->connect_item, stream->channel->fd);
	if (err_ret)
		log_debug("rsocket %d connects when it is asked: %s", sock->fd, strerror(-err_ret));
	return ret;
}

int stream_await_connected(struct stream *stream, int flags, uint64_t deadline_ns)
{
	struct rsock *sock = &stream->sock;
	int ret;

	if (stream_is_opening(stream)) {
		ret = rsock_wait(sock, is_settled, rsock_must_not_wait(sock, flags), deadline_ns);
		if (ret)
			return ret;
	}
	if (stream_was_connected(stream))
		return 0;
	return sock->error ? rsock_take_error(sock) : -ENOTCONN;
}
