/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trace_packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm_msg.h"
#include "wire/mad.h"
#include "wire/packet.h"
#include "wire/print.h"

static const uint8_t here[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
static const uint8_t there[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};

static struct trace_event event_of(const struct trace_point *point)
{
	struct trace_event event = {.type = point->type};

	memcpy(event.packet.local_gid, here, sizeof(here));
	memcpy(event.packet.remote_gid, there, sizeof(there));
	return event;
}

/* Appends a packet with this payload in pieces, as a link sends it. */
static void append(struct trace_event *event, uint8_t opcode, uint32_t qpn, const void *payload,
		   size_t payload_bytes)
{
	const struct packet packet = {
		.opcode = opcode,
		.pkey = PACKET_PKEY_DEFAULT,
		.dest_qpn = qpn,
		.psn = 7,
		.qkey = MAD_QKEY,
		.src_qpn = 1,
		.payload_bytes = payload_bytes,
	};
	uint8_t hdr[PACKET_HDR_MAX], trailer[PACKET_TRAILER_MAX];

	trace_packet_append(&event->packet, hdr, packet_build_headers(&packet, hdr));
	trace_packet_append(&event->packet, payload, payload_bytes);
	trace_packet_append(&event->packet, trailer,
			    packet_build_trailer(payload_bytes, 0, trailer));
	trace_packet_fill_head(event);
}

static void trace_packet_append_long_packet_is_printed_by_headers(void **state)
{
	static const uint8_t payload[4096];
	struct trace_event event = event_of(&trace_packet_sent);
	char line[PRINT_PACKET_MAX];

	(void)state;
	append(&event, OPCODE(RC, SEND_ONLY), 0x11, payload, sizeof(payload));
	assert_int_equal(event.qpn, 0x11);
	assert_int_equal(event.psn, 7);
	assert_int_equal(event.packet.captured_bytes, TRACE_PACKET_BYTES);
	trace_packet_sent.print(line, sizeof(line), &event);
	assert_string_equal(line, "rc send only qpn 0x11 psn 7 payload 4096 bytes from 10.0.0.1 to "
				  "10.0.0.2");
}

static void trace_packet_append_received_packet_has_remote_source(void **state)
{
	struct trace_event event = event_of(&trace_packet_received);
	char line[PRINT_PACKET_MAX];

	(void)state;
	append(&event, OPCODE(RC, SEND_ONLY), 0x11, "abcd", 4);
	trace_packet_received.print(line, sizeof(line), &event);
	assert_non_null(strstr(line, " from 10.0.0.2 to 10.0.0.1"));
}

static void trace_packet_append_mad_is_printed(void **state)
{
	struct cm_msg msg = {.type = CM_MSG_RTU, .tid = 5, .rtu.local_comm_id = 0x99};
	struct trace_event event = event_of(&trace_packet_sent);
	uint8_t mad[MAD_BYTES];
	char line[PRINT_PACKET_MAX];

	(void)state;
	cm_msg_build(&msg, mad);
	append(&event, OPCODE(UD, SEND_ONLY), MAD_QPN, mad, sizeof(mad));
	trace_packet_sent.print(line, sizeof(line), &event);
	assert_non_null(strstr(line, "payload 256 bytes: cm rtu tid 0x5 local_comm_id 0x99 from "));
	event = event_of(&trace_mad_sent);
	trace_packet_append(&event.packet, mad, sizeof(mad));
	trace_mad_sent.print(line, sizeof(line), &event);
	assert_string_equal(line, "cm rtu tid 0x5 local_comm_id 0x99 from 10.0.0.1 to 10.0.0.2");
}

static void trace_packet_append_malformed_datagram_has_reason(void **state)
{
	struct trace_event event = event_of(&trace_packet_received);
	char line[PRINT_PACKET_MAX];

	(void)state;
	trace_packet_append(&event.packet, "abc", 3);
	trace_packet_fill_head(&event);
	assert_int_equal(event.qpn, 0);
	trace_packet_received.print(line, sizeof(line), &event);
	assert_non_null(strstr(line, "3 bytes from 10.0.0.2 to 10.0.0.1"));
}

static void trace_packet_append_short_event_is_not_printed(void **state)
{
	struct trace_event event = event_of(&trace_packet_received);
	char line[PRINT_PACKET_MAX] = "x";

	(void)state;
	append(&event, OPCODE(RC, SEND_ONLY), 0x11, "abcd", 4);
	event.packet.captured_bytes = 8;
	trace_packet_received.print(line, sizeof(line), &event);
	assert_string_equal(line, "");
}

static void trace_packet_append_short_buffer_cuts_line(void **state)
{
	struct trace_event event = event_of(&trace_packet_sent);
	char whole[PRINT_PACKET_MAX], cut[PRINT_PACKET_MAX];

	(void)state;
	append(&event, OPCODE(RC, SEND_ONLY), 0x11, "abcd", 4);
	trace_packet_sent.print(whole, sizeof(whole), &event);
	for (size_t room = 1; room <= strlen(whole) + 1; room++) {
		trace_packet_sent.print(cut, room, &event);
		assert_int_equal(strlen(cut), room - 1);
		assert_memory_equal(cut, whole, room - 1);
	}
}

static void trace_packet_is_nak_selects_naks_of_rc_and_xrc(void **state)
{
	static const struct {
		uint8_t opcode;
		uint8_t syndrome;
		bool is_nak;
	} cases[] = {
		{OPCODE(RC, ACK), 0x62, true},
		{OPCODE(RC, ACK), 0x21, true},
		{OPCODE(XRC, ACK), 0x62, true},
		{OPCODE(XRC, ACK), 0x21, true},
		{OPCODE(RC, ACK), 0x1f, false},
		{OPCODE(XRC, ACK), 0x1f, false},
		{OPCODE(RC, ATOMIC_ACK), 0x1f, false},
		{OPCODE(RC, READ_RESPONSE_ONLY), 0x62, false},
		{OPCODE(RC, SEND_ONLY), 0x62, false},
		{OPCODE(VENDOR, ACK), 0x62, false},
		{OPCODE(RD, ACK), 0x62, false},
	};
	uint8_t bytes[BTH_BYTES + 1] = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bytes[0] = cases[i].opcode;
		bytes[BTH_BYTES] = cases[i].syndrome;
		assert_int_equal(trace_packet_is_nak(bytes, sizeof(bytes)), cases[i].is_nak);
		assert_false(trace_packet_is_nak(bytes, BTH_BYTES));
	}
	assert_false(trace_packet_is_nak(NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_packet_append_long_packet_is_printed_by_headers),
		cmocka_unit_test(trace_packet_append_received_packet_has_remote_source),
		cmocka_unit_test(trace_packet_append_mad_is_printed),
		cmocka_unit_test(trace_packet_append_malformed_datagram_has_reason),
		cmocka_unit_test(trace_packet_append_short_event_is_not_printed),
		cmocka_unit_test(trace_packet_append_short_buffer_cuts_line),
		cmocka_unit_test(trace_packet_is_nak_selects_naks_of_rc_and_xrc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
