/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include <netinet/in.h>

#include "base/be.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define LINK_NULL     0u /* BSD loopback: address family in the byte order of the host */
#define LINK_ETHERNET 1u
#define LINK_RAW      101u
#define LINK_LOOP     108u
#define LINK_SLL      113u
#define LINK_IPV4     228u
#define LINK_IPV6     229u
#define LINK_SLL2     276u

#define ETHERNET_BYTES	14
#define VLAN_BYTES	4
#define VLAN_TAGS_MAX	4
#define SLL_BYTES	16
#define SLL2_BYTES	20
#define SLL_OUTGOING	4
#define ETHERTYPE_V4	0x0800
#define ETHERTYPE_V6	0x86dd
#define ETHERTYPE_VLAN	0x8100
#define ETHERTYPE_QINQ	0x88a8
#define ETHERTYPE_QINQ1 0x9100
#define ETHERTYPE_ROCE	0x8915 /* RoCEv1: a GRH and an InfiniBand packet (IBA A16) */
#define GRH_NEXT_IBA	0x1b
#define IPV4_BYTES	20
#define IPV6_BYTES	40
#define IPV6_OPTIONS	8 /* extension headers that are parsed */
#define UDP_BYTES	8

/* The unread part of a frame. */
struct frame_rest {
	const uint8_t *at;
	size_t len;
};

static bool frame_skip(struct frame_rest *rest, size_t bytes)
{
	if (rest->len < bytes)
		return false;
	rest->at += bytes;
	rest->len -= bytes;
	return true;
}

/*
 * Skips an Ethernet header after its addresses, with VLAN tags. Returns the EtherType; 0: not
 * captured.
 */
static uint16_t frame_ethertype(struct frame_rest *rest)
{
	for (int tags = 0; tags <= VLAN_TAGS_MAX && rest->len >= 2; tags++) {
		uint16_t type = be_load16(rest->at);

		if (type != ETHERTYPE_VLAN && type != ETHERTYPE_QINQ && type != ETHERTYPE_QINQ1)
			return frame_skip(rest, 2) ? type : 0;
		if (!frame_skip(rest, VLAN_BYTES))
			return 0;
	}
	return 0;
}

static uint16_t frame_ip_version(const struct frame_rest *rest)
{
	if (!rest->len)
		return 0;
	return rest->at[0] >> 4 == 4 ? ETHERTYPE_V4 : rest->at[0] >> 4 == 6 ? ETHERTYPE_V6 : 0;
}

/* Skips the link header. Returns the EtherType of the content; 0: unknown or not captured. */
static uint16_t frame_link(struct frame_datagram *datagram, uint32_t link_type,
			   struct frame_rest *rest)
{
	uint16_t type;

	switch (link_type) {
	case LINK_ETHERNET:
		return frame_skip(rest, ETHERNET_BYTES - 2) ? frame_ethertype(rest) : 0;
	case LINK_RAW:
	case LINK_IPV4:
	case LINK_IPV6:
		return frame_ip_version(rest);
	case LINK_NULL:
	case LINK_LOOP:
		return frame_skip(rest, 4) ? frame_ip_version(rest) : 0;
	case LINK_SLL:
		if (rest->len < SLL_BYTES)
			return 0;
		datagram->is_received = be_load16(rest->at) != SLL_OUTGOING;
		return frame_skip(rest, SLL_BYTES - 2) ? frame_ethertype(rest) : 0;
	case LINK_SLL2:
		if (rest->len < SLL2_BYTES)
			return 0;
		type = be_load16(rest->at);
		datagram->is_received = rest->at[10] != SLL_OUTGOING;
		return frame_skip(rest, SLL2_BYTES) ? type : 0;
	default:
		return 0;
	}
}

static enum frame_result frame_udp(struct frame_datagram *datagram, const struct frame_rest *rest,
				   size_t udp_bytes)
{
	if (rest->len < UDP_BYTES)
		return FRAME_CUT;
	if (be_load16(rest->at + 2) != PACKET_UDP_PORT)
		return FRAME_OTHER;
	if (udp_bytes < UDP_BYTES)
		return FRAME_OTHER;
	datagram->src_port = be_load16(rest->at);
	datagram->payload = rest->at + UDP_BYTES;
	datagram->wire_bytes = udp_bytes - UDP_BYTES;
	datagram->captured_bytes = rest->len - UDP_BYTES;
	/* An Ethernet frame may have a trailer after the IP datagram. */
	if (datagram->captured_bytes > datagram->wire_bytes)
		datagram->captured_bytes = datagram->wire_bytes;
	return datagram->captured_bytes < BTH_BYTES && datagram->wire_bytes >= BTH_BYTES ?
		       FRAME_CUT :
		       FRAME_ROCE;
}

static enum frame_result frame_ipv4(struct frame_datagram *datagram, struct frame_rest *rest)
{
	const uint8_t *ip = rest->at;
	size_t header_bytes, total_bytes;

