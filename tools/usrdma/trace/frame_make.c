/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame_make.h"

#include <stdbool.h>
#include <string.h>

#include "base/be.h"
#include "wire/gid.h"
#include "wire/packet.h"

#define ETHERNET_BYTES 14
#define IPV4_BYTES     20
#define IPV6_BYTES     40
#define UDP_BYTES      8
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP   17
#define DONT_FRAGMENT  0x4000

/* Ends of the frame and the numbers of its IP header. */
struct frame_path {
	const uint8_t *src;
	const uint8_t *dst;
	uint16_t ip_id;
	bool dont_fragment;
};

/* A locally administered address: the low bytes of the GID. */
static void put_mac(uint8_t *at, const uint8_t gid[GID_BYTES])
{
	at[0] = 0x02;
	at[1] = 0x00;
	memcpy(at + 2, gid + GID_BYTES - 4, 4);
}

/*
 * Adds 16-bit words to a ones' complement sum; an odd last byte is padded with zero (RFC 1071 §1).
 */
static uint32_t add_words(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += be_load16(bytes + i);
	if (len % 2)
		sum += (uint32_t)bytes[len - 1] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static size_t put_ipv4(uint8_t *at, const struct trace_packet *packet,
		       const struct frame_path *path)
{
	memset(at, 0, IPV4_BYTES);
	at[0] = 0x45;
	at[1] = packet->traffic_class;
	be_store16(at + 2, (uint16_t)(IPV4_BYTES + UDP_BYTES + packet->wire_bytes));
	be_store16(at + 4, path->ip_id);
	be_store16(at + 6, path->dont_fragment ? DONT_FRAGMENT : 0);
	at[8] = packet->hop_limit ? packet->hop_limit : 64;
	at[9] = PROTOCOL_UDP;
	memcpy(at + 12, path->src + 12, 4);
	memcpy(at + 16, path->dst + 12, 4);
	be_store16(at + 10, fold(add_words(0, at, IPV4_BYTES)));
	return IPV4_BYTES;
}

static size_t put_ipv6(uint8_t *at, const struct trace_packet *packet,
		       const struct frame_path *path)
{
	memset(at, 0, IPV6_BYTES);
	at[0] = (uint8_t)(0x60 | packet->traffic_class >> 4);
	at[1] = (uint8_t)(packet->traffic_class << 4);
	be_store16(at + 4, (uint16_t)(UDP_BYTES + packet->wire_bytes));
	at[6] = PROTOCOL_UDP;
	at[7] = packet->hop_limit ? packet->hop_limit : 64;
	memcpy(at + 8, path->src, GID_BYTES);
	memcpy(at + 24, path->dst, GID_BYTES);
	return IPV6_BYTES;
}

/*
 * The UDP checksum. IPv4: none, as RoCE senders do. IPv6 requires one; it cannot be computed if
 * bytes of the packet are missing, and is then a number that is not 0.
 */
static uint16_t udp_checksum(const uint8_t *udp, size_t stored_bytes,
			     const struct trace_packet *packet, const struct frame_path *path,
			     bool is_ipv4)
{
	uint32_t sum = PROTOCOL_UDP + UDP_BYTES + (uint32_t)packet->wire_bytes;
	uint16_t checksum;

	if (is_ipv4)
		return 0;
	if (stored_bytes < packet->wire_bytes)
		return 0xffff;
	sum = add_words(sum, path->src, GID_BYTES);
	sum = add_words(sum, path->dst, GID_BYTES);
	checksum = fold(add_words(sum, udp, UDP_BYTES + stored_bytes));
	return checksum ? checksum : 0xffff;
}

/* Determines the fields of the IPv4 header that the ICRC covers and the event does not contain. */
static void solve(struct frame_path *path, const struct icrc_solver *solver,
		  const struct trace_packet *packet)
{
	struct icrc_flow flow;

	path->dont_fragment = true;
	path->ip_id = 0;
	if (packet->captured_bytes != packet->wire_bytes || packet->captured_bytes < PACKET_MIN)
		return;
	icrc_flow_init(&flow, path->src, path->dst, packet->src_port, PACKET_UDP_PORT);
	if (icrc_check(&flow, solver, packet->bytes, packet->captured_bytes, &path->ip_id) !=
	    ICRC_OTHER_DONT_FRAGMENT)
		return;
	path->dont_fragment = false;
	icrc_flow_set_dont_fragment(&flow, false);
	(void)!icrc_check(&flow, solver, packet->bytes, packet->captured_bytes, &path->ip_id);
}

/* Copies the packet and completes it. Returns the number of its bytes in the frame. */
static size_t put_packet_bytes(uint8_t *at, const struct trace_packet *packet,
			       const struct frame_path *path)
{
	struct icrc_flow flow;
	struct iovec covered = {at, (size_t)packet->wire_bytes - ICRC_BYTES};

	memcpy(at, packet->bytes, packet->captured_bytes);
	if (packet->captured_bytes == packet->wire_bytes || packet->wire_bytes < PACKET_MIN ||
	    packet->wire_bytes > PACKET_MAX)
		return packet->captured_bytes;
	memset(at + packet->captured_bytes, 0, packet->wire_bytes - packet->captured_bytes);
	icrc_flow_init(&flow, path->src, path->dst, packet->src_port, PACKET_UDP_PORT);
	icrc_store(at + covered.iov_len, icrc_compute(&flow, path->ip_id, &covered, 1));
	return packet->wire_bytes;
}

bool frame_make(struct frame *frame, const struct icrc_solver *solver,
		const struct trace_event *event)
{
	const struct trace_packet *packet = &event->packet;
	bool is_sent = event->type == TRACE_PACKET_SENT;
	struct frame_path path = {
		.src = is_sent ? packet->local_gid : packet->remote_gid,
		.dst = is_sent ? packet->remote_gid : packet->local_gid,
	};
	bool is_ipv4 = gid_is_ipv4(path.src);
	uint8_t *at = frame->bytes, *udp;
	size_t stored;

	solve(&path, solver, packet);
	put_mac(at, path.dst);
	put_mac(at + 6, path.src);
	be_store16(at + 12, is_ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	at += ETHERNET_BYTES;
	at += is_ipv4 ? put_ipv4(at, packet, &path) : put_ipv6(at, packet, &path);
	udp = at;
	be_store16(udp, packet->src_port);
	be_store16(udp + 2, PACKET_UDP_PORT);
	be_store16(udp + 4, (uint16_t)(UDP_BYTES + packet->wire_bytes));
	be_store16(udp + 6, 0);
	stored = put_packet_bytes(udp + UDP_BYTES, packet, &path);
	be_store16(udp + 6, udp_checksum(udp, stored, packet, &path, is_ipv4));
	frame->captured_bytes = (size_t)(udp - frame->bytes) + UDP_BYTES + stored;
	frame->wire_bytes = (size_t)(udp - frame->bytes) + UDP_BYTES + packet->wire_bytes;
	return stored > packet->captured_bytes;
}
