/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_UDP_CONTROL_H
#define USRDMA_LINK_UDP_CONTROL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "link/link.h"

/* Addresses and control messages of sendmsg() and recvmsg(): the fields of the IP header. */

/* Control data of one sendmsg(); must exist during the call. */
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

/*
 * Fills in the control data for one packet, or for a burst of packets of segment_bytes. is_ipv4:
 * the socket has no IPv6.
 */
void udp_tx_control_fill(struct udp_tx_control *control, struct msghdr *msg,
			 const struct link_path *path, bool is_ipv4, size_t segment_bytes,
			 bool is_burst);

/* Room for all control messages of a received datagram. */
#define UDP_RX_CONTROL_BYTES 160

/* The addresses and IP header fields of a received datagram. */
struct udp_rx_control {
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t ifindex;
	uint32_t flow_label;
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	size_t segment_bytes; /* of a merged datagram (UDP_GRO); 0: not merged */
};

/* A datagram, or several that the kernel merged; recv() has not returned [offset, len) yet. */
struct udp_rx {
	const uint8_t *bytes;
	size_t len;
	size_t offset;
	struct udp_rx_control control;
};

void udp_rx_control_read(struct udp_rx_control *control, struct msghdr *msg);

#endif
