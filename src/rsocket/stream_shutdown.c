/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

/*
 * Maximum time for which a close waits for the delivery of sent data, unless SO_LINGER sets another
 * time.
 */
#define SHUTDOWN_WAIT_NS (10 * CLOCK_NS_PER_S)

/* Default if the file cannot be read (tcp(7)). */
#define KEEPALIVE_S    7200
#define KEEPALIVE_FILE "/proc/sys/net/ipv4/tcp_keepalive_time"

#define NOTHING_TO_SEND (-1)

static bool may_send_control(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	return stream->phase != STREAM_CONNECTED || stream_has_control(stream);
}

/*
 * Posts a control message after all preceding data: a sender holds the send lock until its message
 * is posted. A sender that sleeps fails because can_write is false.
 */
static int stream_shutdown_send(struct stream *stream, enum proto_control control,
				uint64_t deadline_ns)
{
	struct rsock *sock = &stream->sock;
	int ret;

	rsock_wake(sock);
	rsock_unlock(sock);
	ret = -pthread_mutex_lock(&stream->send_lock);
	rsock_lock(sock);
	if (ret)
		return ret;
	/* A signal does not cancel the notification of the peer. */
	do {
		ret = rsock_wait(sock, may_send_control, false, deadline_ns);
	} while (ret == -EINTR);
	if (!ret && stream->phase == STREAM_CONNECTED)
		ret = stream_post_control(stream, control);
	pthread_mutex_unlock(&stream->send_lock);
	return ret;
}

/*
 * Shuts down one or both directions; returns the control message that has to be sent to the peer.
 */
static int shut(struct stream *stream, int how)
{
	bool could_write = stream->can_write;

	if (how != SHUT_RD) {
		stream->can_write = false;
		stream->has_shut_write = true;
	}
	if (how != SHUT_WR)
		stream->can_read = false;
	if (!stream->can_read && !stream->can_write)
		return PROTO_CONTROL_DISCONNECT;
	return could_write && !stream->can_write ? PROTO_CONTROL_SHUTDOWN : NOTHING_TO_SEND;
}

static int shutdown_locked(struct stream *stream, int how)
{
	int control;

	if (!stream_was_connected(stream))
		return -ENOTCONN;
	if (stream->phase != STREAM_CONNECTED || stream->has_sent_shutdown)
		return 0;
	control = shut(stream, how);
	if (control == NOTHING_TO_SEND) {
		rsock_wake(&stream->sock);
		return 0;
	}
	stream->has_sent_shutdown = control == PROTO_CONTROL_DISCONNECT;
	return stream_shutdown_send(stream, (enum proto_control)control,
				    clock_now_ns() + SHUTDOWN_WAIT_NS);
}

int stream_shutdown(struct rsock *sock, int how)
{
	struct stream *stream = stream_of(sock);
	int ret;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	rsock_lock(sock);
	if (stream->phase == STREAM_LISTENING) {
		rsock_unlock(sock);
		return how == SHUT_WR ? -ENOTCONN : stream_listen_stop(stream);
	}
	ret = shutdown_locked(stream, how);
	rsock_unlock(sock);
	return ret;
}

static bool is_over(struct rsock *sock)
{
	return stream_of(sock)->phase != STREAM_CONNECTED;
}

/* Maximum time for an orderly shutdown; 0: the connection is aborted. */
static uint64_t shutdown_wait_ns(const struct stream *stream)
{
	const struct linger *linger = &stream->sock.options.linger;

	return linger->l_onoff ? (unsigned)linger->l_linger * CLOCK_NS_PER_S : SHUTDOWN_WAIT_NS;
}

void stream_leave(struct rsock *sock, uint64_t deadline_ns)
{
	struct stream *stream = stream_of(sock);
	int ret = 0;

	if (stream->phase != STREAM_CONNECTED || !shutdown_wait_ns(stream))
		return;
	if (!stream->has_sent_shutdown) {
		stream->has_sent_shutdown = true;
		shut(stream, SHUT_RDWR);
		ret = stream_shutdown_send(stream, PROTO_CONTROL_DISCONNECT, deadline_ns);
	}
	while (!ret && !is_over(sock)) {
		ret = rsock_wait(sock, is_over, false, deadline_ns);
		ret = ret == -EINTR ? 0 : ret;
	}
	if (ret)
		log_debug("rsocket %d is closed without a shutdown message of its peer: %d",
			  sock->fd, ret);
}

void stream_close(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	service_remove(&stream->connect_item);
	service_remove(&stream->keepalive_item);
	stream_listen_close(stream);
	rsock_lock(sock);
	stream_leave(sock, clock_now_ns() + shutdown_wait_ns(stream));
	sock->is_closed = true;
	rsock_wake(sock);
	if (stream_was_connected(stream) && rdma_disconnect(stream->id))
		log_debug("rsocket %d: cannot disconnect: %m", sock->fd);
	rsock_unlock(sock);
}

/*
 * Posts an RDMA WRITE of 0 bytes. It completes if the peer's device responds; otherwise the stream
 * is aborted.
 */
static void stream_shutdown_ask_peer(struct stream *stream)
{
	int ret;

	if (stream->phase != STREAM_CONNECTED || !stream_has_control(stream))
		return;
	ret = stream_post_keepalive(stream);
	if (ret)
		stream_break(stream, -ret);
	if (stream_progress_cq(stream, false) || ret)
		rsock_wake(&stream->sock);
}

static int system_keepalive_s(void)
{
	int cancel_state = cancel_disable();
	FILE *file = fopen(KEEPALIVE_FILE, "re");
	int seconds = KEEPALIVE_S;

	if (file && (fscanf(file, "%d", &seconds) != 1 || seconds < 1))
		seconds = KEEPALIVE_S;
	if (file)
		fclose(file);
	cancel_restore(cancel_state);
	return seconds;
}

int stream_keepalive_s(struct stream *stream)
{
	int *seconds = &stream->sock.options.ints[OPTION_KEEPIDLE];

	if (!*seconds)
		*seconds = system_keepalive_s();
	return *seconds;
}

static uint64_t next_keepalive_ns(struct stream *stream)
{
	return clock_now_ns() + (unsigned)stream_keepalive_s(stream) * CLOCK_NS_PER_S;
}

void stream_keepalive(struct service_item *item)
{
	struct stream *stream = container_of(item, struct stream, keepalive_item);
	uint64_t deadline_ns;

	rsock_lock(&stream->sock);
	stream_shutdown_ask_peer(stream);
	deadline_ns = next_keepalive_ns(stream);
	rsock_unlock(&stream->sock);
	service_set_deadline(item, deadline_ns);
}

int stream_set_keepalive(struct stream *stream, bool is_on)
{
	int ret;

	if (!is_on) {
		service_set_deadline(&stream->keepalive_item, TIMER_NEVER_NS);
		return 0;
	}
	ret = service_add(&stream->keepalive_item, -1);
	if (!ret)
		service_set_deadline(&stream->keepalive_item, next_keepalive_ns(stream));
	return ret;
}
