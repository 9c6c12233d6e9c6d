/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "rsocket/addr.h"
#include "rsocket/dgram.h"
#include "rsocket/iov.h"
#include "rsocket/wait.h"

/*
 * A peer that restarts has another queue pair, and does not respond to datagrams to the former QPN.
 * If no datagram arrived from a peer for this time, the next datagram to it is sent over UDP, to
 * which the peer responds.
 */
#define SILENCE_NS CLOCK_NS_PER_S

static bool dgram_transfer_has_slots(const struct dgram *dgram)
{
	const struct dgram_qp *qp;

	list_for_each_entry(qp, &dgram->qps, node)
		if (!qp->free_count)
			return false;
	return true;
}

bool dgram_can_send(const struct dgram *dgram)
{
	return !dgram->udp_is_full && dgram_transfer_has_slots(dgram);
}

static bool dgram_transfer_can_use_qp(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);

	return dgram_transfer_has_slots(dgram) || !dgram->can_write;
}

static bool dgram_transfer_can_use_udp(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);

	return !dgram->udp_is_full || !dgram->can_write;
}

/* Finds the peer of the destination address, or the connected peer. */
static int find_target(struct dgram *dgram, const struct rsock_io *io, struct dgram_peer **peer)
{
	struct sockaddr_storage addr;
	int ret;

	if (!io->to) {
		*peer = dgram->connected;
		return *peer ? 0 : -EDESTADDRREQ;
	}
	ret = addr_take(&addr, io->to, io->to_bytes, dgram->sock.domain);
	return ret ? ret : dgram_peer_get(dgram, &addr, peer);
}

/*
 * A datagram uses the queue pair if the address handle exists, the datagram fits into a packet, and
 * the peer has sent a datagram within the last SILENCE_NS.
 */
static bool goes_by_qp(const struct dgram_peer *peer, const struct rsock_io *io)
{
	return peer->ah && peer->qp->header_bytes + io->bytes <= peer->qp->message_bytes_max &&
	       clock_now_ns() - peer->received_ns < SILENCE_NS;
}

/* -ERESTART: the lock was released while waiting, so that the connected peer may have changed. */
static int dgram_transfer_await(struct dgram *dgram, bool (*can_go_on)(struct rsock *sock),
				const struct rsock_io *io, uint64_t deadline_ns)
{
	struct rsock *sock = &dgram->sock;
	int ret = rsock_wait(sock, can_go_on, rsock_must_not_wait(sock, io->flags), deadline_ns);

	return ret ? ret : -ERESTART;
}

static int dgram_transfer_send_locked(struct dgram *dgram, const struct rsock_io *io,
				      uint64_t deadline_ns)
{
	struct rsock *sock = &dgram->sock;
	struct dgram_peer *peer;
	int ret = find_target(dgram, io, &peer);

	if (ret)
		return ret;
	if (io->bytes > DGRAM_SLOT_BYTES - dgram_udp_bytes(peer->addr.ss_family))
		return -EMSGSIZE;
	rsock_progress(sock, rsock_is_due(sock, clock_now_ns()));
	if (goes_by_qp(peer, io))
		return peer->qp->free_count ? dgram_qp_send(peer->qp, peer, io) :
					      dgram_transfer_await(dgram, dgram_transfer_can_use_qp,
								   io, deadline_ns);
	ret = dgram_udp_send(dgram, peer, DGRAM_OP_DATA, io);
	return ret == -EAGAIN ?
		       dgram_transfer_await(dgram, dgram_transfer_can_use_udp, io, deadline_ns) :
		       ret;
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
	return timeout_ns ? clock_now_ns() + timeout_ns : WAIT_FOR_EVER;
}

ssize_t dgram_send(struct rsock *sock, struct rsock_io *io)
{
	struct dgram *dgram = dgram_of(sock);
	uint64_t deadline_ns;
	int ret;

	if (io->flags & MSG_OOB)
		return -EOPNOTSUPP;
	rsock_lock(sock);
	deadline_ns = deadline_of(sock->options.send_timeout_ns);
	do {
		ret = sock->error	? rsock_take_error(sock) :
		      !dgram->can_write ? -EPIPE :
					  dgram_transfer_send_locked(dgram, io, deadline_ns);
	} while (ret == -ERESTART);
	rsock_unlock(sock);
	return ret ? ret : (ssize_t)io->bytes;
}

bool dgram_deliver(struct dgram *dgram, struct dgram_message *message)
{
	struct dgram_peer *peer;

	if (!dgram->can_read ||
	    (dgram->connected && !addr_is_equal(&dgram->connected->addr, &message->from)))
		return false;
	peer = dgram_peer_find(dgram, &message->from);
	if (peer)
		peer->received_ns = clock_now_ns();
	list_add_tail(&message->node, &dgram->inbox);
	return true;
}

void dgram_drop(struct dgram *dgram, struct dgram_message *message)
{
	list_del(&message->node);
	if (message->qp) {
		dgram_qp_give_back(message->qp, message);
		return;
	}
	dgram->allocated--;
	free(message);
}

static bool dgram_transfer_has_something(struct rsock *sock)
{
	struct dgram *dgram = dgram_of(sock);

	return !list_is_empty(&dgram->inbox) || sock->error || !dgram->can_read;
}

static void notify_sender(struct dgram *dgram, const struct dgram_message *message,
			  const struct rsock_io *io)
{
	struct sockaddr_storage from = message->from;

	if (!io->from || !io->from_bytes)
		return;
	addr_show(&from, dgram->sock.domain);
	addr_give(&from, io->from, io->from_bytes);
}

/*
 * Returns the number of bytes; -EFAULT: the buffers cannot be written. The datagram is lost then,
 * as with UDP of the kernel.
 */
static ssize_t read_message(struct dgram *dgram, struct rsock_io *io)
{
	struct iov_cursor cursor = {.iov = io->iov, .count = io->iov_count};
	struct dgram_message *message = list_first_entry(&dgram->inbox, struct dgram_message, node);
	size_t bytes = message->bytes < io->bytes ? message->bytes : io->bytes;
	int ret = iov_write(&cursor, message->data, bytes);

	if (message->bytes > io->bytes)
		io->whole_bytes = message->bytes;
	notify_sender(dgram, message, io);
	if (!(io->flags & MSG_PEEK))
		dgram_drop(dgram, message);
	return ret ? ret : (ssize_t)bytes;
}

ssize_t dgram_receive(struct rsock *sock, struct rsock_io *io)
{
	struct dgram *dgram = dgram_of(sock);
	ssize_t ret;

	if (io->flags & (MSG_OOB | MSG_ERRQUEUE))
		return -EOPNOTSUPP;
	rsock_lock(sock);
	ret = dgram_bind_any(dgram);
	if (!ret && !dgram_transfer_has_something(sock))
		ret = rsock_wait(sock, dgram_transfer_has_something,
				 rsock_must_not_wait(sock, io->flags),
				 deadline_of(sock->options.receive_timeout_ns));
	if (!ret && !list_is_empty(&dgram->inbox))
		ret = read_message(dgram, io);
	else if (!ret && sock->error)
		ret = rsock_take_error(sock);
	rsock_unlock(sock);
	return ret;
}
