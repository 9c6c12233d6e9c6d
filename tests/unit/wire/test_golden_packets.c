/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linux's packets, and one of every opcode from tests/golden/made.py. Every header field has the
 * value that tshark reports (tests/golden/packets.fields), and building the parsed packet gives the
 * same bytes, ICRC included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/be.h"
#include "pcap.h"
#include "wire/icrc.h"
#include "wire/packet.h"

/* The number of packets of each file; without this check a reader that finds none would pass. */
static const struct {
	const char *name;
	int packets;
} captures[] = {
	{"atomic_fa.pcap", 10},	  {"cmtime.pcap", 25},	    {"made.pcap", 86},
	{"mckey.pcap", 3},	  {"rc_pingpong.pcap", 36}, {"rdma_client.pcap", 11},
	{"read_bw.pcap", 50},	  {"reject.pcap", 2},	    {"rping4.pcap", 41},
	{"rping6.pcap", 29},	  {"rping_big.pcap", 105},  {"send_bw.pcap", 50},
	{"uc_pingpong.pcap", 18}, {"ucmatose.pcap", 58},    {"ud_pingpong.pcap", 6},
	{"udaddy.pcap", 8},	  {"unreach.pcap", 2},	    {"write_R.pcap", 27},
	{"write_bw.pcap", 50},
};

static struct pcap_packet golden;

static void check_rebuilt(const struct packet *packet)
{
	uint8_t headers[PACKET_HDR_MAX], trailer[PACKET_TRAILER_MAX], again[PCAP_FRAME_MAX];
	size_t hdr_bytes = packet_build_headers(packet, headers);
	size_t pad_bytes = packet_pad_bytes(packet->payload_bytes);
	uint8_t zeros[PACKET_PAD_MAX] = {0};
	struct iovec pieces[] = {
		{headers, hdr_bytes},
		{(void *)(uintptr_t)packet->payload, packet->payload_bytes},
		{zeros, pad_bytes},
	};
	struct icrc_flow flow;
	uint32_t icrc;

	icrc_flow_init(&flow, golden.src, golden.dst, golden.src_port, golden.dst_port);
	icrc_flow_set_dont_fragment(&flow, golden.dont_fragment);
	icrc = icrc_compute(&flow, golden.ip_id, pieces, 3);

	assert_int_equal(packet_bytes(packet), golden.len);
	memcpy(again, headers, hdr_bytes);
	memcpy(again + hdr_bytes, packet->payload, packet->payload_bytes);
	assert_int_equal(packet_build_trailer(packet->payload_bytes, icrc, trailer),
			 golden.len - hdr_bytes - packet->payload_bytes);
	memcpy(again + hdr_bytes + packet->payload_bytes, trailer, pad_bytes + ICRC_BYTES);
	assert_memory_equal(again, golden.bytes, golden.len);
}

static void packet_build_captured_packet_is_identical(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		struct packet packet;
		struct pcap pcap;
		int count = 0;

		assert_true(pcap_open(&pcap, captures[i].name));
		while (pcap_next(&pcap, &golden)) {
			assert_int_equal(packet_parse(&packet, golden.bytes, golden.len),
					 PACKET_OK);
			check_rebuilt(&packet);
			count++;
		}
		assert_int_equal(count, captures[i].packets);
	}
}

/*
 * A value with its name in packets.fields, and whether the packet has the header that contains it.
 */
struct value {
	const char *name;
	bool is_there;
	uint64_t value;
};

#define VALUES 22

static void values_of(const struct packet *p, struct value values[VALUES])
{
	const struct opcode_info *info = p->info;
	bool has_va = info->has_reth || info->has_atomic_eth;
	const struct value all[VALUES] = {
		{"op", true, p->opcode},
		{"se", true, p->is_solicited},
		{"m", true, p->is_migrated},
		{"pad", true, packet_pad_bytes(p->payload_bytes)},
		{"pkey", true, p->pkey},
		{"qpn", true, p->dest_qpn},
		{"a", true, p->wants_ack},
		{"psn", true, p->psn},
		{"qkey", info->has_deth, p->qkey},
		{"src", info->has_deth, p->src_qpn},
		{"va", has_va, p->va},
		{"rkey", has_va, p->rkey},
		{"len", info->has_reth, p->dma_length_bytes},
		{"swap", info->has_atomic_eth, p->swap_or_add},
		{"cmp", info->has_atomic_eth, p->compare},
		{"syn", info->has_aeth, p->syndrome},
		{"msn", info->has_aeth, p->msn},
		{"orig", info->has_atomic_ack_eth, p->atomic_original},
		{"imm", info->has_imm, be_load32(&p->imm_be)},
		{"inv", info->has_ieth, p->inv_rkey},
		{"icrc", false, be_load32(golden.bytes + golden.len - ICRC_BYTES)},
		/* tshark includes the pad in the payload. */
		{"payload", false, p->payload_bytes + packet_pad_bytes(p->payload_bytes)},
	};

	memcpy(values, all, sizeof(all));
}

static bool is_unknown_to_tshark(const struct opcode_info *info)
{
	return info->transport == OPCODE_TRANSPORT_XRC || info->is_flush || info->is_atomic_write;
}

/* `words` is the rest of a line: name=value and so on. Returns the number of values. */
static int check_line(const struct packet *packet, char *words)
{
	struct value values[VALUES];
	int checked = 0;
	char *rest;

	values_of(packet, values);
	for (char *word = strtok_r(words, " \n", &rest); word;
	     word = strtok_r(NULL, " \n", &rest)) {
		char *number = strchr(word, '=');
		size_t i = 0;

		assert_non_null(number);
		*number++ = '\0';
		while (i < VALUES && strcmp(values[i].name, word) != 0)
			i++;
		assert_in_range(i, 0, VALUES - 1);
		assert_int_equal(values[i].value, strtoull(number, NULL, 16));
		values[i].is_there = false;
		checked++;
	}
	/* A header that tshark does not know: of XRC, FLUSH and atomic WRITE. */
	for (size_t i = 0; i < VALUES; i++)
		assert_true(!values[i].is_there || is_unknown_to_tshark(packet->info));
	return checked;
}

static void packet_parse_captured_packet_matches_tshark(void **state)
{
	char line[1024], capture[64], open[64] = "";
	int lines = 0, checked = 0, used;
	struct packet packet;
	struct pcap pcap;
	unsigned frame;
	FILE *file;

	(void)state;
	file = pcap_open_golden("packets.fields");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_int_equal(sscanf(line, "%63s %u %n", capture, &frame, &used), 2);
		if (strcmp(capture, open) != 0) {
			/*
			 * The preceding capture was read to its end: there is a line for every
			 * packet.
			 */
			assert_true(!open[0] || !pcap_next(&pcap, &golden));
			assert_true(pcap_open(&pcap, capture));
			memcpy(open, capture, sizeof(open));
		}
		assert_true(pcap_next(&pcap, &golden));
		assert_int_equal(golden.frame, frame);
		assert_int_equal(packet_parse(&packet, golden.bytes, golden.len), PACKET_OK);
		checked += check_line(&packet, line + used);
		lines++;
	}
	fclose(file);
	assert_false(pcap_next(&pcap, &golden));
	assert_int_equal(lines, 617);
	assert_int_equal(checked, 6422);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_build_captured_packet_is_identical),
		cmocka_unit_test(packet_parse_captured_packet_matches_tshark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
