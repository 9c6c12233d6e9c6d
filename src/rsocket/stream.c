/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/addr.h"
#include "rsocket/stream_iomap.h"

void stream_break(struct stream *stream, int error)
{
	if (stream->phase != STREAM_CONNECTED)
		return;
	stream->phase = STREAM_BROKEN;
	stream->sock.error = error;
	stream->can_read = false;
	stream->can_write = false;
}

void stream_end(struct stream *stream)
{
	if (stream->phase != STREAM_CONNECTED)
		return;
	stream->phase = STREAM_DISCONNECTED;
	stream->can_read = false;
	stream->can_write = false;
}

static bool stream_progress(struct rsock *sock, bool is_readable)
{
	struct stream *stream = stream_of(sock);
	unsigned before = stream->events_unacked;
	bool has_changes = stream_progress_cq(stream, is_readable);

	/*
	 * The service thread processes the channel of a listener. A stream that is opening has only
	 * CM events: they are always checked.
	 */
	if (stream->phase == STREAM_LISTENING || !(is_readable || stream_is_opening(stream)))
		return has_changes;
	/*
	 * The descriptor was readable for these events. If there is a CM event too, the descriptor
	 * stays readable.
	 */
	if (stream->events_unacked != before)
		return has_changes;
	if (!stream_progress_cm(stream))
		return has_changes;
	sock->changes++;
	return true;
}

static void stream_arm_sock(struct rsock *sock)
{
	stream_arm(stream_of(sock));
}

#define EVENTS_IN  (POLLIN | POLLRDNORM)
#define EVENTS_OUT (POLLOUT | POLLWRNORM)

static int connected_events(const struct stream *stream)
{
	int events = 0;

	if (stream->rx.ready_bytes || !stream->can_read)
		events |= EVENTS_IN;
	if (!stream->can_read)
		events |= POLLRDHUP;
	if (!stream->can_write || stream_can_send(stream))
		events |= EVENTS_OUT;
	return events;
}

/*
 * After a close by the peer POLLHUP is reported when all received data has been read. Programs that
 * close on POLLHUP would lose the remaining data, because TCP reports no POLLHUP while the local
 * side may still write. After a local shutdown for writing POLLHUP is reported at once, as TCP
 * does.
 */
static int ended_events(const struct stream *stream)
{
	int events = EVENTS_IN | EVENTS_OUT | POLLRDHUP;

	if (!stream->rx.ready_bytes || stream->has_shut_write)
		events |= POLLHUP;
	if (stream->sock.error)
		events |= POLLERR;
	return events;
}

static short stream_events(struct rsock *sock)
{
	const struct stream *stream = stream_of(sock);

	switch (stream->phase) {
	case STREAM_IDLE:
	case STREAM_BOUND:
		return EVENTS_OUT | POLLHUP;
	case STREAM_LISTENING:
		return list_is_empty(&stream->ready) ? 0 : EVENTS_IN;
	case STREAM_CONNECTED:
		return (short)connected_events(stream);
	case STREAM_DISCONNECTED:
	case STREAM_BROKEN:
	case STREAM_FAILED:
		return (short)ended_events(stream);
	default:
		return 0;
	}
}

static int stream_bind(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes)
{
	struct stream *stream = stream_of(sock);
	struct sockaddr_storage local;
	int ret = addr_take(&local, addr, bytes, sock->domain);

	if (ret)
		return ret;
	rsock_lock(sock);
	if (stream->phase != STREAM_IDLE)
		ret = -EINVAL;
	else if (rdma_bind_addr(stream->id, (struct sockaddr *)&local))
		ret = -errno;
	if (!ret) {
		stream->phase = STREAM_BOUND;
		/* Includes the assigned port. */
		memcpy(&stream->local, rdma_get_local_addr(stream->id),
		       addr_bytes(local.ss_family));
	}
	rsock_unlock(sock);
	return ret;
}

