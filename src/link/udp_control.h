/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_CONTROL_H
#define USRDMA_LINK_UDP_CONTROL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "link/link.h"

/* What goes to and comes from the kernel beside a datagram's bytes: addresses, and what stands in the IP header. */

/* Of a train that is sent; sendmsg() takes it while it lives. */
struct udp_tx_control {
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	} to;
	_Alignas(struct cmsghdr)
		uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
			      CMSG_SPACE(sizeof(uint16_t))];
	size_t used_bytes;
};

/* How `segment_bytes` of each packet of a train, or one packet, go over the path. `is_ipv4`: the socket has no IPv6. */
void udp_tx_control_fill(struct udp_tx_control *control, struct msghdr *msg,
			 const struct link_path *path, bool is_ipv4, size_t segment_bytes,
			 bool is_train);

/* The most that the kernel has to say of a datagram. */
#define UDP_RX_CONTROL_BYTES 160

/* Where a datagram came from and to, and how. */
struct udp_rx_control {
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t ifindex;
	uint32_t flow_label;
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	size_t segment_bytes; /* of a merged train; 0: it is none */
};

void udp_rx_control_read(struct udp_rx_control *control, struct msghdr *msg);

#endif
