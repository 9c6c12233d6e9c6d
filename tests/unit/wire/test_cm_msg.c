/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/be.h"
#include "wire/cm_msg.h"
#include "wire/print.h"

#define PAYLOAD_BITS ((MAD_BYTES - MAD_HDR_BYTES) * 8)

static uint64_t seed = 1;

static uint8_t next_byte(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (uint8_t)(seed * UINT64_C(2685821657736338717) >> 56);
}

/* A MAD of this kind with random payload. */
static void make_noise(uint8_t mad[MAD_BYTES], enum cm_msg_type type)
{
	struct mad_hdr hdr = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.tid = 0x0123456789abcdef,
		.attr_id = (uint16_t)(CM_ATTR_FIRST + (unsigned)type),
	};

	mad_build(&hdr, mad);
	for (size_t i = MAD_HDR_BYTES; i < MAD_BYTES; i++)
		mad[i] = next_byte();
}

static void cm_msg_fields_do_not_overlap(void **state)
{
	(void)state;
	for (unsigned type = 0; type < CM_MSG_COUNT; type++) {
		bool is_used[PAYLOAD_BITS] = {false};
		size_t count;
		const struct cm_field *fields = cm_msg_fields((enum cm_msg_type)type, &count);

		for (size_t i = 0; i < count; i++) {
			bool is_number = fields[i].format == CM_FORMAT_HEX ||
					 fields[i].format == CM_FORMAT_DEC;

			assert_true(fields[i].bit + fields[i].bits <= PAYLOAD_BITS);
			if (is_number)
				assert_true(fields[i].bits <= fields[i].size_bytes * 8);
			else
				assert_int_equal(fields[i].bits, fields[i].size_bytes * 8);
			for (unsigned b = 0; b < fields[i].bits; b++) {
				assert_false(is_used[fields[i].bit + b]);
				is_used[fields[i].bit + b] = true;
			}
		}
	}
}

/*
 * Building a parsed message gives the same fields, and the same bytes afterwards: only reserved
 * bits are lost.
 */
static void cm_msg_build_reverses_parse(void **state)
{
	uint8_t mad[MAD_BYTES], once[MAD_BYTES], twice[MAD_BYTES];
	struct cm_msg msg, again;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (unsigned type = 0; type < CM_MSG_COUNT; type++) {
			make_noise(mad, (enum cm_msg_type)type);
			memset(&msg, 0, sizeof(msg));
			memset(&again, 0, sizeof(again));
			assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), 0);
			assert_int_equal(msg.type, type);
			assert_true(msg.tid == 0x0123456789abcdef);
			cm_msg_build(&msg, once);
			assert_int_equal(cm_msg_parse(&again, once, MAD_BYTES), 0);
			assert_memory_equal(&again, &msg, sizeof(msg));
			cm_msg_build(&again, twice);
			assert_memory_equal(twice, once, MAD_BYTES);
		}
	}
}

static void cm_msg_build_reserved_bits_are_zero(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct cm_msg msg;

	(void)state;
	make_noise(mad, CM_MSG_REQ);
	memset(mad + MAD_HDR_BYTES, 0xff, MAD_BYTES - MAD_HDR_BYTES);
	assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), 0);
	cm_msg_build(&msg, mad);
	assert_int_equal(mad[MAD_HDR_BYTES + 4], 0);
	assert_int_equal(be_load32(mad + MAD_HDR_BYTES + 24), 0);
	assert_int_equal(mad[MAD_HDR_BYTES + 94], 0xf8);
	assert_int_equal(mad[MAD_HDR_BYTES + 95], 0xf8);
}

/*
 * The vendor ID is in three bytes, which are separate in a REP; the options are in the MAD header.
 */
static void cm_msg_build_vendor_options_are_at_their_offsets(void **state)
{
	struct cm_msg req = {.type = CM_MSG_REQ,
			     .req = {.vendor_id = 0xff0002c9, .vendor_options = 0x12345678}};
	struct cm_msg rep = {.type = CM_MSG_REP,
			     .rep = {.vendor_id_high = 0xa1,
				     .vendor_id_middle = 0xb2,
				     .vendor_id_low = 0xc3,
				     .vendor_options = 0x9abcdef0}};
	uint8_t mad[MAD_BYTES];

	(void)state;
	cm_msg_build(&req, mad);
	assert_int_equal(be_load32(mad + 20), 0x12345678);
	assert_int_equal(be_load32(mad + MAD_HDR_BYTES + 4), 0x0002c9);
	cm_msg_build(&rep, mad);
	assert_int_equal(be_load32(mad + 20), 0x9abcdef0);
	assert_int_equal(mad[MAD_HDR_BYTES + 15], 0xa1);
	assert_int_equal(mad[MAD_HDR_BYTES + 19], 0xb2);
	assert_int_equal(mad[MAD_HDR_BYTES + 23], 0xc3);
}

