/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC of Linux's packets, the identification for which it was computed, and the detection of
 * errors: every bit of a packet is flipped, except those that the ICRC does not cover.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pcap.h"
#include "wire/icrc.h"
#include "wire/packet.h"

static const char *const captures[] = {
	"atomic_fa.pcap",   "cmtime.pcap",  "made.pcap",	"mckey.pcap",	 "rc_pingpong.pcap",
	"rdma_client.pcap", "read_bw.pcap", "reject.pcap",	"rping4.pcap",	 "rping6.pcap",
	"rping_big.pcap",   "send_bw.pcap", "uc_pingpong.pcap", "ucmatose.pcap", "ud_pingpong.pcap",
	"udaddy.pcap",	    "unreach.pcap", "write_R.pcap",	"write_bw.pcap",
};

static struct icrc_solver solver;
static struct pcap_packet golden;

static int init_solver(void **state)
{
	(void)state;
	icrc_solver_init(&solver);
	return 0;
}

static struct icrc_flow flow_of(const struct pcap_packet *packet)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, packet->src, packet->dst, packet->src_port, packet->dst_port);
	icrc_flow_set_dont_fragment(&flow, packet->dont_fragment);
	return flow;
}

static void assert_right(const struct icrc_flow *flow, const uint8_t *bytes, size_t len,
			 uint16_t want_id)
{
	uint16_t ip_id;

	assert_int_equal(icrc_check(flow, &solver, bytes, len, &ip_id), ICRC_RIGHT);
	assert_int_equal(ip_id, want_id);
}

static bool is_right(const struct icrc_flow *flow, const uint8_t *bytes, size_t len)
{
	uint16_t ip_id;

	return icrc_check(flow, &solver, bytes, len, &ip_id) == ICRC_RIGHT;
}

static void icrc_check_captured_packet_passes_and_finds_ip_id(void **state)
{
	int ipv4 = 0, ipv6 = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		struct pcap pcap;

		assert_true(pcap_open(&pcap, captures[i]));
		while (pcap_next(&pcap, &golden)) {
			struct icrc_flow flow = flow_of(&golden);

			assert_right(&flow, golden.bytes, golden.len, golden.ip_id);
			ipv4 += golden.is_ipv4;
			ipv6 += !golden.is_ipv4;
		}
	}
	/* 502 and 29 packets by Linux, 43 and 43 by made.py. */
	assert_int_equal(ipv4, 502 + 43);
	assert_int_equal(ipv6, 29 + 43);
}

/* A packet of `len` bytes with a pattern as payload and a valid ICRC for `ip_id`. */
static void make(const struct icrc_flow *flow, uint16_t ip_id, uint8_t *bytes, size_t len)
{
	struct iovec piece = {bytes, len - ICRC_BYTES};

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 167 + len);
	icrc_store(bytes + len - ICRC_BYTES, icrc_compute(flow, ip_id, &piece, 1));
}

static struct icrc_flow some_flow(bool is_ipv4)
{
	uint8_t src[GID_BYTES], dst[GID_BYTES];
	struct icrc_flow flow;
	struct in_addr a = {htonl(0x0a000001)}, b = {htonl(0xc0a80002)};

	gid_from_ipv4(src, &a);
	gid_from_ipv4(dst, &b);
	if (!is_ipv4)
		src[0] = dst[0] = 0xfd;
	icrc_flow_init(&flow, src, dst, 0xc123, PACKET_UDP_PORT);
	return flow;
}

static void icrc_check_every_ip_id_is_found(void **state)
{
	static uint8_t bytes[PACKET_MAX];
	struct icrc_flow flow = some_flow(true);

	(void)state;
	for (unsigned id = 0; id < 0x10000; id++) {
		make(&flow, (uint16_t)id, bytes, 64);
		assert_right(&flow, bytes, 64, (uint16_t)id);
	}
	for (size_t len = PACKET_MIN; len <= PACKET_MAX; len += 4) {
		make(&flow, 0xa51c, bytes, len);
		assert_right(&flow, bytes, len, 0xa51c);
	}
}

/* The division of the bytes into pieces does not change the result. */
static void icrc_compute_of_pieces_equals_whole(void **state)
{
	static uint8_t bytes[256];

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		struct icrc_flow flow = some_flow(v4);
		size_t covered = sizeof(bytes) - ICRC_BYTES;

		make(&flow, 7, bytes, sizeof(bytes));
		for (size_t a = BTH_BYTES; a <= covered; a++) {
			size_t b = a + (covered - a) / 3;
			struct iovec pieces[] = {{bytes, a},
						 {bytes + a, b - a},
						 {NULL, 0},
						 {bytes + b, covered - b}};

			assert_int_equal(icrc_compute(&flow, 7, pieces, 4),
					 icrc_load(bytes + covered));
		}
	}
}

/* BTH byte 4 contains congestion marks and reserved bits, which routers may change. */
static bool is_masked(size_t bit)
{
	return bit / 8 == 4;
}

