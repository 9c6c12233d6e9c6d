/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "link/train.h"
#include "wire/packet.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* A peer process, as far as anybody outside can tell: its host and the upper bits of its QPNs (docs/adr/0005). Anything else
 * that answers to RoCEv2 is not hurt by having more than one port. */
#define PEER_QPN_SHIFT 15

/* Source ports are from the upper quarter by custom; RSS and ECMP spread by them. */
#define PORT_FIRST 0xc000u
#define PORT_COUNT 0x4000u
#define PORT_TRIES 64

#define RX_DATAGRAMS	    8
#define RX_DATAGRAM_BYTES   65536u
#define RX_CONTROL_BYTES    128
#define SOCKET_BUFFER_BYTES (4 * 1024 * 1024)

/* A socket to send from. Lives while a path uses it. */
struct tx_socket {
	struct list_head node; /* udp_link.sockets */
	uint8_t remote_gid[GID_BYTES];
	uint32_t remote_slot;
	uint16_t port;
	unsigned int users;
	int fd;
};

/* A datagram, or a train of them that the kernel merged, of which [offset, len) is still to be handed out. */
struct rx_datagram {
	uint8_t *bytes;
	size_t len;
	size_t offset;
	size_t segment_bytes;
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint16_t src_port;
	uint8_t traffic_class;
};

struct udp_link {
	struct link link;
	int rx_fd;
	struct list_head sockets;
	struct train_deltas deltas;
	uint8_t *rx_memory; /* RX_DATAGRAMS of RX_DATAGRAM_BYTES */
	int rx_count;
	int rx_next;
	struct rx_datagram rx[RX_DATAGRAMS];
};

static struct udp_link *udp_link_of(struct link *link)
{
	return (struct udp_link *)link;
}

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/*
 * Never fragmented: with that an unconnected socket's packets travel under the IPv4 identification 0, which the ICRC covers,
 * or under 0, 1, 2, … in a train (ADR 0010).
 */
static int prepare_tx(int fd)
{
	int ret = set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);

	if (!ret)
		ret = set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	/* As much as the system allows; less only means back-pressure earlier. */
	(void)set_int(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER_BYTES);
	return ret;
}

int udp_prepare_rx(int fd)
{
	int ret = set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);

	if (!ret)
		ret = set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	if (!ret)
		ret = set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	/* RoCEv2 senders may leave the UDP checksum 0, over IPv6 too, and Linux's does: the ICRC is what counts (IBA A17). */
	if (!ret)
		ret = set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	/* Trains are a matter of speed: kernels before 5.0 deliver datagrams one by one. */
	(void)set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
	(void)set_int(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER_BYTES);
	return ret;
}

static int bind_port(int fd, uint16_t *port)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
	uint32_t random;

	for (int i = 0; i < PORT_TRIES; i++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EAGAIN;
		*port = (uint16_t)(PORT_FIRST + random % PORT_COUNT);
		addr.sin6_port = htons(*port);
		if (!bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

static int socket_open(struct tx_socket *socket_)
{
	int ret;

	socket_->fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (socket_->fd < 0)
		return -errno;
	ret = set_int(socket_->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!ret)
		ret = prepare_tx(socket_->fd);
	if (!ret)
		ret = bind_port(socket_->fd, &socket_->port);
	if (ret)
		close(socket_->fd);
	return ret;
}

static struct tx_socket *socket_find(struct udp_link *udp, const struct link_path *path)
{
	struct tx_socket *found;

	list_for_each_entry(found, &udp->sockets, node) {
		if (found->remote_slot == path->remote_qpn >> PEER_QPN_SHIFT &&
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
		found->remote_slot = path->remote_qpn >> PEER_QPN_SHIFT;
		ret = socket_open(found);
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
	close(socket_->fd);
	free(socket_);
}

static void udp_path_close(struct link *link, struct link_path *path)
{
	struct tx_socket *found = socket_find(udp_link_of(link), path);

	if (found && --found->users == 0)
		socket_close(found);
}

/* Where and how a train goes: what sendmsg() takes besides the bytes. */
struct tx_control {
	struct sockaddr_in6 to;
	_Alignas(struct cmsghdr)
		uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int)) +
			      CMSG_SPACE(sizeof(uint16_t))];
	size_t used_bytes;
};

static void control_add(struct tx_control *control, int level, int type, const void *value,
			size_t bytes)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(void *)(control->bytes + control->used_bytes);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(cmsg), value, bytes);
	control->used_bytes += CMSG_SPACE(bytes);
}

