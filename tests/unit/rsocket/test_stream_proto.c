/* SPDX-License-Identifier: BSD-2-Clause */

/* The bytes of the stream protocol in the format of rdma-core's rsockets, and invalid bytes. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/stream_proto.h"

static const struct proto_conn conn = {
	.is_big_endian = false,
	.has_iomap = true,
	.credits = 0x180,
	.iomap_entries = 8,
	.table = {.addr = 0x1122334455667788, .key = 0x01020304, .length = 2},
	.ring = {.addr = 0x99aabbccddeeff00, .key = 0x05060708, .length = 0x10000},
};

/* Private data of the connection: all fields big-endian, the rest zero. */
static const uint8_t conn_bytes[PROTO_CONN_BYTES] = {1,	   2,	 0x01, 0x80, 0,	   0,	 0,    8,
						     0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
						     1,	   2,	 3,    4,    0,	   0,	 0,    2,
						     0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0,
						     5,	   6,	 7,    8,    0,	   1,	 0,    0};

static void proto_conn_encode_has_wire_layout(void **state)
{
	uint8_t bytes[PROTO_CONN_BYTES];
	struct proto_conn read;

	(void)state;
	proto_conn_encode(bytes, &conn);
	assert_memory_equal(bytes, conn_bytes, sizeof(bytes));
	memset(&read, 0xff, sizeof(read));
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes), &read), 0);
	assert_false(read.is_big_endian);
	assert_true(read.has_iomap);
	assert_int_equal(read.credits, 0x180);
	assert_int_equal(read.iomap_entries, 8);
	assert_int_equal(read.table.addr, conn.table.addr);
	assert_int_equal(read.ring.length, conn.ring.length);
}

static void proto_conn_decode_invalid_data_fails(void **state)
{
	uint8_t bytes[PROTO_CONN_BYTES];
	struct proto_conn read;

	(void)state;
	memcpy(bytes, conn_bytes, sizeof(bytes));
	assert_int_equal(proto_conn_decode(NULL, 56, &read), -EPROTO);
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes) - 1, &read), -EPROTO);
	bytes[0] = 2;
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes), &read), -EPROTO);
	memcpy(bytes, conn_bytes, sizeof(bytes));
	memset(bytes + 2, 0, 2);
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes), &read), -EPROTO);
	memcpy(bytes, conn_bytes, sizeof(bytes));
	memset(bytes + 20, 0, 4);
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes), &read), -EPROTO);
}

/* A peer without iomaps has none, whatever that byte contains. */
static void proto_conn_decode_without_iomaps_has_none(void **state)
{
	uint8_t bytes[PROTO_CONN_BYTES];
	struct proto_conn read;

	(void)state;
	memcpy(bytes, conn_bytes, sizeof(bytes));
	bytes[1] = 1;
	assert_int_equal(proto_conn_decode(bytes, sizeof(bytes), &read), 0);
	assert_true(read.is_big_endian);
	assert_int_equal(read.iomap_entries, 0);
}

static void proto_iomap_round_fits_one_byte(void **state)
{
	(void)state;
	assert_int_equal(proto_iomap_round(0), 0);
	assert_int_equal(proto_iomap_round(1), 1);
	assert_int_equal(proto_iomap_round(128), 128);
	assert_int_equal(proto_iomap_round(255), 128);
	assert_int_equal(proto_iomap_round(256), 256);
	assert_int_equal(proto_iomap_round(1000), 768);
	assert_int_equal(proto_iomap_round(UINT32_MAX), 127 << 8);
	for (uint32_t entries = 0; entries < 70000; entries++) {
		uint16_t rounded = proto_iomap_round(entries);

		assert_int_equal(proto_iomap_round(rounded), rounded);
		assert_true(rounded <= entries);
	}
}

static void proto_iomap_decode_reverses_encode(void **state)
{
	const struct proto_iomap iomap = {
		.offset = 0x0102030405060708,
		.sge = {.addr = 0x1112131415161718, .key = 0x21222324, .length = 0x31323334},
	};
	uint8_t own[PROTO_IOMAP_BYTES], other[PROTO_IOMAP_BYTES];
	struct proto_iomap read;

	(void)state;
	proto_iomap_encode(own, &iomap, false);
	read = proto_iomap_decode(own);
	assert_int_equal(read.offset, iomap.offset);
	assert_int_equal(read.sge.addr, iomap.sge.addr);
	assert_int_equal(read.sge.key, iomap.sge.key);
	assert_int_equal(read.sge.length, iomap.sge.length);
	proto_iomap_encode(other, &iomap, true);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(own[i], other[7 - i]);
		assert_int_equal(own[8 + i], other[15 - i]);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(own[16 + i], other[19 - i]);
		assert_int_equal(own[20 + i], other[23 - i]);
	}
}

static void proto_imm_has_operation_and_value(void **state)
{
	(void)state;
	assert_int_equal(proto_imm(PROTO_OP_DATA, 1000), 1000);
	assert_int_equal(proto_imm(PROTO_OP_GRANT, 0x180), 0x80000180);
	assert_int_equal(proto_imm(PROTO_OP_IOMAP, 3), 0xc0000003);
	assert_int_equal(proto_imm(PROTO_OP_CONTROL, PROTO_CONTROL_SHUTDOWN), 0xe0000002);
	assert_int_equal(proto_imm_op(0xe0000002), PROTO_OP_CONTROL);
	assert_int_equal(proto_imm_value(0xe0000002), PROTO_CONTROL_SHUTDOWN);
	assert_int_equal(proto_imm_value(UINT32_MAX), PROTO_IMM_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proto_conn_encode_has_wire_layout),
		cmocka_unit_test(proto_conn_decode_invalid_data_fails),
		cmocka_unit_test(proto_conn_decode_without_iomaps_has_none),
		cmocka_unit_test(proto_iomap_round_fits_one_byte),
		cmocka_unit_test(proto_iomap_decode_reverses_encode),
		cmocka_unit_test(proto_imm_has_operation_and_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
