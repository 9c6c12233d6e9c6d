/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/clock.h"
#include "rsocket/iov.h"
#include "rsocket/stream.h"
#include "rsocket/stream_iomap.h"
#include "rsocket/wait.h"

/* Avoids small messages when the ring is nearly full: RSOCK_ROOM_LOW bytes must be free. */
bool stream_can_send(const struct stream *stream)
{
	const struct stream_tx *tx = &stream->tx;

	return tx->data_in_flight < tx->data_max && tx->free_bytes >= RSOCK_ROOM_LOW &&
	       tx->sequence != tx->sequence_limit && tx->grants[tx->grant].length;
}

static bool stream_send_can_go_on(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	return stream_can_send(stream) || !stream->can_write;
}

/* The error of a send after the connection or its send direction has ended. */
static int send_error(struct stream *stream)
{
	if (stream->sock.error)
		return rsock_take_error(&stream->sock);
	return stream->phase == STREAM_DISCONNECTED && !stream->has_shut_write ? -ECONNRESET :
										 -EPIPE;
}

int stream_await_room(struct stream *stream, int flags, uint64_t deadline_ns)
{
	struct rsock *sock = &stream->sock;
	int ret;

	if (!stream->can_write)
		return send_error(stream);
	if (stream_can_send(stream))
		return 0;
	ret = rsock_wait(sock, stream_send_can_go_on, rsock_must_not_wait(sock, flags),
			 deadline_ns);
	/* The next available space is an edge for repoll_wait(). */
	if (ret == -EAGAIN)
		sock->full_sends++;
	if (ret)
		return ret;
	return stream->can_write ? 0 : send_error(stream);
}

