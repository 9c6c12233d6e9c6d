/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building and parsing are inverse, for every opcode with random fields. Every reason to drop a
 * datagram is tested at the first byte where it applies and the last where it does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/icrc.h"
#include "wire/packet.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

static uint32_t random_24(void)
{
	return (uint32_t)next_random() & 0xffffff;
}

static bool random_bool(void)
{
	return next_random() >> 40 & 1;
}

/* Random values in the opcode's fields, zero in others, as parsing sets them. */
static struct packet random_packet(const struct opcode_info *info, uint8_t opcode)
{
	struct packet p = {.info = info, .opcode = opcode};

	p.is_solicited = random_bool();
	p.is_migrated = random_bool();
	p.is_fecn = random_bool();
	p.is_becn = random_bool();
	p.wants_ack = random_bool();
	p.is_ahead = random_bool();
	p.takes_ahead = random_bool();
	p.pkey = (uint16_t)next_random();
	p.dest_qpn = random_24();
	p.psn = random_24();
	p.qkey = info->has_deth ? (uint32_t)next_random() : 0;
	p.src_qpn = info->has_deth ? random_24() : 0;
	p.xrc_srqn = info->has_xrceth ? random_24() : 0;
	p.va = info->has_reth || info->has_atomic_eth ? next_random() : 0;
	p.rkey = info->has_reth || info->has_atomic_eth ? (uint32_t)next_random() : 0;
	p.flush_types = info->has_feth ? next_random() % 16 : 0;
	p.flush_level = info->has_feth ? next_random() % 4 : 0;
	p.dma_length_bytes = info->has_reth ? (uint32_t)next_random() : 0;
	p.swap_or_add = info->has_atomic_eth ? next_random() : 0;
	p.compare = info->has_atomic_eth ? next_random() : 0;
	p.syndrome = info->has_aeth ? (uint8_t)next_random() : 0;
	p.msn = info->has_aeth ? random_24() : 0;
	p.atomic_original = info->has_atomic_ack_eth ? next_random() : 0;
	p.imm_be = info->has_imm ? (uint32_t)next_random() : 0;
	p.inv_rkey = info->has_ieth ? (uint32_t)next_random() : 0;
	p.payload_bytes = info->may_have_payload ? next_random() % (PACKET_PAYLOAD_MAX + 1) : 0;
	return p;
}

static void assert_same(const struct packet *a, const struct packet *b)
{
	assert_ptr_equal(a->info, b->info);
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->is_solicited, b->is_solicited);
	assert_int_equal(a->is_migrated, b->is_migrated);
	assert_int_equal(a->is_fecn, b->is_fecn);
	assert_int_equal(a->is_becn, b->is_becn);
	assert_int_equal(a->wants_ack, b->wants_ack);
	assert_int_equal(a->is_ahead, b->is_ahead);
	assert_int_equal(a->takes_ahead, b->takes_ahead);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->src_qpn, b->src_qpn);
	assert_int_equal(a->xrc_srqn, b->xrc_srqn);
	assert_int_equal(a->va, b->va);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->flush_types, b->flush_types);
	assert_int_equal(a->flush_level, b->flush_level);
	assert_int_equal(a->dma_length_bytes, b->dma_length_bytes);
	assert_int_equal(a->swap_or_add, b->swap_or_add);
	assert_int_equal(a->compare, b->compare);
	assert_int_equal(a->syndrome, b->syndrome);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->atomic_original, b->atomic_original);
	assert_int_equal(a->imm_be, b->imm_be);
	assert_int_equal(a->inv_rkey, b->inv_rkey);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
}

/* Allocated with exactly the packet's size, so that a sanitizer detects an access outside it. */
static uint8_t *build(const struct packet *packet, const uint8_t *payload, uint32_t icrc,
		      size_t *len)
{
	uint8_t *bytes, *at;

	*len = packet_bytes(packet);
	bytes = malloc(*len);
	assert_non_null(bytes);
	at = bytes + packet_build_headers(packet, bytes);
	memcpy(at, payload, packet->payload_bytes);
	at += packet->payload_bytes;
	at += packet_build_trailer(packet->payload_bytes, icrc, at);
	assert_ptr_equal(at, bytes + *len);
	return bytes;
}

