/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets as text: the format of the lines is an interface and must not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pcap.h"
#include "wire/packet.h"
#include "wire/print.h"

static struct pcap_packet golden;

/*
 * tests/golden/packets.lines: capture, frame number, line; for every packet of the captures it
 * names.
 */
static void print_datagram_captured_packet_matches_reference(void **state)
{
	char want[PRINT_PACKET_MAX + 128], line[PRINT_PACKET_MAX], capture[64], open[64] = "";
	struct pcap pcap;
	unsigned frame;
	int lines = 0, used;
	FILE *file;

	(void)state;
	file = pcap_open_golden("packets.lines");
	assert_non_null(file);
	while (fgets(want, sizeof(want), file)) {
		want[strcspn(want, "\n")] = '\0';
		assert_int_equal(sscanf(want, "%63s %u %n", capture, &frame, &used), 2);
		if (strcmp(capture, open) != 0) {
			assert_true(!open[0] || !pcap_next(&pcap, &golden));
			assert_true(pcap_open(&pcap, capture));
			memcpy(open, capture, sizeof(open));
		}
		assert_true(pcap_next(&pcap, &golden));
		assert_int_equal(golden.frame, frame);
		assert_int_equal(print_datagram(line, sizeof(line), golden.bytes, golden.len),
				 strlen(want + used));
		assert_string_equal(line, want + used);
		lines++;
	}
	fclose(file);
	assert_false(pcap_next(&pcap, &golden));
	assert_int_equal(lines, 145);
}

static void print_datagram_malformed_packet_has_reason(void **state)
{
	static const uint8_t unknown[16] = {0xff};
	char line[PRINT_PACKET_MAX];

	(void)state;
	print_datagram(line, sizeof(line), unknown, 3);
	assert_string_equal(line, "no packet (too short), 3 bytes");
	print_datagram(line, sizeof(line), unknown, sizeof(unknown));
	assert_string_equal(line, "no packet (unknown opcode 0xff), 16 bytes");
	line[0] = 'x';
	assert_int_equal(print_datagram(line, 0, unknown, sizeof(unknown)), 0);
	assert_int_equal(line[0], 'x');
}

/* A packet to be sent has not been parsed, and its bytes may be in several pieces. */
static void print_packet_unparsed_packet_is_printed(void **state)
{
	struct packet packet = {.opcode = OPCODE(UD, SEND_ONLY),
				.pkey = PACKET_PKEY_DEFAULT,
				.dest_qpn = 1,
				.psn = 7,
				.qkey = 0x80010000,
				.src_qpn = 1,
				.payload_bytes = 256};
	char line[PRINT_PACKET_MAX];

	(void)state;
	print_packet(line, sizeof(line), &packet);
	assert_string_equal(
		line, "ud send only qpn 0x1 psn 7 from qpn 0x1 qkey 0x80010000 payload 256 bytes");
	packet = (struct packet){.opcode = OPCODE(RC, FLUSH),
				 .pkey = PACKET_PKEY_DEFAULT,
				 .dest_qpn = 2,
				 .flush_types = 1,
				 .flush_level = 1,
				 .va = 0x1000,
				 .rkey = 5,
				 .dma_length_bytes = 8};
	print_packet(line, sizeof(line), &packet);
	assert_string_equal(line,
			    "rc flush qpn 0x2 psn 0 types 0x1 level 1 va 0x1000 rkey 0x5 length 8");
	packet = (struct packet){.opcode = OPCODE(RC, SEND_ONLY),
				 .pkey = PACKET_PKEY_DEFAULT,
				 .dest_qpn = 2,
				 .wants_ack = true,
				 .is_ahead = true,
				 .takes_ahead = true};
	print_packet(line, sizeof(line), &packet);
	assert_string_equal(
		line, "rc send only qpn 0x2 psn 0 wants ack ahead takes ahead payload 0 bytes");
}

/*
 * Every packet, with every size of buffer: the output is a NUL-terminated prefix of the line within
 * the buffer.
 */
static void print_datagram_short_buffer_cuts_line(void **state)
{
	char whole[PRINT_PACKET_MAX], cut[PRINT_PACKET_MAX + 1];
	struct pcap pcap;

	(void)state;
	assert_true(pcap_open(&pcap, "made.pcap"));
	while (pcap_next(&pcap, &golden)) {
		size_t len = print_datagram(whole, sizeof(whole), golden.bytes, golden.len);

		assert_in_range(len, 1, sizeof(whole) - 2);
		for (size_t room = 0; room <= len + 1; room++) {
			size_t want = room == 0 ? 0 : room - 1;

			memset(cut, 'x', sizeof(cut));
			assert_int_equal(print_datagram(cut, room, golden.bytes, golden.len), want);
			assert_memory_equal(cut, whole, want);
			if (room > 0)
				assert_int_equal(cut[want], '\0');
			assert_int_equal(cut[room], 'x');
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(print_datagram_captured_packet_matches_reference),
		cmocka_unit_test(print_datagram_malformed_packet_has_reason),
		cmocka_unit_test(print_packet_unparsed_packet_is_printed),
		cmocka_unit_test(print_datagram_short_buffer_cuts_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
