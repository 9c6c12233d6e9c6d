/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/syscalls.h"
#include "link/gso.h"
#include "link/udp_control.h"
#include "link/udp_error.h"
#include "link/udp_group.h"
#include "link/udp_socket.h"
#include "wire/packet.h"

/* Source ports are from 0xC000 on (IBA A17); RSS and ECMP distribute flows by them. */
#define PORT_FIRST 0xc000u
#define PORT_COUNT 0x4000u
#define PORT_TRIES 64

#define RX_DATAGRAMS	  8
#define RX_DATAGRAM_BYTES 65536u

/* A sending socket. Closed with the last path that uses it. */
struct tx_socket {
	struct list_head node; /* udp_link.sockets */
	uint8_t remote_gid[GID_BYTES];
	uint32_t remote_slot;
	uint16_t port;
	unsigned int users;
	int fd;
	bool is_ipv4; /* the kernel has no IPv6 */
};

/* What recvmsg() writes to, besides the datagram. */
struct rx_message {
	struct sockaddr_in6 from;
	struct iovec iov;
	_Alignas(struct cmsghdr) uint8_t control[UDP_RX_CONTROL_BYTES];
};

struct udp_link {
	struct link link;
	int rx_fd; /* the socket, or the ring's wake-up descriptor */
	bool has_ring;
	struct udp_ring ring;
	struct list_head sockets;
	struct udp_groups groups;
	struct udp_errors errors;
	struct gso_deltas deltas;
	struct gso_gather gather; /* of the current send_burst() */
	uint8_t *rx_memory;	  /* RX_DATAGRAMS of RX_DATAGRAM_BYTES; NULL with a ring */
	struct rx_message messages[RX_DATAGRAMS];
	struct mmsghdr headers[RX_DATAGRAMS]; /* refer to `messages` */
	bool was_readable;		      /* the last system call returned a datagram */
	bool is_polled; /* no thread sleeps on the socket: recv() is called again soon */
	int rx_count;
	int rx_next;
	struct udp_rx rx[RX_DATAGRAMS];
};

static struct udp_link *udp_link_of(struct link *link)
{
	return (struct udp_link *)link;
}

static int bind_port(int fd, uint16_t *port)
{
	uint32_t random;
	int ret;

	for (int i = 0; i < PORT_TRIES; i++) {
		if (sys_getrandom(&random, sizeof(random)) != sizeof(random))
			return -EAGAIN;
		*port = (uint16_t)(PORT_FIRST + random % PORT_COUNT);
		ret = udp_socket_bind(fd, *port);
		if (ret != -EADDRINUSE)
			return ret;
	}
	return -EADDRINUSE;
}

static int socket_open(struct udp_link *udp, struct tx_socket *socket_)
{
	int ret;

	socket_->fd = udp_socket_open();
	if (socket_->fd < 0)
		return socket_->fd;
	socket_->is_ipv4 = udp_socket_is_ipv4(socket_->fd);
	ret = socket_->is_ipv4 && !gid_is_ipv4(socket_->remote_gid) ? -EAFNOSUPPORT : 0;
	if (!ret)
		ret = udp_socket_prepare_tx(socket_->fd);
	if (!ret)
		ret = bind_port(socket_->fd, &socket_->port);
	if (!ret && udp->errors.epoll_fd >= 0)
		ret = udp_errors_watch(&udp->errors, socket_->fd, socket_->is_ipv4);
	if (ret)
		sys_close(socket_->fd);
	return ret;
}

static struct tx_socket *socket_find(struct udp_link *udp, const struct link_path *path)
{
	struct tx_socket *found;

	list_for_each_entry(found, &udp->sockets, node) {
		if (found->remote_slot == path->remote_qpn >> LINK_PEER_QPN_SHIFT &&
		    !memcmp(found->remote_gid, path->remote_gid, GID_BYTES))
			return found;
	}
	return NULL;
}

static int udp_path_open(struct link *link, struct link_path *path)
{
	struct udp_link *udp = udp_link_of(link);
	struct tx_socket *found = socket_find(udp, path);
	int ret;

	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return -ENOMEM;
		memcpy(found->remote_gid, path->remote_gid, GID_BYTES);
		found->remote_slot = path->remote_qpn >> LINK_PEER_QPN_SHIFT;
		ret = socket_open(udp, found);
		if (ret) {
			free(found);
			return ret;
		}
		list_add(&found->node, &udp->sockets);
	}
	found->users++;
	path->src_port = found->port;
	return 0;
}

static void socket_close(struct tx_socket *socket_)
{
	list_del(&socket_->node);
	sys_close(socket_->fd);
	free(socket_);
}

static void udp_path_close(struct link *link, struct link_path *path)
{
	struct tx_socket *found = socket_find(udp_link_of(link), path);

	if (found && --found->users == 0)
		socket_close(found);
}

/*
 * Sends tx[0, n) as one burst. 1: accepted; 0: no room; else -errno. Segments after the first have
 * another IPv4 identification than their ICRC was computed for, so it is corrected.
 */