	if (rest->len < IPV4_BYTES)
		return FRAME_CUT;
	header_bytes = (size_t)(ip[0] & 0x0f) * 4;
	total_bytes = be_load16(ip + 2);
	/* A datagram that the network card divides into segments later has no total length. */
	if (!total_bytes)
		total_bytes = rest->len;
	if (ip[9] != IPPROTO_UDP || header_bytes < IPV4_BYTES || total_bytes < header_bytes)
		return FRAME_OTHER;
	if (be_load16(ip + 6) & 0x3fff)
		return FRAME_FRAGMENT;
	gid_from_ipv4(datagram->src_gid, &(struct in_addr){0});
	gid_from_ipv4(datagram->dst_gid, &(struct in_addr){0});
	memcpy(datagram->src_gid + 12, ip + 12, 4);
	memcpy(datagram->dst_gid + 12, ip + 16, 4);
	datagram->traffic_class = ip[1];
	datagram->hop_limit = ip[8];
	datagram->ip_id = be_load16(ip + 4);
	datagram->dont_fragment = ip[6] & 0x40;
	return frame_skip(rest, header_bytes) ?
		       frame_udp(datagram, rest, total_bytes - header_bytes) :
		       FRAME_CUT;
}

/* Skips IPv6 extension headers. Returns the type of the first other header. */
static uint8_t frame_ipv6_options(struct frame_rest *rest, uint8_t next, size_t *payload_bytes,
				  bool *is_fragment)
{
	for (int i = 0; i < IPV6_OPTIONS && rest->len >= 8; i++) {
		size_t bytes = 8;

		if (next == IPPROTO_FRAGMENT)
			*is_fragment |= (be_load16(rest->at + 2) & 0xfff9) != 0;
		else if (next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING ||
			 next == IPPROTO_DSTOPTS)
			bytes += (size_t)rest->at[1] * 8;
		else
			break;
		next = rest->at[0];
		if (*payload_bytes < bytes || !frame_skip(rest, bytes))
			return IPPROTO_NONE;
		*payload_bytes -= bytes;
	}
	return next;
}

static enum frame_result frame_ipv6(struct frame_datagram *datagram, struct frame_rest *rest)
{
	const uint8_t *ip = rest->at;
	bool is_fragment = false;
	size_t payload_bytes;
	uint8_t next;

	if (rest->len < IPV6_BYTES)
		return FRAME_CUT;
	payload_bytes = be_load16(ip + 4);
	memcpy(datagram->src_gid, ip + 8, GID_BYTES);
	memcpy(datagram->dst_gid, ip + 24, GID_BYTES);
	datagram->traffic_class = (uint8_t)(be_load16(ip) >> 4);
	datagram->hop_limit = ip[7];
	next = ip[6];
	(void)frame_skip(rest, IPV6_BYTES);
	if (!payload_bytes)
		payload_bytes = rest->len;
	next = frame_ipv6_options(rest, next, &payload_bytes, &is_fragment);
	if (is_fragment)
		return FRAME_FRAGMENT;
	return next == IPPROTO_UDP ? frame_udp(datagram, rest, payload_bytes) : FRAME_OTHER;
}

/* The GRH has the layout of an IPv6 header. */
static enum frame_result frame_grh(struct frame_datagram *datagram, struct frame_rest *rest)
{
	const uint8_t *grh = rest->at;

	if (rest->len < IPV6_BYTES)
		return FRAME_CUT;
	if (grh[6] != GRH_NEXT_IBA)
		return FRAME_OTHER;
	memcpy(datagram->src_gid, grh + 8, GID_BYTES);
	memcpy(datagram->dst_gid, grh + 24, GID_BYTES);
	datagram->traffic_class = (uint8_t)(be_load16(grh) >> 4);
	datagram->hop_limit = grh[7];
	datagram->is_v1 = true;
	datagram->wire_bytes = be_load16(grh + 4);
	(void)frame_skip(rest, IPV6_BYTES);
	datagram->payload = rest->at;
	datagram->captured_bytes = rest->len < datagram->wire_bytes ? rest->len :
								      datagram->wire_bytes;
	return datagram->captured_bytes < BTH_BYTES && datagram->wire_bytes >= BTH_BYTES ?
		       FRAME_CUT :
		       FRAME_ROCE;
}

enum frame_result frame_parse(struct frame_datagram *datagram, uint32_t link_type,
			      const uint8_t *bytes, size_t len)
{
	struct frame_rest rest = {bytes, len};

	*datagram = (struct frame_datagram){0};
	switch (frame_link(datagram, link_type, &rest)) {
	case ETHERTYPE_V4:
		return frame_ipv4(datagram, &rest);
	case ETHERTYPE_V6:
		return frame_ipv6(datagram, &rest);
	case ETHERTYPE_ROCE:
		return frame_grh(datagram, &rest);
	default:
		return FRAME_OTHER;
	}
}

/* Whether a packet of this opcode and PSN may begin at `offset`. */
static bool frame_is_next(const struct frame_datagram *datagram, size_t offset, uint32_t psn)
{
	const uint8_t *at = datagram->payload + offset;

	return datagram->captured_bytes >= offset + BTH_BYTES && opcode_info(at[0]) &&
	       !(at[1] & 0x0f) && be_load24(at + 5) == be_load24(datagram->payload + 5) &&
	       be_load24(at + 9) == psn;
}

size_t frame_first_packet_bytes(const struct frame_datagram *datagram)
{
	const struct opcode_info *info = NULL;

	if (datagram->captured_bytes >= BTH_BYTES)
		info = opcode_info(datagram->payload[0]);
	if (!info || datagram->wire_bytes <= BTH_BYTES + ICRC_BYTES)
		return datagram->wire_bytes;
	for (size_t bytes = packet_hdr_bytes(info) + ICRC_BYTES; bytes < datagram->wire_bytes;
	     bytes += 4) {
		if (frame_is_next(datagram, bytes, psn_next(be_load24(datagram->payload + 9))))
			return bytes;
	}
	return datagram->wire_bytes;
}
