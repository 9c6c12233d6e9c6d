/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/addr.h"
#include "rsocket/dgram.h"
#include "rsocket/iov.h"

/* A datagram with data that was received over UDP; it uses no memory of a queue pair. */
struct allocated {
	struct dgram_message message;
	uint8_t data[];
};

static int dgram_udp_set_full(struct dgram *dgram, bool is_full)
{
	int ret = 0;

	if (is_full != dgram->udp_is_full)
		ret = rsock_watch_events(&dgram->sock, dgram->udp_fd,
					 is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
	if (!ret)
		dgram->udp_is_full = is_full;
	return ret;
}

static bool dgram_udp_has_space(const struct dgram *dgram)
{
	struct pollfd pollfd = {.fd = dgram->udp_fd, .events = POLLOUT};
	int cancel_state = cancel_disable();
	bool has_space = poll(&pollfd, 1, 0) > 0;

	cancel_restore(cancel_state);
	return has_space;
}

int dgram_udp_send(struct dgram *dgram, const struct dgram_peer *peer, enum dgram_op op,
		   const struct rsock_io *io)
{
	struct sockaddr_storage to = peer->addr;
	uint8_t packet[DGRAM_SLOT_BYTES];
	size_t bytes = dgram_udp_encode(packet, op, peer->qp->id->qp->qp_num, &peer->qp->local);
	int ret;

	if (io) {
		struct iov_cursor cursor = {.iov = io->iov, .count = io->iov_count};

		if (io->bytes > sizeof(packet) - bytes)
			return -EMSGSIZE;
		ret = iov_read(&cursor, packet + bytes, io->bytes);
		if (ret)
			return ret;
		bytes += io->bytes;
	}
	addr_show(&to, dgram->sock.domain);
	if (sys_sendto(dgram->udp_fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (struct sockaddr *)&to, addr_bytes(to.ss_family)) >= 0)
		return 0;
	if (errno != EAGAIN)
		return -errno;
	ret = dgram_udp_set_full(dgram, true);
	return ret ? ret : -EAGAIN;
}

static void dgram_udp_take_data(struct dgram *dgram, const struct sockaddr_storage *from,
				const uint8_t *data, size_t bytes)
{
	struct allocated *allocated = calloc(1, sizeof(*allocated) + bytes);

	if (!allocated)
		return;
	list_init(&allocated->message.node);
	allocated->message.data = allocated->data;
	allocated->message.bytes = bytes;
	allocated->message.from = *from;
	memcpy(allocated->data, data, bytes);
	if (dgram_deliver(dgram, &allocated->message))
		dgram->allocated++;
	else
		free(allocated);
}

/*
 * Stores the QPN that the sender's header contains. A sender of data gets a response with the QPN
 * of this socket.
 */
static void on_packet(struct dgram *dgram, const struct sockaddr_storage *from, const uint8_t *data,
		      size_t bytes)
{
	struct dgram_udp_header header;
	struct dgram_peer *peer;
	int ret = dgram_udp_decode(data, bytes, from->ss_family, &header);

	if (ret) {
		log_debug("rsocket %d: a UDP datagram without an rsocket header", dgram->sock.fd);
		return;
	}
	if (header.op == DGRAM_OP_DATA)
		dgram_udp_take_data(dgram, from, data + header.bytes, bytes - header.bytes);
	ret = dgram_peer_get(dgram, from, &peer);
	if (!ret && header.op == DGRAM_OP_DATA)
		ret = dgram_udp_send(dgram, peer, DGRAM_OP_CONTROL, NULL);
	if (ret)
		log_debug("rsocket %d: cannot send a response: %s", dgram->sock.fd, strerror(-ret));
	else
		dgram_peer_learn(dgram, peer, header.qpn);
}

bool dgram_udp_progress(struct dgram *dgram)
{
	uint8_t packet[DGRAM_SLOT_BYTES];
	bool has_changes = dgram->udp_is_full && dgram_udp_has_space(dgram) &&
			   !dgram_udp_set_full(dgram, false);

	while (dgram->allocated < dgram->sock.sizes.rq_entries) {
		struct sockaddr_storage named, from;
		socklen_t named_bytes = sizeof(named);
		ssize_t bytes = sys_recvfrom(dgram->udp_fd, packet, sizeof(packet), MSG_DONTWAIT,
					     (struct sockaddr *)&named, &named_bytes);

		if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			break;
		has_changes = true;
		if (bytes < 0) {
			/* The error of an ICMP message about a datagram that was sent. */
			dgram->sock.error = errno;
			break;
		}
		if (!addr_take(&from, (struct sockaddr *)&named, named_bytes, dgram->sock.domain))
			on_packet(dgram, &from, packet, (size_t)bytes);
	}
	return has_changes;
}