static void packet_parse_reverses_build(void **state)
{
	static uint8_t payload[PACKET_PAYLOAD_MAX];

	(void)state;
	random_state = 0x5eed;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)next_random();
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);

		for (int round = 0; info && round < 200; round++) {
			struct packet sent = random_packet(info, (uint8_t)opcode), read;
			uint32_t icrc = (uint32_t)next_random();
			size_t len;
			uint8_t *bytes = build(&sent, payload, icrc, &len);

			assert_int_equal(packet_parse(&read, bytes, len), PACKET_OK);
			assert_same(&read, &sent);
			assert_memory_equal(read.payload, payload, sent.payload_bytes);
			assert_int_equal(icrc_load(bytes + len - ICRC_BYTES), icrc);
			assert_int_equal(len % 4, 0);
			free(bytes);
		}
	}
}

static void packet_hdr_bytes_maximum_holds(void **state)
{
	size_t most = 0;

	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);

		if (info && packet_hdr_bytes(info) > most)
			most = packet_hdr_bytes(info);
		if (info)
			assert_int_equal(packet_hdr_bytes(info) % 4, 0);
	}
	assert_int_equal(most, PACKET_HDR_MAX);
}

/* Each row has its headers at the specified offsets: byte by byte, one packet of each. */
static void packet_build_headers_every_opcode_has_its_layout(void **state)
{
	static const uint8_t want[] = {
		0xab, 0xe0, 0x12, 0x34,				/* opcode; se, m, pad 2; pkey */
		0xc0, 0xaa, 0xbb, 0xcc,				/* fecn, becn; qpn */
		0xc0, 0x01, 0x02, 0x03,				/* ack, ahead; psn */
		0x00, 0xd1, 0xd2, 0xd3,				/* srqn */
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* va */
		0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, /* rkey, length */
		0x41, 0x42, 0x43, 0x44,				/* imm */
	};
	struct packet p = {
		.opcode = OPCODE(XRC, WRITE_ONLY_IMM),
		.is_solicited = true,
		.is_migrated = true,
		.is_fecn = true,
		.is_becn = true,
		.wants_ack = true,
		.is_ahead = true,
		.pkey = 0x1234,
		.dest_qpn = 0xffaabbcc,
		.psn = 0xff010203,
		.xrc_srqn = 0xffd1d2d3,
		.va = 0x1112131415161718,
		.rkey = 0x21222324,
		.dma_length_bytes = 0x31323334,
		.payload_bytes = 6,
	};
	uint8_t got[PACKET_HDR_MAX];

	(void)state;
	memcpy(&p.imm_be, "\x41\x42\x43\x44", 4);
	assert_int_equal(packet_build_headers(&p, got), sizeof(want));
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(packet_bytes(&p), sizeof(want) + 6 + 2 + 4);
}

/* FETH precedes RETH; reserved bits are sent as zero and ignored. */
static void packet_build_headers_feth_precedes_reth(void **state)
{
	struct packet packet = {.opcode = OPCODE(RC, FLUSH),
				.flush_types = 0x3,
				.flush_level = 0x1,
				.va = 0x0102030405060708,
				.rkey = 0x090a0b0c,
				.dma_length_bytes = 0x0d0e0f10};
	static const uint8_t want[] = {0, 0, 0, 0x13, 1,  2,  3,  4,  5,  6,
				       7, 8, 9, 10,   11, 12, 13, 14, 15, 16};
	uint8_t bytes[BTH_BYTES + sizeof(want) + ICRC_BYTES] = {0};
	struct packet again;

	(void)state;
	assert_int_equal(packet_build_headers(&packet, bytes), BTH_BYTES + sizeof(want));
	assert_memory_equal(bytes + BTH_BYTES, want, sizeof(want));
	memset(bytes + BTH_BYTES, 0xff, 3);
	bytes[BTH_BYTES + 3] |= 0xc0;
	assert_int_equal(packet_parse(&again, bytes, sizeof(bytes)), PACKET_OK);
	assert_int_equal(again.flush_types, 3);
	assert_int_equal(again.flush_level, 1);
	assert_int_equal(again.va, packet.va);
}

