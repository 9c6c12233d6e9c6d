/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/icrc.h"

#include <assert.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "wire/packet.h"

/* Offsets, after the 8 bytes of ones, of the fields that differ between packets. */
#define IPV4_HDR_BYTES	20
#define IPV4_LENGTH_AT	(8 + 2)
#define IPV4_ID_AT	(8 + 4)
#define IPV4_FLAGS_AT	(8 + 6)
#define IPV6_HDR_BYTES	40
#define IPV6_LENGTH_AT	(8 + 4)
#define UDP_HDR_BYTES	8
#define BTH_MASKED_BYTE 4

#define IP_PROTOCOL_UDP 17

static void icrc_fill_ipv4(uint8_t *ip, const uint8_t *src_gid, const uint8_t *dst_gid)
{
	ip[0] = 0x45;
	ip[1] = 0xff; /* TOS */
	be_store16(ip + 2, 0);
	be_store16(ip + 4, 0);
	be_store16(ip + 6, 0x4000); /* don't fragment, no fragment */
	ip[8] = 0xff;		    /* TTL */
	ip[9] = IP_PROTOCOL_UDP;
	be_store16(ip + 10, 0xffff); /* checksum */
	memcpy(ip + 12, src_gid + 12, 4);
	memcpy(ip + 16, dst_gid + 12, 4);
}

static void fill_ipv6(uint8_t *ip, const uint8_t *src_gid, const uint8_t *dst_gid)
{
	be_store32(ip, 0x6fffffff); /* traffic class, flow label */
	be_store16(ip + 4, 0);
	ip[6] = IP_PROTOCOL_UDP;
	ip[7] = 0xff; /* hop limit */
	memcpy(ip + 8, src_gid, GID_BYTES);
	memcpy(ip + 24, dst_gid, GID_BYTES);
}

void icrc_flow_init(struct icrc_flow *flow, const uint8_t src_gid[GID_BYTES],
		    const uint8_t dst_gid[GID_BYTES], uint16_t src_port, uint16_t dst_port)
{
	uint8_t *ip = flow->head + 8, *udp;

	memset(flow->head, 0xff, 8);
	flow->is_ipv4 = gid_is_ipv4(src_gid) && gid_is_ipv4(dst_gid);
	if (flow->is_ipv4) {
		icrc_fill_ipv4(ip, src_gid, dst_gid);
		udp = ip + IPV4_HDR_BYTES;
	} else {
		fill_ipv6(ip, src_gid, dst_gid);
		udp = ip + IPV6_HDR_BYTES;
	}
	be_store16(udp, src_port);
	be_store16(udp + 2, dst_port);
	be_store16(udp + 4, 0);
	be_store16(udp + 6, 0xffff); /* checksum */
	flow->head_bytes = (uint8_t)(udp + UDP_HDR_BYTES - flow->head);
}

void icrc_flow_set_dont_fragment(struct icrc_flow *flow, bool dont_fragment)
{
	if (flow->is_ipv4)
		flow->head[IPV4_FLAGS_AT] = dont_fragment ? 0x40 : 0;
}

/*
 * The CRC over the IP and UDP headers and the first `bytes` of a packet (BTH_BYTES to
 * PACKET_HDR_MAX). `udp_payload_bytes` includes the ICRC.
 */
static uint32_t icrc_start(const struct icrc_flow *flow, uint16_t ip_id, size_t udp_payload_bytes,
			   const void *packet, size_t bytes)
{
	size_t udp_bytes = UDP_HDR_BYTES + udp_payload_bytes;
	uint8_t covered[ICRC_HEAD_MAX + PACKET_HDR_MAX];
	uint8_t *copy = covered + flow->head_bytes;

	memcpy(covered, flow->head, sizeof(flow->head));
	if (flow->is_ipv4) {
		be_store16(covered + IPV4_LENGTH_AT, (uint16_t)(IPV4_HDR_BYTES + udp_bytes));
		be_store16(covered + IPV4_ID_AT, ip_id);
	} else {
		be_store16(covered + IPV6_LENGTH_AT, (uint16_t)udp_bytes);
	}
	be_store16(copy - 4, (uint16_t)udp_bytes);
	memcpy(copy, packet, bytes);
	copy[BTH_MASKED_BYTE] = 0xff;
	return crc32_ethernet(0, covered, flow->head_bytes + bytes);
}

uint32_t icrc_compute(const struct icrc_flow *flow, uint16_t ip_id, const struct iovec *pieces,
		      size_t count)
{
	size_t first_bytes, copied, bytes = ICRC_BYTES;
	const uint8_t *first;
	uint32_t crc;

	assert(count > 0 && pieces[0].iov_len >= BTH_BYTES);
	first = pieces[0].iov_base;
	first_bytes = pieces[0].iov_len;
	for (size_t i = 0; i < count; i++)
		bytes += pieces[i].iov_len;

	copied = first_bytes < PACKET_HDR_MAX ? first_bytes : PACKET_HDR_MAX;
	crc = icrc_start(flow, ip_id, bytes, first, copied);
	if (copied < first_bytes)
		crc = crc32_ethernet(crc, first + copied, first_bytes - copied);
	for (size_t i = 1; i < count; i++)
		crc = crc32_ethernet(crc, pieces[i].iov_base, pieces[i].iov_len);
	return crc;
}

