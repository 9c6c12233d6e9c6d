/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/addr.h"
#include "rsocket/stream.h"
#include "rsocket/take_event.h"
#include "rsocket/wait.h"

/* Timeout of the first attempt to resolve an address or route; doubled for each further attempt. */
#define RESOLVE_MS    1000
#define RESOLVE_TRIES 6
#define RETRIES	      7 /* retry_count and rnr_retry_count; for RNR, 7 means unlimited */

/* The fields of an event that are kept; the event itself is acknowledged at once. */
struct cm_change {
	enum rdma_cm_event_type type;
	int status;
	uint8_t private_data[PROTO_CONN_BYTES];
	size_t private_bytes;
};

/*
 * The error of a step of connecting. ENODEV (the device was removed) and EIO (the connection to the
 * daemon was lost) become ENETDOWN, whichever step detects them.
 */
static int step_error(int error)
{
	return error == ENODEV || error == EIO ? -ENETDOWN : -error;
}

static int resolve_addr(struct stream *stream)
{
	int timeout_ms = RESOLVE_MS << stream->tries++;

	if (rdma_resolve_addr(stream->id, NULL, (struct sockaddr *)&stream->peer, timeout_ms))
		return step_error(errno);
	stream->phase = STREAM_RESOLVING_ADDR;
	return 0;
}

/* Sets the path of RDMA_ROUTE; the id then reports RDMA_CM_EVENT_ROUTE_RESOLVED. */
static int use_route(struct stream *stream)
{
	int ret = rdma_set_option(stream->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, stream->route,
				  stream->route_bytes);
	int error = errno;

	free(stream->route);
	stream->route = NULL;
	return ret ? step_error(error) : 0;
}

static int stream_connect_resolve_route(struct stream *stream)
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
		return step_error(-ret);
	stream_conn_format(stream, private_data);
	if (rdma_connect(stream->id, &param))
		return step_error(errno);
	stream->phase = STREAM_CONNECTING;
	return 0;
}

static void stream_connect_establish(struct stream *stream)
{
	stream->phase = STREAM_CONNECTED;
	stream->can_read = true;
	stream->can_write = true;
	/* Grants the second half of the ring and processes messages that have arrived already. */
	stream_progress_cq(stream, true);
}

/*
 * The active side gets the peer's parameters from the REP; the passive side got them from the REQ.
 */
static int stream_connect_on_established(struct stream *stream, const struct cm_change *change)
{
	struct proto_conn conn;
	int ret;

	if (stream->phase == STREAM_CONNECTING) {
		ret = proto_conn_decode(change->private_data, change->private_bytes, &conn);
		if (ret)
			return ret;
		stream_conn_learn(stream, &conn);
	} else if (stream->phase != STREAM_ACCEPTING) {
		return 0;
	}
	stream_connect_establish(stream);
	return 0;
}

/* Messages that arrived before the DREQ are processed first. */
static void stream_connect_on_disconnected(struct stream *stream)
{
	stream_progress_cq(stream, true);
	stream_break(stream, ECONNRESET);
	/* Sends the DREP, so that the peer does not wait for it. */
	if (rdma_disconnect(stream->id))
		log_debug("rsocket %d: %m", stream->sock.fd);
}

static int status_error(const struct cm_change *change, int otherwise)
{
	return change->status < 0 ? step_error(-change->status) : -otherwise;
}

/* Performs the next step of connecting; returns -errno on failure. */
static int stream_connect_on_change(struct stream *stream, const struct cm_change *change)
{
	switch (change->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		stream->tries = 0;
		return stream->phase == STREAM_RESOLVING_ADDR ?
			       stream_connect_resolve_route(stream) :
			       0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return stream->phase == STREAM_RESOLVING_ROUTE ? request(stream) : 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (change->status == -ETIMEDOUT && stream->tries < RESOLVE_TRIES)
			return resolve_addr(stream);
		return status_error(change, EHOSTUNREACH);
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (change->status == -ETIMEDOUT && stream->tries < RESOLVE_TRIES)
			return stream_connect_resolve_route(stream);
		return status_error(change, EHOSTUNREACH);
	case RDMA_CM_EVENT_ESTABLISHED:
		return stream_connect_on_established(stream, change);
	case RDMA_CM_EVENT_UNREACHABLE:
		return -ETIMEDOUT;
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return status_error(change, ECONNABORTED);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENETDOWN;
	case RDMA_CM_EVENT_DISCONNECTED:
		stream_connect_on_disconnected(stream);
		return -ECONNRESET;
	default:
		return 0;
	}
}

/* Aborts an established connection, or the attempt to connect. */
static void stream_connect_fail(struct stream *stream, int error)
{
	stream_break(stream, error);
	if (!stream_is_opening(stream))
		return;
	stream->phase = STREAM_FAILED;
	stream->sock.error = error;
}