static void cm_msg_parse_attribute_modifier_is_ignored(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct cm_msg msg;

	(void)state;
	for (unsigned type = 0; type < CM_MSG_COUNT; type++) {
		bool is_kept = type == CM_MSG_REQ || type == CM_MSG_REP;

		make_noise(mad, (enum cm_msg_type)type);
		be_store32(mad + 20, 0x11223344);
		memset(&msg, 0, sizeof(msg));
		assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), 0);
		cm_msg_build(&msg, mad);
		assert_int_equal(be_load32(mad + 20), is_kept ? 0x11223344 : 0);
	}
}

static void cm_msg_build_value_wider_than_field_is_truncated(void **state)
{
	struct cm_msg msg = {.type = CM_MSG_REP,
			     .rep = {.local_qpn = 0xff123456, .rnr_retry_count = 0xff}};
	struct cm_msg parsed;
	uint8_t mad[MAD_BYTES];

	(void)state;
	cm_msg_build(&msg, mad);
	assert_int_equal(cm_msg_parse(&parsed, mad, MAD_BYTES), 0);
	assert_int_equal(parsed.rep.local_qpn, 0x123456);
	assert_int_equal(parsed.rep.rnr_retry_count, 7);
	assert_int_equal(parsed.rep.srq, 0);
	assert_int_equal(parsed.rep.local_eecn, 0);
}

static void refuse(size_t at, uint8_t value, enum cm_msg_fault fault)
{
	uint8_t mad[MAD_BYTES];
	struct cm_msg msg;

	make_noise(mad, CM_MSG_RTU);
	mad[at] = value;
	assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), fault);
}

static void cm_msg_parse_invalid_mad_fails(void **state)
{
	uint8_t mad[MAD_BYTES + 1] = {0};
	struct cm_msg msg;

	(void)state;
	make_noise(mad, CM_MSG_RTU);
	for (size_t len = 0; len < MAD_BYTES; len++)
		assert_int_equal(cm_msg_parse(&msg, mad, len), CM_FAULT_LENGTH);
	assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES + 1), CM_FAULT_LENGTH);
	assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), 0);
	refuse(0, 2, CM_FAULT_BASE_VERSION);
	refuse(1, 3, CM_FAULT_CLASS);
	refuse(2, 1, CM_FAULT_CLASS_VERSION);
	refuse(3, 0x81, CM_FAULT_METHOD);
	refuse(16, 0x01, CM_FAULT_ATTRIBUTE);
	refuse(17, CM_ATTR_FIRST - 1, CM_FAULT_ATTRIBUTE);
	refuse(17, CM_ATTR_FIRST + CM_MSG_COUNT, CM_FAULT_ATTRIBUTE);
}

static void cm_ip_hdr_parse_reverses_build(void **state)
{
	struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_port = htons(40000)};
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(7174)};
	struct sockaddr_in from4 = {.sin_family = AF_INET, .sin_port = htons(99)};
	struct sockaddr_storage src, dst;
	uint8_t data[CM_IP_HDR_BYTES];
	struct cm_ip_hdr hdr;

	(void)state;
	from.sin6_addr.s6_addr[15] = 1;
	to.sin6_addr.s6_addr[0] = 0xfd;
	assert_int_equal(
		cm_ip_hdr_from_addrs(&hdr, (struct sockaddr *)&from, (struct sockaddr *)&to), 0);
	cm_ip_hdr_build(&hdr, data);
	assert_int_equal(data[0], 0x00);
	assert_int_equal(data[1], 0x60);
	memset(&hdr, 0, sizeof(hdr));
	assert_int_equal(cm_ip_hdr_parse(&hdr, data), 0);
	cm_ip_hdr_addrs(&hdr, 7174, &src, &dst);
	assert_memory_equal(&src, &from, sizeof(from));
	assert_memory_equal(&dst, &to, sizeof(to));

	assert_int_equal(cm_ip_hdr_from_addrs(&hdr, (struct sockaddr *)&from4,
					      (struct sockaddr *)&from4),
			 0);
	cm_ip_hdr_build(&hdr, data);
	assert_int_equal(data[1], 0x40);
	assert_int_equal(cm_ip_hdr_parse(&hdr, data), 0);
	cm_ip_hdr_addrs(&hdr, 7174, &src, &dst);
	assert_memory_equal(&src, &from4, sizeof(from4));
	assert_int_equal(ntohs(((struct sockaddr_in *)&dst)->sin_port), 7174);
	assert_int_equal(cm_ip_hdr_from_addrs(&hdr, (struct sockaddr *)&from4,
					      (struct sockaddr *)&to),
			 -EAFNOSUPPORT);
	from4.sin_family = AF_UNIX;
	assert_int_equal(cm_ip_hdr_from_addrs(&hdr, (struct sockaddr *)&from4,
					      (struct sockaddr *)&from4),
			 -EAFNOSUPPORT);
	data[0] = 0x10;
	assert_int_equal(cm_ip_hdr_parse(&hdr, data), -EPROTO);
	data[0] = 0;
	data[1] = 0x50;
	assert_int_equal(cm_ip_hdr_parse(&hdr, data), -EPROTO);
}

