/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/clock.h"
#include "rsocket/addr.h"
#include "rsocket/iov.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

static bool stream_receive_has_something(struct rsock *sock)
{
	const struct stream *stream = stream_of(sock);
	const struct stream_rx *rx = &stream->rx;

	if (!stream->can_read)
		return true;
	/*
	 * If no grant is outstanding, the peer cannot send until data is read: the receive must not
	 * wait for wanted_bytes.
	 */
	return rx->ready_bytes >= rx->wanted_bytes || (rx->ready_bytes && !rx->granted_bytes);
}

/* No data is left and none will arrive: returns 0 (end of stream) or the error. */
static int end_of(struct stream *stream)
{
	return stream->sock.error ? rsock_take_error(&stream->sock) : 0;
}

/*
 * Copies data out of the ring, at most half of the ring at a time, so that the peer is granted read
 * space while the rest is copied. Called without sock.lock: only the holder of receive_lock frees
 * ring space, and the peer writes only to granted space.
 */
static int copy_out(const struct stream_rx *rx, uint32_t at, uint32_t bytes,
		    struct iov_cursor *cursor)
{
	uint32_t first = rx->ring_bytes - at;
	int ret;

	if (first > bytes)
		first = bytes;
	ret = iov_write(cursor, rx->ring + at, first);
	return ret ? ret : iov_write(cursor, rx->ring, bytes - first);
}

static uint32_t next_part(const struct stream_rx *rx, size_t left, bool is_all)
{
	uint32_t part = rx->ready_bytes;

	if (!is_all && part > rx->ring_bytes / 2)
		part = rx->ring_bytes / 2;
	return part > left ? (uint32_t)left : part;
}

static void stream_receive_give_back(struct stream *stream, uint32_t bytes)
{
	struct stream_rx *rx = &stream->rx;

	rx->read_at = (rx->read_at + bytes) % rx->ring_bytes;
	rx->ready_bytes -= bytes;
	rx->read_bytes += bytes;
	stream_grant(stream);
}

/*
 * Copies the data that has arrived and adds its length to *received. Called with the lock held,
 * which is released while copying. -EFAULT: a buffer cannot be written; the data that was not
 * copied remains.
 */
static int stream_receive_take(struct stream *stream, struct iov_cursor *cursor, size_t left,
			       int flags, size_t *received)
{
	bool is_peek = flags & MSG_PEEK;
	size_t taken = 0;
	int ret = 0;

	while (taken < left && stream->rx.ready_bytes) {
		uint32_t part = next_part(&stream->rx, left - taken, is_peek);
		uint32_t at = stream->rx.read_at;

		rsock_unlock(&stream->sock);
		if (!(flags & MSG_TRUNC))
			ret = copy_out(&stream->rx, at, part, cursor);
		rsock_lock(&stream->sock);
		if (ret)
			break;
		taken += part;
		if (is_peek)
			break;
		stream_receive_give_back(stream, part);
	}
	*received += taken;
	return ret;
}

static int await_data(struct stream *stream, int flags, uint64_t deadline_ns)
{
	struct rsock *sock = &stream->sock;

	if (stream_receive_has_something(sock))
		return 0;
	return rsock_wait(sock, stream_receive_has_something, rsock_must_not_wait(sock, flags),
			  deadline_ns);
}

/*
 * With MSG_PEEK no data leaves the ring, so MSG_WAITALL waits until all requested bytes are in the
 * ring at once.
 */
static uint32_t wanted_at_once(const struct rsock_io *io)
{
	const int both = MSG_PEEK | MSG_WAITALL;

	if ((io->flags & both) != both)
		return 1;
	return io->bytes < UINT32_MAX ? (uint32_t)io->bytes : UINT32_MAX;
}

static ssize_t receive_locked(struct stream *stream, const struct rsock_io *io)
{
	struct iov_cursor cursor = {.iov = io->iov, .count = io->iov_count};
	uint64_t timeout_ns = stream->sock.options.receive_timeout_ns;
	uint64_t deadline_ns = timeout_ns ? clock_now_ns() + timeout_ns : WAIT_FOR_EVER;
	size_t received = 0;
	int ret = stream_await_connected(stream, io->flags, deadline_ns);

	if (ret || !io->bytes)
		return ret;
	stream->rx.wanted_bytes = wanted_at_once(io);
	do {
		ret = await_data(stream, io->flags, deadline_ns);
		if (ret && !(io->flags & MSG_PEEK && stream->rx.ready_bytes))
			break;
		if (!stream->rx.ready_bytes) {
			ret = received ? 0 : end_of(stream);
			break;
		}
		ret = stream_receive_take(stream, &cursor, io->bytes - received, io->flags,
					  &received);
	} while (!ret && io->flags & MSG_WAITALL && !(io->flags & MSG_PEEK) &&
		 received < io->bytes);
	return received ? (ssize_t)received : ret;
}

static int lock_receive(struct stream *stream, int flags)
{
	int ret;

	if (!rsock_must_not_wait(&stream->sock, flags))
		ret = -pthread_mutex_lock(&stream->receive_lock);
	else
		/* Another thread is receiving and may be asleep. */
		ret = pthread_mutex_trylock(&stream->receive_lock) ? -EAGAIN : 0;
	if (!ret)
		atomic_store_explicit(&stream->receiver, pthread_self(), memory_order_relaxed);
	return ret;
}

static void unlock_receive(struct stream *stream)
{
	atomic_store_explicit(&stream->receiver, 0, memory_order_relaxed);
	pthread_mutex_unlock(&stream->receive_lock);
}

void stream_abandon(struct rsock *sock)
{
	struct stream *stream = stream_of(sock);

	if (atomic_load_explicit(&stream->sender, memory_order_relaxed) == pthread_self())
		stream_unlock_send(stream);
	if (atomic_load_explicit(&stream->receiver, memory_order_relaxed) == pthread_self())
		unlock_receive(stream);
}

ssize_t stream_receive(struct rsock *sock, struct rsock_io *io)
{
	struct stream *stream = stream_of(sock);
	struct sockaddr_storage from;
	ssize_t ret;

	if (io->flags & (MSG_OOB | MSG_ERRQUEUE))
		return -EOPNOTSUPP;
	ret = lock_receive(stream, io->flags);
	if (ret)
		return ret;
	rsock_lock(sock);
	ret = receive_locked(stream, io);
	rsock_unlock(sock);
	unlock_receive(stream);
	if (ret > 0 && io->from && io->from_bytes && !sock->ops->name(sock, true, &from))
		addr_give(&from, io->from, io->from_bytes);
	return ret;
}