static void flip(uint8_t *bytes, size_t bit)
{
	bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void check_every_flip(const struct icrc_flow *flow, uint8_t *bytes, size_t len)
{
	for (size_t bit = 0; bit < 8 * len; bit++) {
		flip(bytes, bit);
		assert_int_equal(is_right(flow, bytes, len), is_masked(bit));
		flip(bytes, bit);
	}
}

static void icrc_check_single_bit_error_fails(void **state)
{
	static const size_t lens[] = {PACKET_MIN, 20, 28, 60, 1048, 1064, PACKET_MAX};
	static uint8_t bytes[PACKET_MAX];

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		struct icrc_flow flow = some_flow(v4);

		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			make(&flow, 0x8001, bytes, lens[i]);
			check_every_flip(&flow, bytes, lens[i]);
		}
	}
}

static void icrc_check_captured_packet_with_bit_error_fails(void **state)
{
	static const char *const some[] = {"rping4.pcap", "rping6.pcap", "atomic_fa.pcap",
					   "udaddy.pcap", "made.pcap"};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		struct pcap pcap;

		assert_true(pcap_open(&pcap, some[i]));
		while (pcap_next(&pcap, &golden)) {
			struct icrc_flow flow = flow_of(&golden);

			check_every_flip(&flow, golden.bytes, golden.len);
		}
	}
}

static void icrc_check_wrong_address_or_port_fails(void **state)
{
	uint8_t bytes[64];

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		struct icrc_flow flow = some_flow(v4);
		/*
		 * Addresses and ports; the lengths between them are set again, the checksum is
		 * masked.
		 */
		size_t first = v4 ? 8 + 12 : 8 + 8, ports_end = flow.head_bytes - 4u;

		make(&flow, 3, bytes, sizeof(bytes));
		for (size_t bit = 8 * first; bit < 8 * ports_end; bit++) {
			struct icrc_flow other = flow;

			flip(other.head, bit);
			assert_false(is_right(&other, bytes, sizeof(bytes)));
		}
	}
}

/* A random error passes with a probability of about 2^-16, because 16 bits are solved for. */
static void icrc_check_random_icrc_rarely_passes(void **state)
{
	struct icrc_flow v4 = some_flow(true), v6 = some_flow(false);
	uint32_t icrc = 1;
	uint8_t bytes[64];
	int passed = 0;

	(void)state;
	make(&v4, 0, bytes, sizeof(bytes));
	for (int round = 0; round < 1 << 20; round++) {
		icrc = icrc * 1664525 + 1013904223;
		icrc_store(bytes + sizeof(bytes) - ICRC_BYTES, icrc);
		passed += is_right(&v4, bytes, sizeof(bytes));
		assert_false(is_right(&v6, bytes, sizeof(bytes)));
	}
	/* The expected number is 16. */
	assert_in_range(passed, 1, 48);
}

static void icrc_check_other_dont_fragment_fails(void **state)
{
	static uint8_t bytes[PACKET_MAX];
	struct icrc_flow sets = some_flow(true), clears = sets;
	uint16_t ip_id;

	(void)state;
	icrc_flow_set_dont_fragment(&clears, false);
	for (size_t len = PACKET_MIN; len <= PACKET_MAX; len += 52) {
		make(&clears, 0x1234, bytes, len);
		assert_right(&clears, bytes, len, 0x1234);
		assert_int_equal(icrc_check(&sets, &solver, bytes, len, &ip_id),
				 ICRC_OTHER_DONT_FRAGMENT);
		make(&sets, 0x1234, bytes, len);
		assert_int_equal(icrc_check(&clears, &solver, bytes, len, &ip_id),
				 ICRC_OTHER_DONT_FRAGMENT);
	}
}

static void icrc_check_every_length_passes(void **state)
{
	static uint8_t bytes[8192];

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		struct icrc_flow flow = some_flow(v4);

		for (size_t len = 0; len < sizeof(bytes); len++) {
			uint8_t *end = bytes + sizeof(bytes) - len;

			if (len < PACKET_MIN || len % 4)
				assert_false(is_right(&flow, end, len));
		}
		/*
		 * Longer than the solver's table: valid for identification 0, unsolvable for any
		 * other.
		 */
		make(&flow, 0, bytes, sizeof(bytes));
		assert_true(is_right(&flow, bytes, sizeof(bytes)));
		make(&flow, 1, bytes, sizeof(bytes));
		assert_int_equal(is_right(&flow, bytes, sizeof(bytes)), !v4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc_check_captured_packet_passes_and_finds_ip_id),
		cmocka_unit_test(icrc_check_every_ip_id_is_found),
		cmocka_unit_test(icrc_compute_of_pieces_equals_whole),
		cmocka_unit_test(icrc_check_single_bit_error_fails),
		cmocka_unit_test(icrc_check_captured_packet_with_bit_error_fails),
		cmocka_unit_test(icrc_check_wrong_address_or_port_fails),
		cmocka_unit_test(icrc_check_random_icrc_rarely_passes),
		cmocka_unit_test(icrc_check_other_dont_fragment_fails),
		cmocka_unit_test(icrc_check_every_length_passes),
	};

	return cmocka_run_group_tests(tests, init_solver, NULL);
}
