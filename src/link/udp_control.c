/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_control.h"

#include <netinet/udp.h>
#include <string.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif
#define FLOW_LABEL_MASK 0xfffff

static void udp_control_add(struct udp_tx_control *control, int level, int type, const void *value,
			    size_t bytes)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(void *)(control->bytes + control->used_bytes);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(cmsg), value, bytes);
	control->used_bytes += CMSG_SPACE(bytes);
}

/*
 * Adds traffic class and hop limit. If the path has no hop limit, the socket's is used: 1 for
 * multicast groups.
 */
static void add_header(struct udp_tx_control *control, const struct link_path *path)
{
	int traffic_class = path->traffic_class;
	int hop_limit = path->hop_limit;
	bool is_ipv4 = gid_is_ipv4(path->remote_gid);
	int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;

	udp_control_add(control, level, is_ipv4 ? IP_TOS : IPV6_TCLASS, &traffic_class,
			sizeof(traffic_class));
	if (hop_limit)
		udp_control_add(control, level, is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit,
				sizeof(hop_limit));
}

/* The interface is given for link-local and multicast destinations, which need no route. */
static bool needs_interface(const struct link_path *path)
{
	return gid_is_link_local(path->local_gid) || gid_is_multicast(path->remote_gid);
}

static void udp_control_fill_ipv4(struct udp_tx_control *control, const struct link_path *path)
{
	struct in_pktinfo info = {.ipi_ifindex = needs_interface(path) ? (int)path->ifindex : 0};

	control->to.ipv4.sin_family = AF_INET;
	control->to.ipv4.sin_port = htons(PACKET_UDP_PORT);
	control->to.ipv4.sin_addr = gid_to_ipv4(path->remote_gid);
	info.ipi_spec_dst = gid_to_ipv4(path->local_gid);
	udp_control_add(control, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
}

static void fill_both(struct udp_tx_control *control, const struct link_path *path)
{
	struct in6_pktinfo info = {.ipi6_ifindex = needs_interface(path) ? path->ifindex : 0};

	control->to.ipv6.sin6_family = AF_INET6;
	control->to.ipv6.sin6_port = htons(PACKET_UDP_PORT);
	memcpy(&control->to.ipv6.sin6_addr, path->remote_gid, GID_BYTES);
	if (gid_is_link_local(path->remote_gid))
		control->to.ipv6.sin6_scope_id = path->ifindex;
	memcpy(&info.ipi6_addr, path->local_gid, GID_BYTES);
	udp_control_add(control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

void udp_tx_control_fill(struct udp_tx_control *control, struct msghdr *msg,
			 const struct link_path *path, bool is_ipv4, size_t segment_bytes,
			 bool is_burst)
{
	uint16_t segment = (uint16_t)segment_bytes;

	memset(control, 0, sizeof(*control));
	if (is_ipv4)
		udp_control_fill_ipv4(control, path);
	else
		fill_both(control, path);
	add_header(control, path);
	if (is_burst)
		udp_control_add(control, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	msg->msg_name = &control->to;
	msg->msg_namelen = is_ipv4 ? sizeof(control->to.ipv4) : sizeof(control->to.ipv6);
	msg->msg_control = control->bytes;
	msg->msg_controllen = control->used_bytes;
}

static void read_ipv4(struct udp_rx_control *control, const struct cmsghdr *cmsg)
{
	struct in_pktinfo info;
	int number;

	switch (cmsg->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		gid_from_ipv4(control->local_gid, &info.ipi_addr);
		control->ifindex = (uint32_t)info.ipi_ifindex;
		break;
	case IP_TOS:
		control->traffic_class = *CMSG_DATA(cmsg);
		break;
	case IP_TTL:
		memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
		control->hop_limit = (uint8_t)number;
		break;
	default:
		break;
	}
}

static void read_ipv6(struct udp_rx_control *control, const struct cmsghdr *cmsg)
{
	struct in6_pktinfo info;
	uint32_t flow_info_be;
	int number;

	switch (cmsg->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		memcpy(control->local_gid, &info.ipi6_addr, GID_BYTES);
		control->ifindex = info.ipi6_ifindex;
		break;
	case IPV6_TCLASS:
		memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
		control->traffic_class = (uint8_t)number;
		break;
	case IPV6_HOPLIMIT:
		memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
		control->hop_limit = (uint8_t)number;
		break;
	case IPV6_FLOWINFO:
		memcpy(&flow_info_be, CMSG_DATA(cmsg), sizeof(flow_info_be));
		control->flow_label = ntohl(flow_info_be) & FLOW_LABEL_MASK;
		break;
	default:
		break;
	}
}

static void read_sender(struct udp_rx_control *control, const struct sockaddr *from)
{
	(void)gid_from_sockaddr(control->remote_gid, from);
	control->src_port =
		ntohs(from->sa_family == AF_INET ?
			      ((const struct sockaddr_in *)(const void *)from)->sin_port :
			      ((const struct sockaddr_in6 *)(const void *)from)->sin6_port);
}

void udp_rx_control_read(struct udp_rx_control *control, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	int number;

	memset(control, 0, sizeof(*control));
	read_sender(control, msg->msg_name);
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level == IPPROTO_IPV6) {
			read_ipv6(control, cmsg);
		} else if (cmsg->cmsg_level == IPPROTO_IP) {
			read_ipv4(control, cmsg);
		} else if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO) {
			memcpy(&number, CMSG_DATA(cmsg), sizeof(number));
			if (number > 0)
				control->segment_bytes = (size_t)number;
		}
	}
}