static void packet_build_trailer_has_pad_and_icrc(void **state)
{
	uint8_t got[PACKET_TRAILER_MAX];

	(void)state;
	for (size_t payload_bytes = 0; payload_bytes <= 8; payload_bytes++) {
		size_t pad = packet_pad_bytes(payload_bytes);

		assert_int_equal((payload_bytes + pad) % 4, 0);
		assert_in_range(pad, 0, 3);
		memset(got, 0xee, sizeof(got));
		assert_int_equal(packet_build_trailer(payload_bytes, 0x04030201, got), pad + 4);
		for (size_t i = 0; i < pad; i++)
			assert_int_equal(got[i], 0);
		assert_memory_equal(got + pad, "\1\2\3\4", 4);
	}
}

/* Parses a copy of the first `len` bytes. */
static enum packet_reason parse_cut(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	enum packet_reason reason;
	struct packet packet;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	reason = packet_parse(&packet, copy, len);
	free(copy);
	return reason;
}

static void packet_parse_truncated_packet_fails_with_reason(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);
		uint8_t bytes[PACKET_HDR_MAX + ICRC_BYTES] = {(uint8_t)opcode};
		size_t whole;

		if (!info)
			continue;
		whole = packet_hdr_bytes(info) + ICRC_BYTES;
		for (size_t len = 0; len < PACKET_MIN; len++)
			assert_int_equal(parse_cut(bytes, len), PACKET_SHORT);
		for (size_t len = PACKET_MIN; len < whole; len++)
			assert_int_equal(parse_cut(bytes, len), PACKET_TRUNCATED);
		assert_int_equal(parse_cut(bytes, whole), PACKET_OK);
	}
}

static void packet_parse_unknown_opcode_or_version_fails(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		uint8_t bytes[PACKET_HDR_MAX + ICRC_BYTES] = {(uint8_t)opcode};

		if (!opcode_info((uint8_t)opcode))
			assert_int_equal(parse_cut(bytes, sizeof(bytes)), PACKET_OPCODE);
		for (unsigned version = 1; version < 16; version++) {
			bytes[1] = (uint8_t)version;
			assert_int_equal(parse_cut(bytes, sizeof(bytes)), PACKET_VERSION);
		}
	}
}

static void packet_parse_wrong_pad_count_fails(void **state)
{
	uint8_t bytes[BTH_BYTES + 8 + ICRC_BYTES] = {OPCODE(RC, SEND_ONLY)};
	struct packet packet;

	(void)state;
	for (size_t rest = 0; rest <= 8; rest++) {
		for (unsigned pad = 0; pad < 4; pad++) {
			enum packet_reason want = rest % 4 || pad > rest ? PACKET_PAD : PACKET_OK;

			bytes[1] = (uint8_t)(pad << 4);
			assert_int_equal(parse_cut(bytes, BTH_BYTES + rest + ICRC_BYTES), want);
			if (want == PACKET_OK) {
				assert_int_equal(packet_parse(&packet, bytes,
							      BTH_BYTES + rest + ICRC_BYTES),
						 PACKET_OK);
				assert_int_equal(packet.payload_bytes, rest - pad);
			}
		}
	}
}