static int stream_name(struct rsock *sock, bool is_peer, struct sockaddr_storage *addr)
{
	struct stream *stream = stream_of(sock);
	const struct sockaddr *known;
	int ret = 0;

	memset(addr, 0, sizeof(*addr));
	rsock_lock(sock);
	known = is_peer ? rdma_get_peer_addr(stream->id) : rdma_get_local_addr(stream->id);
	if (is_peer && !stream_was_connected(stream))
		ret = -ENOTCONN;
	else
		memcpy(addr, known, addr_bytes(known->sa_family));
	rsock_unlock(sock);
	if (!addr->ss_family)
		addr->ss_family = (sa_family_t)sock->domain;
	addr_show(addr, sock->domain);
	return ret;
}

static void stream_free(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	stream_endpoint_close(stream);
	if (rdma_destroy_id(stream->id))
		log_warn("cannot destroy the id of rsocket %d: %m", sock->fd);
	rdma_destroy_event_channel(stream->channel);
	free(stream->route);
	pthread_mutex_destroy(&stream->send_lock);
	pthread_mutex_destroy(&stream->receive_lock);
	rsock_fini(sock);
	free(stream);
}

static void stream_disown(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	sys_close(stream->channel->fd);
	if (stream->comp_channel)
		sys_close(stream->comp_channel->fd);
}

static const struct rsock_ops stream_ops = {
	.bind = stream_bind,
	.listen = stream_listen,
	.accept = stream_accept,
	.connect = stream_connect,
	.shutdown = stream_shutdown,
	.send = stream_send,
	.receive = stream_receive,
	.name = stream_name,
	.set_option = stream_set_option,
	.get_option = stream_get_option,
	.progress = stream_progress,
	.arm = stream_arm_sock,
	.events = stream_events,
	.abandon = stream_abandon,
	.leave = stream_leave,
	.close = stream_close,
	.free = stream_free,
	.disown = stream_disown,
};

/*
 * Creates a channel, and an id on it unless `id` is given. On failure the caller still owns the
 * given id, which may be on either channel.
 */
static int rs_stream_open_id(struct stream *stream, struct rdma_cm_id *id)
{
	bool is_own = !id;
	int ret;

	stream->channel = rdma_create_event_channel();
	if (!stream->channel)
		return -errno;
	if (fcntl(stream->channel->fd, F_SETFL, O_NONBLOCK)) {
		ret = -errno;
		goto err_id;
	}
	if (id ? rdma_migrate_id(id, stream->channel) :
		 rdma_create_id(stream->channel, &id, stream, RDMA_PS_TCP)) {
		ret = -errno;
		goto err_id;
	}
	ret = rsock_watch(&stream->sock, stream->channel->fd);
	if (ret)
		goto err_watch;
	stream->id = id;
	id->context = stream;
	return 0;

err_watch:
	if (is_own)
		rdma_destroy_id(id);
err_id:
	rdma_destroy_event_channel(stream->channel);
	return ret;
}

/*
 * An error-checking mutex: pthread_mutex_lock() fails in a signal handler that interrupted the
 * owner of the mutex.
 */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

int stream_create(int domain, struct rdma_cm_id *id, struct rsock **sock)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int ret;

	if (!stream)
		return -ENOMEM;
	ret = rsock_init(&stream->sock, &stream_ops, domain, SOCK_STREAM);
	if (ret)
		goto err_init;
	ret = rs_stream_open_id(stream, id);
	if (ret)
		goto err_id;
	init_lock(&stream->send_lock);
	init_lock(&stream->receive_lock);
	list_init(&stream->ready);
	list_init(&stream->half_open);
	list_init(&stream->listener_node);
	service_item_init(&stream->connect_item, stream_connect_in_background);
	service_item_init(&stream->keepalive_item, stream_keepalive);
	stream_listen_init(stream);
	*sock = &stream->sock;
	return 0;

err_id:
	rsock_fini(&stream->sock);
err_init:
	free(stream);
	return ret;
}