static void control_fill(struct tx_control *control, const struct link_path *path,
			 size_t segment_bytes, bool is_train)
{
	struct in6_pktinfo info = {0};
	int traffic_class = path->traffic_class;
	uint16_t segment = (uint16_t)segment_bytes;
	bool is_ipv4 = gid_is_ipv4(path->remote_gid);

	memset(control, 0, sizeof(*control));
	control->to.sin6_family = AF_INET6;
	control->to.sin6_port = htons(PACKET_UDP_PORT);
	memcpy(&control->to.sin6_addr, path->remote_gid, GID_BYTES);
	if (gid_is_link_local(path->remote_gid))
		control->to.sin6_scope_id = path->ifindex;
	memcpy(&info.ipi6_addr, path->local_gid, GID_BYTES);
	info.ipi6_ifindex = gid_is_link_local(path->local_gid) ? path->ifindex : 0;
	control_add(control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (is_ipv4)
		control_add(control, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class));
	else
		control_add(control, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class,
			    sizeof(traffic_class));
	if (is_train)
		control_add(control, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
}

/*
 * Sends tx[0, n) as one train. 1: taken; 0: no room; -errno otherwise. Segments after the first carry another IPv4
 * identification than the ICRC was made for.
 */
static int send_train(struct udp_link *udp, const struct tx_socket *from, const struct link_tx *tx,
		      int n)
{
	struct iovec iov[TRAIN_PACKETS_MAX * TRAIN_IOVS_A_PACKET];
	uint8_t trailers[TRAIN_PACKETS_MAX][LINK_TRAILER_MAX];
	struct tx_control control;
	struct msghdr msg = {.msg_iov = iov};

	control_fill(&control, tx->path, train_packet_bytes(tx), n > 1);
	for (int i = 0; i < n; i++) {
		memcpy(trailers[i], tx[i].trailer, tx[i].trailer_bytes);
		if (i && gid_is_ipv4(tx->path->remote_gid))
			train_patch(&udp->deltas, &tx[i], (uint16_t)i, trailers[i]);
		msg.msg_iovlen += train_gather(&tx[i], trailers[i], iov + msg.msg_iovlen);
	}
	msg.msg_name = &control.to;
	msg.msg_namelen = sizeof(control.to);
	msg.msg_control = control.bytes;
	msg.msg_controllen = control.used_bytes;
	if (sendmsg(from->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 1;
	return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? 0 : -errno;
}

/*
 * A packet that the kernel will not have (no route, a link that is down, larger than the interface's MTU) is as good as
 * lost on the network: taken, and the requester's timers see to it. A device that cannot split trains gets single packets.
 */
static int udp_send(struct link *link, const struct link_tx *tx, int n)
{
	struct udp_link *udp = udp_link_of(link);
	int sent = 0;

	while (sent < n) {
		const struct tx_socket *from = socket_find(udp, tx[sent].path);
		int count = train_length(tx + sent, n - sent);
		int ret;

		if (!from) {
			sent++;
			continue;
		}
		ret = send_train(udp, from, tx + sent, count);
		if (ret == -EIO || ret == -EINVAL || ret == -EMSGSIZE) {
			count = 1;
			ret = send_train(udp, from, tx + sent, 1);
		}
		if (!ret)
			break;
		sent += count;
	}
	return sent;
}

static void take_control(struct rx_datagram *rx, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	struct in6_pktinfo info;
	int number;

	rx->segment_bytes = rx->len;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
			memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
			memcpy(rx->local_gid, &info.ipi6_addr, GID_BYTES);
		} else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS) {
			memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
			rx->traffic_class = (uint8_t)number;
		} else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
			rx->traffic_class = *CMSG_DATA(cmsg);
		} else if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO) {
			memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
			if (number > 0)
				rx->segment_bytes = (size_t)number;
		}
	}
}

