/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <errno.h>
#include <string.h>

#include "base/be.h"

#define IPV4_AT		20
#define IPV4_HDR_BYTES	20
#define IPV4_LENGTH	2
#define IPV4_ID		4
#define IPV4_FLAGS	6
#define IPV4_TTL	8
#define IPV4_PROTOCOL	9
#define IPV4_CHECKSUM	10
#define IPV4_SRC	12
#define IPV4_DST	16
#define IPV4_NO_OPTIONS 0x45
#define IPV4_DF		0x4000

#define IPV6_LENGTH	 4
#define IPV6_NEXT_HEADER 6
#define IPV6_HOP_LIMIT	 7
#define IPV6_SRC	 8
#define IPV6_DST	 24

#define UDP_HDR_BYTES	8
#define IP_PROTOCOL_UDP 17

/*
 * RFC 791 §3.1: complement of the ones' complement sum of the header's 16-bit words. The checksum
 * field must be 0.
 */
static uint16_t ipv4_checksum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < IPV4_HDR_BYTES; i += 2)
		sum += be_load16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void build_ipv4(const struct grh *grh, uint8_t *ip)
{
	ip[0] = IPV4_NO_OPTIONS;
	ip[1] = grh->traffic_class;
	be_store16(ip + IPV4_LENGTH,
		   (uint16_t)(IPV4_HDR_BYTES + UDP_HDR_BYTES + grh->udp_payload_bytes));
	be_store16(ip + IPV4_ID, grh->ip_id);
	be_store16(ip + IPV4_FLAGS, grh->dont_fragment ? IPV4_DF : 0);
	ip[IPV4_TTL] = grh->hop_limit;
	ip[IPV4_PROTOCOL] = IP_PROTOCOL_UDP;
	memcpy(ip + IPV4_SRC, grh->src_gid + 12, 4);
	memcpy(ip + IPV4_DST, grh->dst_gid + 12, 4);
	be_store16(ip + IPV4_CHECKSUM, ipv4_checksum(ip));
}

static void build_ipv6(const struct grh *grh, uint8_t *ip)
{
	be_store32(ip, 6u << 28 | (uint32_t)grh->traffic_class << 20 |
			       (grh->flow_label & GRH_FLOW_LABEL_MAX));
	be_store16(ip + IPV6_LENGTH, (uint16_t)(UDP_HDR_BYTES + grh->udp_payload_bytes));
	ip[IPV6_NEXT_HEADER] = IP_PROTOCOL_UDP;
	ip[IPV6_HOP_LIMIT] = grh->hop_limit;
	memcpy(ip + IPV6_SRC, grh->src_gid, GID_BYTES);
	memcpy(ip + IPV6_DST, grh->dst_gid, GID_BYTES);
}

void grh_build(const struct grh *grh, uint8_t out[GRH_BYTES])
{
	memset(out, 0, GRH_BYTES);
	if (gid_is_ipv4(grh->dst_gid))
		build_ipv4(grh, out + IPV4_AT);
	else
		build_ipv6(grh, out);
}

/* Subtracts the headers from an unchecked IP length; 0 if the length is too small. */
static uint16_t payload_bytes(uint16_t ip_bytes, uint16_t hdr_bytes)
{
	return ip_bytes > hdr_bytes ? (uint16_t)(ip_bytes - hdr_bytes) : 0;
}

static void parse_ipv4(struct grh *grh, const uint8_t *ip)
{
	struct in_addr addr;

	memcpy(&addr.s_addr, ip + IPV4_SRC, 4);
	gid_from_ipv4(grh->src_gid, &addr);
	memcpy(&addr.s_addr, ip + IPV4_DST, 4);
	gid_from_ipv4(grh->dst_gid, &addr);
	grh->traffic_class = ip[1];
	grh->ip_id = be_load16(ip + IPV4_ID);
	grh->dont_fragment = be_load16(ip + IPV4_FLAGS) & IPV4_DF;
	grh->hop_limit = ip[IPV4_TTL];
	grh->udp_payload_bytes = payload_bytes(be_load16(ip + IPV4_LENGTH),
					       IPV4_HDR_BYTES + UDP_HDR_BYTES);
}

static void parse_ipv6(struct grh *grh, const uint8_t *ip)
{
	uint32_t first = be_load32(ip);

	memcpy(grh->src_gid, ip + IPV6_SRC, GID_BYTES);
	memcpy(grh->dst_gid, ip + IPV6_DST, GID_BYTES);
	grh->flow_label = first & GRH_FLOW_LABEL_MAX;
	grh->traffic_class = (uint8_t)(first >> 20);
	grh->hop_limit = ip[IPV6_HOP_LIMIT];
	grh->udp_payload_bytes = payload_bytes(be_load16(ip + IPV6_LENGTH), UDP_HDR_BYTES);
}

int grh_parse(struct grh *grh, const uint8_t bytes[GRH_BYTES])
{
	memset(grh, 0, sizeof(*grh));
	if (bytes[0] >> 4 == 6)
		parse_ipv6(grh, bytes);
	else if (bytes[IPV4_AT] == IPV4_NO_OPTIONS)
		parse_ipv4(grh, bytes + IPV4_AT);
	else
		return -EPROTO;
	return 0;
}