/*
 * Solving for the IPv4 identification. The values are polynomials over GF(2) modulo the polynomial
 * of the CRC, in the reflected form of CRC-32: bit 31 is the coefficient of x^0, bit 0 that of
 * x^31. A CRC is linear, so the received ICRC and the ICRC for identification 0 differ only by the
 * contribution of the identification: D = id(x) * x^(8n + 32), where n is the number of covered
 * bytes after the identification. If the ICRC is correct, D times the inverse of that power is a
 * polynomial of degree below 16. Its coefficients are the identification in the bit order of
 * CRC-32: the least significant bit of each byte first.
 *
 * A don't-fragment bit with another value than expected adds one known term: it is 7 bits after the
 * identification, so the term is x^-7.
 */
#define POLYNOMIAL		0xedb88320u
#define ONE			0x80000000u
#define DONT_FRAGMENT_BEHIND_ID 7

static uint32_t divide_by_x(uint32_t a)
{
	/*
	 * If the coefficient of x^0 is 1, the CRC polynomial (with x^0 and x^32) is added, so that
	 * x divides the sum.
	 */
	return a & ONE ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= b & -(a >> 31);
		a <<= 1;
		b = b >> 1 ^ (POLYNOMIAL & -(b & 1));
	}
	return product;
}

static uint32_t divide_by_power(uint32_t a, unsigned power)
{
	while (power-- > 0)
		a = divide_by_x(a);
	return a;
}

/*
 * The covered bytes after the identification: the rest of the IP header, the UDP header, the packet
 * including its pad.
 */
#define BYTES_BEHIND_ID(words) (IPV4_HDR_BYTES - 6 + UDP_HDR_BYTES + 4 * (words)-ICRC_BYTES)

void icrc_solver_init(struct icrc_solver *solver)
{
	uint32_t inverse = divide_by_power(ONE, 8 * BYTES_BEHIND_ID(1) + 32);

	solver->inverse[0] = 0;
	for (size_t words = 1; words < ICRC_SOLVER_WORDS; words++) {
		solver->inverse[words] = inverse;
		inverse = divide_by_power(inverse, 32);
	}
}

void icrc_id_terms(size_t packet_bytes, uint32_t *by_bit, int count)
{
	static const uint8_t zeros[PACKET_MAX];
	static const uint8_t gid[GID_BYTES] = {[10] = 0xff, [11] = 0xff};
	struct iovec piece = {.iov_base = (void *)(uintptr_t)zeros,
			      .iov_len = packet_bytes - ICRC_BYTES};
	struct icrc_flow flow;

	icrc_flow_init(&flow, gid, gid, 0, 0);
	by_bit[0] = icrc_compute(&flow, 0, &piece, 1) ^ icrc_compute(&flow, 1, &piece, 1);
	/* The least significant bit of a byte is the first and has the highest power of x. */
	for (int bit = 1; bit < count; bit++)
		by_bit[bit] = divide_by_x(by_bit[bit - 1]);
}

/* Whether the degree of `id_poly` is below 16. */
static bool is_id(uint32_t id_poly)
{
	return (id_poly & 0xffff) == 0;
}

static uint16_t id_of(uint32_t id_poly)
{
	return (uint16_t)((id_poly >> 8 & 0xff00) | id_poly >> 24);
}

static enum icrc_disposition solve(const struct icrc_solver *solver, uint32_t difference,
				   size_t len, uint16_t *ip_id)
{
	uint32_t id_poly;

	if (len / 4 >= ICRC_SOLVER_WORDS)
		return ICRC_WRONG;
	id_poly = multiply(difference, solver->inverse[len / 4]);
	if (is_id(id_poly)) {
		*ip_id = id_of(id_poly);
		return ICRC_RIGHT;
	}
	return is_id(id_poly ^ divide_by_power(ONE, DONT_FRAGMENT_BEHIND_ID)) ?
		       ICRC_OTHER_DONT_FRAGMENT :
		       ICRC_WRONG;
}

enum icrc_disposition icrc_check(const struct icrc_flow *flow, const struct icrc_solver *solver,
				 const void *datagram, size_t len, uint16_t *ip_id)
{
	const uint8_t *bytes = datagram;
	uint32_t difference;

	*ip_id = 0;
	if (len < PACKET_MIN || len % 4)
		return ICRC_WRONG;
	difference = crc32_ethernet(icrc_start(flow, 0, len, bytes, BTH_BYTES), bytes + BTH_BYTES,
				    len - PACKET_MIN);
	difference ^= icrc_load(bytes + len - ICRC_BYTES);
	/* Fast path: this implementation sends most packets with identification 0. */
	if (!difference)
		return ICRC_RIGHT;
	return flow->is_ipv4 ? solve(solver, difference, len, ip_id) : ICRC_WRONG;
}