/* -EAGAIN: no event. */
static int take_change(struct stream *stream, struct cm_change *change)
{
	struct rdma_cm_event *event;
	const struct rdma_conn_param *param;

	if (take_cm_event(stream->channel, &event))
		return -errno;
	param = &event->param.conn;
	change->type = event->event;
	change->status = event->status;
	change->private_bytes = 0;
	if (change->type == RDMA_CM_EVENT_ESTABLISHED && param->private_data &&
	    param->private_data_len >= PROTO_CONN_BYTES) {
		change->private_bytes = PROTO_CONN_BYTES;
		memcpy(change->private_data, param->private_data, PROTO_CONN_BYTES);
	}
	rdma_ack_cm_event(event);
	return 0;
}

/*
 * The connection to the daemon is lost. The channel stays readable and has no more events, so it is
 * removed from epoll.
 */
static void stream_connect_lose_cm(struct stream *stream, int error)
{
	log_debug("rsocket %d: the event channel failed: %s", stream->sock.fd, strerror(error));
	stream->has_lost_cm = true;
	rsock_unwatch(&stream->sock, stream->channel->fd);
	stream_connect_fail(stream, ENETDOWN);
}

bool stream_progress_cm(struct stream *stream)
{
	bool has_changes = false;
	struct cm_change change;
	int ret;

	while (!stream->has_lost_cm) {
		ret = take_change(stream, &change);
		/*
		 * A call that connects returns ENOMEM and can be repeated; an established
		 * connection is not aborted.
		 */
		if (ret == -ENOMEM && stream_is_opening(stream))
			stream_connect_fail(stream, ENOMEM);
		if (rsock_may_look_again(ret))
			break;
		has_changes = true;
		if (ret) {
			stream_connect_lose_cm(stream, -ret);
			break;
		}
		ret = stream_connect_on_change(stream, &change);
		if (ret)
			stream_connect_fail(stream, -ret);
	}
	return has_changes;
}

static bool is_settled(struct rsock *sock)
{
	return !stream_is_opening(stream_of(sock));
}

/* Called in the service thread: completes a connection while the application is not in a call. */
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

/* The outcome of connect(); an error is reported once. Locked. */
static int outcome(struct stream *stream)
{
	if (stream_was_connected(stream)) {
		stream->is_connected_reported = true;
		return 0;
	}
	return stream->sock.error ? rsock_take_error(&stream->sock) : -ECONNABORTED;
}

int stream_reset_id(struct stream *stream)
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
 * Whether connect() starts a new attempt: 0, or the result of a further connect(). After a failure
 * that was reported, a new attempt is allowed.
 */
static int may_begin(struct stream *stream)
{
	if (stream->phase == STREAM_IDLE || stream->phase == STREAM_BOUND)
		return 0;
	if (stream_is_opening(stream))
		return -EALREADY;
	if (stream->phase == STREAM_LISTENING || stream->is_connected_reported)
		return -EISCONN;
	if (stream->phase == STREAM_FAILED && !stream->sock.error)
		return stream_reset_id(stream);
	return outcome(stream);
}

static int stream_connect_begin(struct stream *stream, const struct sockaddr *addr, socklen_t bytes)
{
	int ret = addr_take(&stream->peer, addr, bytes, stream->sock.domain);

	if (!ret)
		ret = resolve_addr(stream);
	return ret ? ret : -EINPROGRESS;
}

static int stream_connect_locked(struct stream *stream, const struct sockaddr *addr,
				 socklen_t bytes, bool must_not_wait)
{
	int begun = may_begin(stream);
	int ret;

	if (!begun && !stream_was_connected(stream))
		begun = stream_connect_begin(stream, addr, bytes);
	if ((begun != -EINPROGRESS && begun != -EALREADY) || must_not_wait)
		return begun;
	/* Also for an attempt that an earlier call started, which may have been interrupted. */
	ret = rsock_wait(&stream->sock, is_settled, false, stream_send_deadline(stream));
	if (!ret)
		return outcome(stream);
	if (ret == -EAGAIN)
		return begun;
	/*
	 * If waiting is impossible, the attempt fails with ENOMEM, which is reported once; a new
	 * attempt is allowed. A signal does not end the attempt.
	 */
	if (ret == -ENOMEM && stream_is_opening(stream)) {
		stream_connect_fail(stream, ENOMEM);
		ret = rsock_take_error(&stream->sock);
	}
	return ret;
}

int stream_connect(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes)
{
	struct stream *stream = stream_of(sock);
	int err_ret, ret;

	/* The item may still be registered for the previous attempt. */
	service_remove(&stream->connect_item);
	rsock_lock(sock);
	ret = stream_connect_locked(stream, addr, bytes, rsock_must_not_wait(sock, 0));
	rsock_unlock(sock);
	if (ret != -EINPROGRESS && ret != -EINTR && ret != -EALREADY)
		return ret;
	err_ret = service_add(&stream->connect_item, stream->channel->fd);
	if (err_ret)
		log_debug(
			"rsocket %d: the service thread cannot complete the connection; the next call does: %s",
			sock->fd, strerror(-err_ret));
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