/* Fills udp->rx from the socket; how many datagrams or trains came. */
static int receive(struct udp_link *udp)
{
	struct mmsghdr msgs[RX_DATAGRAMS] = {0};
	struct sockaddr_in6 from[RX_DATAGRAMS];
	struct iovec iov[RX_DATAGRAMS];
	struct {
		_Alignas(struct cmsghdr) uint8_t bytes[RX_CONTROL_BYTES];
	} control[RX_DATAGRAMS];
	int n;

	for (int i = 0; i < RX_DATAGRAMS; i++) {
		iov[i].iov_base = udp->rx_memory + (size_t)i * RX_DATAGRAM_BYTES;
		iov[i].iov_len = RX_DATAGRAM_BYTES;
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		msgs[i].msg_hdr.msg_name = &from[i];
		msgs[i].msg_hdr.msg_namelen = sizeof(from[i]);
		msgs[i].msg_hdr.msg_control = control[i].bytes;
		msgs[i].msg_hdr.msg_controllen = sizeof(control[i].bytes);
	}
	n = recvmmsg(udp->rx_fd, msgs, RX_DATAGRAMS, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		struct rx_datagram *rx = &udp->rx[i];

		memset(rx, 0, sizeof(*rx));
		rx->bytes = iov[i].iov_base;
		rx->len = msgs[i].msg_len;
		memcpy(rx->remote_gid, &from[i].sin6_addr, GID_BYTES);
		rx->src_port = ntohs(from[i].sin6_port);
		take_control(rx, &msgs[i].msg_hdr);
	}
	return n > 0 ? n : 0;
}

static void hand_out(struct rx_datagram *from, struct link_rx *rx)
{
	size_t left = from->len - from->offset;

	memset(rx, 0, sizeof(*rx));
	memcpy(rx->local_gid, from->local_gid, GID_BYTES);
	memcpy(rx->remote_gid, from->remote_gid, GID_BYTES);
	rx->src_port = from->src_port;
	rx->traffic_class = from->traffic_class;
	rx->bytes = from->bytes + from->offset;
	rx->len = left < from->segment_bytes ? left : from->segment_bytes;
	from->offset += rx->len;
}

static int udp_recv(struct link *link, struct link_rx *rx, int max)
{
	struct udp_link *udp = udp_link_of(link);
	int n = 0;

	if (udp->rx_next == udp->rx_count) {
		udp->rx_next = 0;
		udp->rx_count = receive(udp);
	}
	/* Nothing is received over what this call hands out. */
	while (n < max && udp->rx_next < udp->rx_count) {
		struct rx_datagram *from = &udp->rx[udp->rx_next];

		if (from->offset == from->len) {
			udp->rx_next++;
			continue;
		}
		hand_out(from, &rx[n++]);
	}
	return n;
}

static int udp_fd(struct link *link)
{
	return udp_link_of(link)->rx_fd;
}

static void udp_close(struct link *link)
{
	struct udp_link *udp = udp_link_of(link);
	struct tx_socket *socket_, *tmp;

	list_for_each_entry_safe(socket_, tmp, &udp->sockets, node)
		socket_close(socket_);
	munmap(udp->rx_memory, (size_t)RX_DATAGRAMS * RX_DATAGRAM_BYTES);
	close(udp->rx_fd);
	free(udp);
}

static const struct link_ops udp_link_ops = {
	.name = "udp",
	.send = udp_send,
	.recv = udp_recv,
	.fd = udp_fd,
	.path_open = udp_path_open,
	.path_close = udp_path_close,
	.close = udp_close,
};

struct link *udp_link_open(int rx_fd)
{
	struct udp_link *udp = calloc(1, sizeof(*udp));

	if (!udp)
		return NULL;
	udp->link.ops = &udp_link_ops;
	udp->rx_fd = rx_fd;
	list_init(&udp->sockets);
	udp->rx_memory = mmap(NULL, (size_t)RX_DATAGRAMS * RX_DATAGRAM_BYTES,
			      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);
	if (udp->rx_memory != MAP_FAILED)
		return &udp->link;
	free(udp);
	return NULL;
}