static uint32_t least(size_t a, size_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/*
 * Prepares one message of the remaining data and allocates its space in the local and the remote
 * ring. Locked.
 */
static void take_room(struct stream *stream, struct iov_cursor *cursor, size_t left,
		      struct stream_write *write)
{
	struct stream_tx *tx = &stream->tx;
	struct proto_sge *grant = &tx->grants[tx->grant];
	uint32_t bytes = least(least(left, STREAM_MESSAGE_BYTES), grant->length);

	write->inline_data = bytes <= tx->inline_bytes ? iov_together(cursor, bytes) : NULL;
	if (!write->inline_data) {
		bytes = least(bytes, tx->free_bytes);
		tx->free_bytes -= bytes;
	}
	write->work = STREAM_WORK_DATA;
	write->bytes = bytes;
	write->addr = grant->addr;
	write->key = grant->key;
	write->has_imm = true;
	write->imm = proto_imm(PROTO_OP_DATA, bytes);
	grant->addr += bytes;
	grant->length -= bytes;
	if (!grant->length)
		tx->grant = (tx->grant + 1) % PROTO_GRANTS;
	tx->sequence++;
	tx->data_in_flight++;
}

/* Nothing was sent: takes back what take_room() took. `grant`: tx.grant before. */
static void give_room_back(struct stream *stream, uint32_t grant, const struct stream_write *write)
{
	struct stream_tx *tx = &stream->tx;

	tx->grants[grant].addr -= write->bytes;
	tx->grants[grant].length += write->bytes;
	tx->grant = grant;
	tx->sequence--;
}

static int fill_ring(struct stream *stream, struct iov_cursor *cursor, uint32_t bytes)
{
	struct stream_tx *tx = &stream->tx;
	uint32_t first = least(bytes, tx->ring_bytes - tx->head);
	int ret = iov_read(cursor, tx->ring + tx->head, first);

	return ret ? ret : iov_read(cursor, tx->ring, bytes - first);
}

/* The application's buffer cannot be read, and nothing was sent. */
static void cancel_write(struct stream *stream, const struct stream_write *write)
{
	rsock_lock(&stream->sock);
	stream->tx.data_in_flight--;
	if (!write->inline_data)
		stream->tx.free_bytes += write->bytes;
	rsock_unlock(&stream->sock);
}

int stream_send_write(struct stream *stream, struct stream_write *write, struct iov_cursor *cursor)
{
	int ret = 0;

	if (write->inline_data)
		iov_skip(cursor, write->bytes);
	else
		ret = fill_ring(stream, cursor, write->bytes);
	if (!ret)
		ret = stream_post_write(stream, write);
	if (ret == -EFAULT) {
		cancel_write(stream, write);
	} else if (ret) {
		rsock_lock(&stream->sock);
		stream_break(stream, -ret);
		rsock_wake(&stream->sock);
		rsock_unlock(&stream->sock);
	}
	return ret;
}

static int send_one(struct stream *stream, struct iov_cursor *cursor, size_t left, int flags,
		    uint64_t deadline_ns, size_t *sent)
{
	struct stream_write write;
	uint32_t grant;
	int ret;

	rsock_lock(&stream->sock);
	ret = stream_await_room(stream, flags, deadline_ns);
	grant = stream->tx.grant;
	if (!ret)
		take_room(stream, cursor, left, &write);
	rsock_unlock(&stream->sock);
	if (ret)
		return ret;
	ret = stream_send_write(stream, &write, cursor);
	if (!ret)
		*sent = write.bytes;
	if (ret != -EFAULT)
		return ret;
	rsock_lock(&stream->sock);
	give_room_back(stream, grant, &write);
	rsock_unlock(&stream->sock);
	return ret;
}

static ssize_t stream_send_all(struct stream *stream, const struct rsock_io *io,
			       uint64_t deadline_ns)
{
	struct iov_cursor cursor = {.iov = io->iov, .count = io->iov_count};
	size_t sent = 0;
	int ret = 0;

	while (sent < io->bytes && !ret) {
		size_t bytes = 0;

		ret = send_one(stream, &cursor, io->bytes - sent, io->flags, deadline_ns, &bytes);
		sent += bytes;
	}
	if (!sent)
		return ret;
	/*
	 * Part of the data was sent: this call returns the number of bytes, and the next call
	 * returns the error.
	 */
	if (ret && ret != -EAGAIN && ret != -EINTR && ret != -EBADF) {
		rsock_lock(&stream->sock);
		if (stream->phase == STREAM_BROKEN)
			stream->sock.error = -ret;
		rsock_unlock(&stream->sock);
	}
	return (ssize_t)sent;
}

/* A send of 0 bytes fails like any other send after shutdown() or the end of the connection. */
static int send_nothing(struct stream *stream)
{
	int ret;

	rsock_lock(&stream->sock);
	ret = stream->can_write ? 0 : send_error(stream);
	rsock_unlock(&stream->sock);
	return ret;
}

uint64_t stream_send_deadline(const struct stream *stream)
{
	uint64_t timeout_ns = stream->sock.options.send_timeout_ns;

	return timeout_ns ? clock_now_ns() + timeout_ns : WAIT_FOR_EVER;
}

int stream_lock_send(struct stream *stream, int flags)
{
	int ret;

	if (!rsock_must_not_wait(&stream->sock, flags))
		ret = -pthread_mutex_lock(&stream->send_lock);
	else
		/* Another thread is sending and may be asleep. */
		ret = pthread_mutex_trylock(&stream->send_lock) ? -EAGAIN : 0;
	if (ret == -EAGAIN) {
		rsock_lock(&stream->sock);
		stream->sock.full_sends++;
		rsock_unlock(&stream->sock);
	}
	if (!ret)
		atomic_store_explicit(&stream->sender, pthread_self(), memory_order_relaxed);
	return ret;
}

void stream_unlock_send(struct stream *stream)
{
	atomic_store_explicit(&stream->sender, 0, memory_order_relaxed);
	pthread_mutex_unlock(&stream->send_lock);
}

ssize_t stream_send(struct rsock *sock, struct rsock_io *io)
{
	struct stream *stream = stream_of(sock);
	uint64_t deadline_ns;
	ssize_t ret;

	if (io->flags & MSG_OOB)
		return -EOPNOTSUPP;
	ret = stream_lock_send(stream, io->flags);
	if (ret)
		return ret;
	rsock_lock(sock);
	deadline_ns = stream_send_deadline(stream);
	ret = stream_await_connected(stream, io->flags, deadline_ns);
	/* Entries for riowrite() are sent before data that may refer to them. */
	if (!ret && stream_iomap_is_pending(stream))
		ret = stream_iomap_notify(stream, io->flags, deadline_ns);
	rsock_unlock(sock);
	if (!ret && io->to)
		ret = -EISCONN;
	if (!ret)
		ret = io->bytes ? stream_send_all(stream, io, deadline_ns) : send_nothing(stream);
	stream_unlock_send(stream);
	return ret;
}