static int send_burst(struct udp_link *udp, const struct tx_socket *from, const struct link_tx *tx,
		      int n)
{
	struct gso_gather *gather = &udp->gather;
	struct gso_deltas *deltas = gid_is_ipv4(tx->path->remote_gid) ? &udp->deltas : NULL;
	struct udp_tx_control control;
	struct msghdr msg = {.msg_iov = gather->iov};

	gather->count = 0;
	gather->copied_bytes = 0;
	udp_tx_control_fill(&control, &msg, tx->path, from->is_ipv4, gso_packet_bytes(tx), n > 1);
	for (int i = 0; i < n; i++)
		gso_gather_packet(gather, deltas, &tx[i], (uint16_t)i);
	msg.msg_iovlen = gather->count;
	if (sys_sendmsg(from->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 1;
	if (udp_errors_may_be_old(&udp->errors, errno) &&
	    sys_sendmsg(from->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 1;
	return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? 0 : -errno;
}

/*
 * A packet that the kernel refuses (no route, interface down, larger than the interface's MTU)
 * counts as accepted and lost: the requester's ACK timer handles it. If the device cannot segment a
 * burst, the packets are sent one by one.
 */
static int udp_send(struct link *link, const struct link_tx *tx, int n)
{
	struct udp_link *udp = udp_link_of(link);
	int sent = 0;

	while (sent < n) {
		const struct tx_socket *from = socket_find(udp, tx[sent].path);
		int count = gso_length(tx + sent, n - sent);
		int ret;

		if (!from) {
			sent++;
			continue;
		}
		ret = send_burst(udp, from, tx + sent, count);
		if (ret == -EIO || ret == -EINVAL || ret == -EMSGSIZE) {
			count = 1;
			ret = send_burst(udp, from, tx + sent, 1);
		}
		if (!ret)
			break;
		sent += count;
	}
	return sent;
}

/* recvmsg() changes the lengths. */
static void prepare_header(struct udp_link *udp, int i)
{
	struct rx_message *message = &udp->messages[i];

	message->iov = (struct iovec){udp->rx_memory + (size_t)i * RX_DATAGRAM_BYTES,
				      RX_DATAGRAM_BYTES};
	udp->headers[i].msg_hdr = (struct msghdr){
		.msg_name = &message->from,
		.msg_namelen = sizeof(message->from),
		.msg_iov = &message->iov,
		.msg_iovlen = 1,
		.msg_control = message->control,
		.msg_controllen = sizeof(message->control),
	};
}

/*
 * recvmsg() costs less than recvmmsg() if the socket has no datagram or one. So after a call that
 * found none, which is most often followed by another one or by the first of a batch, recvmsg() is
 * called while a thread polls. A thread that slept receives all datagrams at once: it may return to
 * the application after one call.
 */
static int call_receive(struct udp_link *udp)
{
	ssize_t bytes;

	if (!udp->is_polled || udp->was_readable)
		return sys_recvmmsg(udp->rx_fd, udp->headers, RX_DATAGRAMS, MSG_DONTWAIT);
	bytes = sys_recvmsg(udp->rx_fd, &udp->headers[0].msg_hdr, MSG_DONTWAIT);
	if (bytes < 0)
		return -1;
	udp->headers[0].msg_len = (unsigned int)bytes;
	return 1;
}

/* Fills udp->rx from the socket. Returns the number of datagrams or merged datagrams. */
static int udp_receive(struct udp_link *udp)
{
	int n = call_receive(udp);

	udp->was_readable = n > 0;
	for (int i = 0; i < n; i++) {
		struct udp_rx *rx = &udp->rx[i];

		udp_rx_control_read(&rx->control, &udp->headers[i].msg_hdr);
		rx->bytes = udp->messages[i].iov.iov_base;
		rx->len = udp->headers[i].msg_len;
		rx->offset = 0;
		prepare_header(udp, i);
	}
	return n > 0 ? n : 0;
}

static void hand_out(struct udp_rx *from, struct link_rx *rx)
{
	const struct udp_rx_control *control = &from->control;
	size_t left = from->len - from->offset;

	memset(rx, 0, sizeof(*rx));
	memcpy(rx->local_gid, control->local_gid, GID_BYTES);
	memcpy(rx->remote_gid, control->remote_gid, GID_BYTES);
	rx->ifindex = control->ifindex;
	rx->src_port = control->src_port;
	rx->flow_label = control->flow_label;
	rx->traffic_class = control->traffic_class;
	rx->hop_limit = control->hop_limit;
	rx->bytes = from->bytes + from->offset;
	rx->len = control->segment_bytes && control->segment_bytes < left ? control->segment_bytes :
									    left;
	from->offset += rx->len;
}

static int udp_recv(struct link *link, struct link_rx *rx, int max)
{
	struct udp_link *udp = udp_link_of(link);
	int n = 0;

	if (udp->rx_next == udp->rx_count) {
		udp->rx_next = 0;
		udp->rx_count = udp->has_ring ?
					udp_ring_receive(&udp->ring, udp->rx, RX_DATAGRAMS) :
					udp_receive(udp);
	}
	/* The caller must not receive from this descriptor. */
	while (n < max && udp->rx_next < udp->rx_count) {
		struct udp_rx *from = &udp->rx[udp->rx_next];

		hand_out(from, &rx[n++]);
		if (from->offset == from->len)
			udp->rx_next++;
	}
	return n;
}

static bool udp_has_address(struct link *link, const uint8_t gid[GID_BYTES], uint32_t ifindex)
{
	(void)link;
	return udp_socket_has_address(gid, ifindex);
}

static int udp_join(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct udp_link *udp = udp_link_of(link);

	if (udp->has_ring)
		return -EREMOTE;
	return udp_groups_join(&udp->groups, ifindex, group);
}

static void udp_leave(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct udp_link *udp = udp_link_of(link);

	(void)udp_groups_leave(&udp->groups, ifindex, group);
}

static bool udp_sleep(struct link *link, bool wants_wake)
{
	struct udp_link *udp = udp_link_of(link);

	udp->is_polled = !wants_wake;
	if (!udp->has_ring)
		return false;
	/* Datagrams that recv() has not returned yet remain in the ring's cells. */
	if (udp->rx_next < udp->rx_count)
		return wants_wake;
	return udp_ring_sleep(&udp->ring, wants_wake);
}

static int udp_fd(struct link *link)
{
	const struct udp_link *udp = udp_link_of(link);

	return udp->errors.epoll_fd >= 0 ? udp->errors.epoll_fd : udp->rx_fd;
}

static int udp_report_errors(struct link *link)
{
	struct udp_link *udp = udp_link_of(link);

	return udp_errors_open(&udp->errors, udp->rx_fd);
}

static bool udp_errors(struct link *link, struct link_error *error)
{
	return udp_errors_read(&udp_link_of(link)->errors, error);
}

static void udp_stop_receiving(struct link *link)
{
	udp_socket_replace(udp_link_of(link)->rx_fd);
}

static void udp_close(struct link *link)
{
	struct udp_link *udp = udp_link_of(link);
	struct tx_socket *socket_, *tmp;

	list_for_each_entry_safe(socket_, tmp, &udp->sockets, node)
		socket_close(socket_);
	udp_groups_fini(&udp->groups);
	udp_errors_close(&udp->errors);
	if (udp->has_ring) {
		udp_ring_close(&udp->ring);
	} else {
		munmap(udp->rx_memory, (size_t)RX_DATAGRAMS * RX_DATAGRAM_BYTES);
		sys_close(udp->rx_fd);
	}
	free(udp);
}

static void udp_disown(struct link *link)
{
	struct udp_link *udp = udp_link_of(link);
	struct tx_socket *socket_;

	list_for_each_entry(socket_, &udp->sockets, node) {
		sys_close(socket_->fd);
		socket_->fd = -1;
	}
	if (udp->has_ring) {
		sys_close(udp->ring.room_fd);
		udp->ring.room_fd = -1;
	}
	sys_close(udp->rx_fd);
	udp->rx_fd = -1;
	udp_groups_disown(&udp->groups);
	udp_errors_close(&udp->errors);
}

static const struct link_ops udp_link_ops = {
	.name = "udp",
	.send = udp_send,
	.recv = udp_recv,
	.fd = udp_fd,
	.sleep = udp_sleep,
	.path_open = udp_path_open,
	.path_close = udp_path_close,
	.has_address = udp_has_address,
	.join = udp_join,
	.leave = udp_leave,
	.report_errors = udp_report_errors,
	.errors = udp_errors,
	.stop_receiving = udp_stop_receiving,
	.close = udp_close,
	.disown = udp_disown,
};

static struct udp_link *udp_link_new(int rx_fd, uint32_t rx_bytes)
{
	struct udp_link *udp = calloc(1, sizeof(*udp));

	if (!udp)
		return NULL;
	udp->link.ops = &udp_link_ops;
	udp->link.rx_bytes = rx_bytes;
	udp->rx_fd = rx_fd;
	list_init(&udp->sockets);
	udp_groups_init(&udp->groups, rx_fd);
	udp_errors_init(&udp->errors);
	return udp;
}

struct link *udp_link_open(int rx_fd)
{
	struct udp_link *udp = udp_link_new(rx_fd, udp_socket_rx_bytes(rx_fd));

	if (!udp)
		return NULL;
	udp->rx_memory = mmap(NULL, (size_t)RX_DATAGRAMS * RX_DATAGRAM_BYTES,
			      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);
	if (udp->rx_memory == MAP_FAILED) {
		free(udp);
		return NULL;
	}
	for (int i = 0; i < RX_DATAGRAMS; i++)
		prepare_header(udp, i);
	return &udp->link;
}

struct link *udp_link_open_ring(const int fds[UDP_RING_FDS], uint32_t rx_bytes)
{
	struct udp_link *udp = udp_link_new(fds[UDP_RING_FD_BELL], rx_bytes);
	int error;

	if (!udp)
		return NULL;
	error = udp_ring_open(&udp->ring, fds);
	if (!error) {
		udp->has_ring = true;
		return &udp->link;
	}
	free(udp);
	errno = -error;
	return NULL;
}
