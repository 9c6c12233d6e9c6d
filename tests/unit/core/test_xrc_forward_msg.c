/* SPDX-License-Identifier: BSD-2-Clause */

/* The encoding of the messages of XRC forwarding, and the checks of their decoding. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "core/qp/xrc_forward_msg.h"

#define TARGET	   200u
#define OTHER	   201u
#define TARGET_QPN (TARGET << IPC_SLOT_SHIFT | 5)

static const uint8_t payload[64] = {1, 2, 3};

/* A valid message of each type. */
static struct xrc_forward_msg valid_msg(enum xrc_forward_type type)
{
	struct xrc_forward_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = type;
	msg.qpn = TARGET_QPN;
	switch (type) {
	case XRC_FORWARD_ATTACH:
		msg.attach.domain_id = 77;
		msg.attach.path_mtu = IBV_MTU_4096;
		break;
	case XRC_FORWARD_REQUEST:
	case XRC_FORWARD_REPLAY:
		msg.request.burst = 3;
		msg.request.packet.opcode = OPCODE(XRC, SEND_ONLY);
		msg.request.packet.psn = 9;
		msg.request.packet.payload = payload;
		msg.request.packet.payload_bytes = sizeof(payload);
		break;
	case XRC_REMOTE_OPEN:
		msg.open.domain_id = 77;
		break;
	case XRC_REMOTE_EVENT:
		msg.event.event = IBV_EVENT_COMM_EST;
		break;
	default:
		msg.operation.serial = 4;
		break;
	}
	return msg;
}

static uint32_t encode(const struct xrc_forward_msg *msg, uint8_t bytes[XRC_FORWARD_BYTES_MAX])
{
	struct xrc_forward_frame frame;
	uint32_t len = 0;

	xrc_forward_encode(msg, &frame);
	for (int i = 0; i < frame.count; i++) {
		memcpy(bytes + len, frame.pieces[i].iov_base, frame.pieces[i].iov_len);
		len += (uint32_t)frame.pieces[i].iov_len;
	}
	return len;
}

static bool is_from_target(enum xrc_forward_type type)
{
	return type <= XRC_FORWARD_DETACH || type >= XRC_REMOTE_RESULT;
}

/* Decodes exactly len bytes, so that AddressSanitizer reports any access beyond them. */
static int decode_as(struct xrc_forward_msg *msg, const uint8_t *bytes, uint32_t len, uint32_t from,
		     uint32_t to)
{
	static uint8_t *copy;
	int ret;

	free(copy);
	copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	ret = xrc_forward_decode(msg, copy, len, from, to);
	/* The payload of a decoded packet refers to the copy, which exists until the next call. */
	return ret;
}

static int decode(struct xrc_forward_msg *msg, enum xrc_forward_type type, const uint8_t *bytes,
		  uint32_t len)
{
	return is_from_target(type) ? decode_as(msg, bytes, len, TARGET, OTHER) :
				      decode_as(msg, bytes, len, OTHER, TARGET);
}

static int decode_msg(const struct xrc_forward_msg *msg)
{
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	struct xrc_forward_msg decoded;

	return decode(&decoded, msg->type, bytes, encode(msg, bytes));
}

static void xrc_forward_msg_decode_returns_what_was_encoded(void **state)
{
	(void)state;
	for (int type = XRC_FORWARD_ATTACH; type < XRC_FORWARD_TYPE_COUNT; type++) {
		struct xrc_forward_msg msg = valid_msg((enum xrc_forward_type)type), decoded;
		uint8_t bytes[XRC_FORWARD_BYTES_MAX], again[XRC_FORWARD_BYTES_MAX];
		uint32_t len = encode(&msg, bytes);

		assert_int_equal(decode(&decoded, msg.type, bytes, len), 0);
		assert_int_equal(decoded.type, type);
		assert_int_equal(decoded.qpn, TARGET_QPN);
		assert_int_equal(encode(&decoded, again), len);
		assert_memory_equal(again, bytes, len);
		assert_string_not_equal(xrc_forward_type_name(msg.type), "?");
	}
	assert_string_equal(xrc_forward_type_name(XRC_FORWARD_TYPE_COUNT), "?");
}

static void xrc_forward_msg_decode_rejects_other_lengths(void **state)
{
	(void)state;
	for (int type = XRC_FORWARD_ATTACH; type < XRC_FORWARD_TYPE_COUNT; type++) {
		struct xrc_forward_msg msg = valid_msg((enum xrc_forward_type)type), decoded;
		uint8_t bytes[XRC_FORWARD_BYTES_MAX + 1] = {0};
		uint32_t len = encode(&msg, bytes);
		bool has_packet = type == XRC_FORWARD_REQUEST || type == XRC_FORWARD_REPLAY;
		/* A shorter packet is a packet with a shorter payload. */
		uint32_t end = has_packet ? len - (uint32_t)sizeof(payload) : len;

		for (uint32_t shorter = 0; shorter < end; shorter++)
			assert_int_equal(decode(&decoded, msg.type, bytes, shorter), -EBADMSG);
		if (!has_packet)
			assert_int_equal(decode(&decoded, msg.type, bytes, len + 1), -EBADMSG);
	}
}

