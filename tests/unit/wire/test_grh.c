/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GRH before a datagram. Made from the fields of a packet, it equals the IP header of Linux's
 * packet byte for byte; its fields are read back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/be.h"
#include "pcap.h"
#include "wire/grh.h"

static struct pcap_packet golden;

/* 40 bytes as a receiver gets them. */
static void received(uint8_t bytes[GRH_BYTES])
{
	memset(bytes, 0, GRH_BYTES);
	if (golden.is_ipv4)
		memcpy(bytes + 20, golden.ip, 20);
	else
		memcpy(bytes, golden.ip, 40);
}

static void grh_build_matches_captured_headers(void **state)
{
	static const char *const names[] = {"ud_pingpong.pcap", "udaddy.pcap", "mckey.pcap",
					    "rping6.pcap", "made.pcap"};
	unsigned packets[2] = {0};
	struct pcap pcap;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_true(pcap_open(&pcap, names[i]));
		while (pcap_next(&pcap, &golden)) {
			uint8_t want[GRH_BYTES], got[GRH_BYTES];
			struct grh grh;

			received(want);
			assert_int_equal(grh_parse(&grh, want), 0);
			assert_memory_equal(grh.src_gid, golden.src, GID_BYTES);
			assert_memory_equal(grh.dst_gid, golden.dst, GID_BYTES);
			assert_int_equal(grh.udp_payload_bytes, golden.len);
			assert_int_equal(grh.ip_id, golden.ip_id);
			grh_build(&grh, got);
			/* made.py sets no IP checksum. */
			if (golden.is_ipv4 && !be_load16(want + 30))
				memset(got + 30, 0, 2);
			assert_memory_equal(got, want, GRH_BYTES);
			packets[golden.is_ipv4]++;
		}
	}
	assert_true(packets[0] > 10);
	assert_true(packets[1] > 50);
}

static void grh_parse_reverses_build(void **state)
{
	struct grh in = {.flow_label = 0xfffff,
			 .traffic_class = 0xa7,
			 .hop_limit = 0xfe,
			 .udp_payload_bytes = 4096 + 24};
	uint8_t bytes[GRH_BYTES];
	struct grh out;

	(void)state;
	for (size_t i = 0; i < GID_BYTES; i++) {
		in.src_gid[i] = (uint8_t)(0x20 + i);
		in.dst_gid[i] = (uint8_t)(0x40 + i);
	}
	grh_build(&in, bytes);
	assert_int_equal(grh_parse(&out, bytes), 0);
	assert_memory_equal(&in, &out, sizeof(in));

	/* IPv4 has no flow label, but an identification and don't-fragment. */
	memcpy(in.src_gid, (uint8_t[12]){[10] = 0xff, 0xff}, 12);
	memcpy(in.dst_gid, (uint8_t[12]){[10] = 0xff, 0xff}, 12);
	in.flow_label = 0;
	in.ip_id = 0xfedc;
	in.dont_fragment = true;
	grh_build(&in, bytes);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(grh_parse(&out, bytes), 0);
	assert_memory_equal(&in, &out, sizeof(in));
}

static void grh_parse_invalid_header_fails(void **state)
{
	uint8_t bytes[GRH_BYTES] = {0};
	struct grh grh;

	(void)state;
	for (unsigned first = 0; first < 256; first++) {
		for (unsigned second = 0; second < 256; second++) {
			bytes[0] = (uint8_t)first;
			bytes[20] = (uint8_t)second;
			assert_int_equal(grh_parse(&grh, bytes),
					 first >> 4 == 6 || second == 0x45 ? 0 : -EPROTO);
		}
	}
	/*
	 * The length field is untrusted; a length below that of the headers means an empty payload.
	 */
	bytes[0] = 0x60;
	assert_int_equal(grh_parse(&grh, bytes), 0);
	assert_int_equal(grh.udp_payload_bytes, 0);
	bytes[0] = 0;
	bytes[20] = 0x45;
	bytes[23] = 27;
	assert_int_equal(grh_parse(&grh, bytes), 0);
	assert_int_equal(grh.udp_payload_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grh_build_matches_captured_headers),
		cmocka_unit_test(grh_parse_reverses_build),
		cmocka_unit_test(grh_parse_invalid_header_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