static void gid_from_sockaddr_and_back_are_inverse(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a4d0003)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_storage back;
	uint8_t gid[GID_BYTES];

	(void)state;
	assert_true(gid_from_sockaddr(gid, (struct sockaddr *)&in));
	assert_true(gid_is_ipv4(gid));
	assert_int_equal(be_load32(gid + 12), 0x0a4d0003);
	gid_to_sockaddr(gid, &back);
	assert_memory_equal(&back, &in, sizeof(in));

	in6.sin6_addr.s6_addr[0] = 0xfe;
	in6.sin6_addr.s6_addr[1] = 0x80;
	in6.sin6_addr.s6_addr[15] = 9;
	assert_true(gid_from_sockaddr(gid, (struct sockaddr *)&in6));
	assert_false(gid_is_ipv4(gid));
	assert_true(gid_is_link_local(gid));
	gid_to_sockaddr(gid, &back);
	assert_memory_equal(&back, &in6, sizeof(in6));

	in6.sin6_family = AF_UNIX;
	assert_false(gid_from_sockaddr(gid, (struct sockaddr *)&in6));
	assert_true(gid_is_zero(gid));
}

static void print_mad_short_buffer_is_not_overrun(void **state)
{
	char line[PRINT_MAD_MAX + 1];
	uint8_t mad[MAD_BYTES];

	(void)state;
	for (unsigned type = 0; type < CM_MSG_COUNT; type++) {
		make_noise(mad, (enum cm_msg_type)type);
		for (size_t room = 0; room <= PRINT_MAD_MAX; room++) {
			size_t len;

			line[room] = 'x';
			len = print_mad(line, room, mad, MAD_BYTES);
			assert_int_equal(line[room], 'x');
			assert_true(room == 0 ? len == 0 : len < room && line[len] == '\0');
		}
		/* The longest message fits completely. */
		assert_true(print_mad(line, PRINT_MAD_MAX, mad, MAD_BYTES) < PRINT_MAD_MAX - 1);
	}
	print_mad(line, sizeof(line), mad, 7);
	assert_string_equal(line, "no mad, 7 bytes");
	make_noise(mad, CM_MSG_RTU);
	mad[1] = 0x81;
	print_mad(line, sizeof(line), mad, MAD_BYTES);
	assert_string_equal(line, "mad class 0x81 version 2 method 0x3 attribute 0x14 tid "
				  "0x123456789abcdef");
}

static void cm_msg_name_every_message_has_a_name(void **state)
{
	(void)state;
	for (unsigned type = 0; type < CM_MSG_COUNT; type++)
		assert_string_not_equal(cm_msg_name((enum cm_msg_type)type), "?");
	assert_string_equal(cm_msg_name(CM_MSG_COUNT), "?");
	assert_string_equal(cm_rej_reason_name(CM_REJ_STALE_CONN), "stale connection");
	assert_null(cm_rej_reason_name(2));
	assert_string_equal(cm_sidr_status_name(CM_SIDR_NO_QP), "no qp available");
	assert_null(cm_sidr_status_name(6));
	assert_null(cm_rej_reason_name(0xffff));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_msg_fields_do_not_overlap),
		cmocka_unit_test(cm_msg_build_reverses_parse),
		cmocka_unit_test(cm_msg_build_reserved_bits_are_zero),
		cmocka_unit_test(cm_msg_build_vendor_options_are_at_their_offsets),
		cmocka_unit_test(cm_msg_parse_attribute_modifier_is_ignored),
		cmocka_unit_test(cm_msg_build_value_wider_than_field_is_truncated),
		cmocka_unit_test(cm_msg_parse_invalid_mad_fails),
		cmocka_unit_test(cm_ip_hdr_parse_reverses_build),
		cmocka_unit_test(gid_from_sockaddr_and_back_are_inverse),
		cmocka_unit_test(print_mad_short_buffer_is_not_overrun),
		cmocka_unit_test(cm_msg_name_every_message_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