static void xrc_forward_msg_decode_rejects_wrong_direction(void **state)
{
	(void)state;
	for (int type = XRC_FORWARD_ATTACH; type < XRC_FORWARD_TYPE_COUNT; type++) {
		struct xrc_forward_msg msg = valid_msg((enum xrc_forward_type)type), decoded;
		uint8_t bytes[XRC_FORWARD_BYTES_MAX];
		uint32_t len = encode(&msg, bytes);
		bool is_target = is_from_target(msg.type);

		assert_int_equal(decode_as(&decoded, bytes, len, is_target ? OTHER : TARGET,
					   is_target ? TARGET : OTHER),
				 -EBADMSG);
	}
}

static void xrc_forward_msg_decode_rejects_unknown_types_and_qpns(void **state)
{
	struct xrc_forward_msg msg = valid_msg(XRC_FORWARD_DETACH), decoded;
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	uint32_t len = encode(&msg, bytes), type;

	(void)state;
	type = 0;
	memcpy(bytes, &type, sizeof(type));
	assert_int_equal(decode_as(&decoded, bytes, len, TARGET, OTHER), -EBADMSG);
	type = XRC_FORWARD_TYPE_COUNT;
	memcpy(bytes, &type, sizeof(type));
	assert_int_equal(decode_as(&decoded, bytes, len, TARGET, OTHER), -EBADMSG);
	msg.qpn |= 1u << 24;
	assert_int_equal(decode_msg(&msg), -EBADMSG);
}

#define REJECTS(type, change)                                 \
	do {                                                  \
		struct xrc_forward_msg msg = valid_msg(type); \
		assert_int_equal(decode_msg(&msg), 0);        \
		change;                                       \
		assert_int_equal(decode_msg(&msg), -EBADMSG); \
	} while (0)

static void xrc_forward_msg_decode_rejects_values_out_of_range(void **state)
{
	(void)state;
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.domain_id = 0);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.remote_qpn = 1u << 24);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.path_mtu = 0);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.path_mtu = IBV_MTU_4096 + 1);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.max_dest_rd_atomic = MAX_RD_ATOMIC + 1);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.min_rnr_timer = 32);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.flow_label = 1u << 20);
	REJECTS(XRC_FORWARD_ATTACH, msg.attach.reserved[1] = 1);
	REJECTS(XRC_FORWARD_REQUEST, msg.request.msn = 1u << 24);
	REJECTS(XRC_FORWARD_REQUEST, msg.request.reserved = 1);
	REJECTS(XRC_FORWARD_REPORT, msg.report.psn = 1u << 24);
	REJECTS(XRC_FORWARD_REPORT, msg.report.msn = 1u << 24);
	REJECTS(XRC_FORWARD_REPORT, msg.report.is_inside = 2);
	REJECTS(XRC_FORWARD_REPORT, msg.report.reserved[2] = 1);
	REJECTS(XRC_REMOTE_OPEN, msg.open.domain_id = 0);
	REJECTS(XRC_REMOTE_OPEN, msg.open.reserved = 1);
	REJECTS(XRC_REMOTE_RESULT, msg.result.error = INT16_MAX + 1);
	REJECTS(XRC_REMOTE_EVENT, msg.event.event = IBV_EVENT_DEVICE_FATAL);
	REJECTS(XRC_REMOTE_EVENT, msg.event.event = UINT32_MAX);
}

/* Only requests of the XRC transport service are forwarded. */
static void xrc_forward_msg_decode_rejects_other_packets_than_xrc_requests(void **state)
{
	(void)state;
	REJECTS(XRC_FORWARD_REQUEST, msg.request.packet.opcode = OPCODE(RC, SEND_ONLY));
	REJECTS(XRC_FORWARD_REPLAY, msg.request.packet.opcode = OPCODE(RC, SEND_ONLY));
	REJECTS(XRC_FORWARD_REQUEST, (msg.request.packet.opcode = OPCODE(XRC, ACK),
				      msg.request.packet.payload_bytes = 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_forward_msg_decode_returns_what_was_encoded),
		cmocka_unit_test(xrc_forward_msg_decode_rejects_other_lengths),
		cmocka_unit_test(xrc_forward_msg_decode_rejects_wrong_direction),
		cmocka_unit_test(xrc_forward_msg_decode_rejects_unknown_types_and_qpns),
		cmocka_unit_test(xrc_forward_msg_decode_rejects_values_out_of_range),
		cmocka_unit_test(xrc_forward_msg_decode_rejects_other_packets_than_xrc_requests),
	};

	return cmocka_run_group_tests_name("core-xrc_forward_msg", tests, NULL, NULL);
}