static void packet_parse_unexpected_payload_fails(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct opcode_info *info = opcode_info((uint8_t)opcode);
		uint8_t bytes[PACKET_HDR_MAX + 4 + ICRC_BYTES] = {(uint8_t)opcode};

		if (!info)
			continue;
		assert_int_equal(parse_cut(bytes, packet_hdr_bytes(info) + 4 + ICRC_BYTES),
				 info->may_have_payload ? PACKET_OK : PACKET_PAYLOAD);
	}
}

static void packet_parse_payload_above_4096_fails(void **state)
{
	static uint8_t bytes[BTH_BYTES + PACKET_PAYLOAD_MAX + 4 + ICRC_BYTES];

	(void)state;
	bytes[0] = OPCODE(RC, SEND_ONLY);
	assert_int_equal(parse_cut(bytes, sizeof(bytes) - 4), PACKET_OK);
	assert_int_equal(parse_cut(bytes, sizeof(bytes)), PACKET_LONG);
	/* The last 3 bytes are pad, which leaves 4097. */
	bytes[1] = 3 << 4;
	assert_int_equal(parse_cut(bytes, sizeof(bytes)), PACKET_LONG);
}

static bool fits(unsigned opcode, size_t payload_bytes, size_t mtu_bytes)
{
	struct packet packet = {.info = opcode_info((uint8_t)opcode),
				.opcode = (uint8_t)opcode,
				.payload_bytes = payload_bytes};

	return packet_fits_mtu(&packet, mtu_bytes);
}

static void packet_fits_length_depends_on_position(void **state)
{
	static const size_t mtus[] = {256, 512, 1024, 2048, 4096};

	(void)state;
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		size_t mtu = mtus[i];

		assert_true(fits(OPCODE(RC, SEND_FIRST), mtu, mtu));
		assert_false(fits(OPCODE(RC, SEND_FIRST), mtu - 1, mtu));
		assert_false(fits(OPCODE(UC, WRITE_MIDDLE), mtu + 1, mtu));
		assert_false(fits(OPCODE(RC, READ_RESPONSE_MIDDLE), 0, mtu));
		assert_true(fits(OPCODE(RC, SEND_LAST), 1, mtu));
		assert_true(fits(OPCODE(RC, WRITE_LAST_IMM), mtu, mtu));
		assert_false(fits(OPCODE(RC, SEND_LAST), 0, mtu));
		assert_false(fits(OPCODE(RC, READ_RESPONSE_LAST), mtu + 1, mtu));
		assert_true(fits(OPCODE(RC, SEND_ONLY), 0, mtu));
		assert_true(fits(OPCODE(UD, SEND_ONLY), mtu, mtu));
		assert_false(fits(OPCODE(RC, WRITE_ONLY), mtu + 1, mtu));
		assert_true(fits(OPCODE(RC, ACK), 0, mtu));
	}
}

static void packet_reason_name_every_reason_has_unique_name(void **state)
{
	(void)state;
	for (unsigned a = 0; a < PACKET_REASON_COUNT; a++) {
		for (unsigned b = 0; b < a; b++)
			assert_string_not_equal(packet_reason_name(a), packet_reason_name(b));
	}
	assert_string_equal(packet_reason_name(PACKET_REASON_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_parse_reverses_build),
		cmocka_unit_test(packet_hdr_bytes_maximum_holds),
		cmocka_unit_test(packet_build_headers_every_opcode_has_its_layout),
		cmocka_unit_test(packet_build_headers_feth_precedes_reth),
		cmocka_unit_test(packet_build_trailer_has_pad_and_icrc),
		cmocka_unit_test(packet_parse_truncated_packet_fails_with_reason),
		cmocka_unit_test(packet_parse_unknown_opcode_or_version_fails),
		cmocka_unit_test(packet_parse_wrong_pad_count_fails),
		cmocka_unit_test(packet_parse_unexpected_payload_fails),
		cmocka_unit_test(packet_parse_payload_above_4096_fails),
		cmocka_unit_test(packet_fits_length_depends_on_position),
		cmocka_unit_test(packet_reason_name_every_reason_has_unique_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
