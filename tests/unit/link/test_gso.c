/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/gso.h"
#include "wire/icrc.h"

static const struct link_path path_a = {.src_port = 0xc001, .traffic_class = 2};
static const struct link_path path_b = {.src_port = 0xc001, .traffic_class = 2, .local_qpn = 5};

static struct link_tx packet(const struct link_path *path, uint16_t payload_bytes,
			     int payload_count)
{
	return (struct link_tx){.path = path,
				.hdr_bytes = 12,
				.payload_bytes = payload_bytes,
				.payload_count = payload_count,
				.trailer_bytes = ICRC_BYTES};
}

static void gso_length_equal_packets_form_one_train(void **state)
{
	struct link_tx tx[4] = {packet(&path_a, 1024, 1), packet(&path_a, 1024, 1),
				packet(&path_a, 1024, 1), packet(&path_a, 1024, 1)};

	(void)state;
	assert_int_equal(gso_length(tx, 4), 4);
	assert_int_equal(gso_length(tx, 1), 1);
}

static void gso_length_shorter_packet_ends_train(void **state)
{
	struct link_tx tx[4] = {packet(&path_a, 1024, 1), packet(&path_a, 1024, 1),
				packet(&path_a, 8, 1), packet(&path_a, 8, 1)};

	(void)state;
	assert_int_equal(gso_length(tx, 4), 3);
	assert_int_equal(gso_length(tx + 2, 2), 2);
}

static void gso_length_longer_packet_starts_new_train(void **state)
{
	struct link_tx tx[2] = {packet(&path_a, 8, 1), packet(&path_a, 1024, 1)};

	(void)state;
	assert_int_equal(gso_length(tx, 2), 1);
}

static void gso_length_other_flow_starts_new_train(void **state)
{
	struct link_path other[] = {path_b, path_b, path_b, path_b, path_b, path_b, path_b};
	struct link_tx tx[2] = {packet(&path_a, 8, 1)};

	(void)state;
	other[0].src_port++;
	other[1].ifindex++;
	other[2].flow_label++;
	other[3].traffic_class++;
	other[4].hop_limit++;
	other[5].remote_gid[0]++;
	other[6].local_gid[15]++;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		tx[1] = packet(&other[i], 8, 1);
		assert_int_equal(gso_length(tx, 2), 1);
	}
}

static void gso_length_queue_pairs_of_one_flow_share_train(void **state)
{
	struct link_tx tx[2] = {packet(&path_a, 8, 1), packet(&path_b, 8, 1)};

	(void)state;
	assert_int_equal(gso_length(tx, 2), 2);
}

static void gso_length_train_is_limited(void **state)
{
	struct link_tx tx[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		tx[i] = packet(&path_a, 4096, 1);
	assert_int_equal(gso_length(tx, 100), GSO_BYTES_MAX / gso_packet_bytes(&tx[0]));
	for (int i = 0; i < 100; i++)
		tx[i] = packet(&path_a, 0, 0);
	assert_int_equal(gso_length(tx, 100), GSO_PACKETS_MAX);
	/* A packet with many pieces is sent alone, at any position. */
	tx[0].payload_count = GSO_IOVS_A_PACKET;
	assert_int_equal(gso_length(tx, 100), 1);
	tx[0].payload_count = 1;
	tx[3].payload_count = GSO_IOVS_A_PACKET;
	assert_int_equal(gso_length(tx, 100), 3);
}

/* The corrected ICRC equals a newly computed one, for every position and many lengths. */
static void gso_icrc_corrected_value_equals_computed(void **state)
{
	static const uint8_t gids[2][GID_BYTES] = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
						   {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
	struct gso_deltas deltas = {0};
	struct icrc_flow flow;
	uint8_t bytes[PACKET_MAX];

	(void)state;
	icrc_flow_init(&flow, gids[0], gids[1], 0xc123, PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&flow, true);
	srandom(5);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random();
	for (uint16_t payload = 0; payload <= 4096; payload = (uint16_t)(payload + 516)) {
		struct link_tx tx = packet(&path_a, payload, 1);
		struct iovec piece = {bytes, 12u + payload};

		for (uint16_t id = 0; id < GSO_PACKETS_MAX; id++) {
			uint8_t trailer[LINK_TRAILER_MAX];

			icrc_store(trailer, icrc_compute(&flow, 0, &piece, 1));
			gso_patch(&deltas, &tx, id, trailer);
			assert_int_equal(icrc_load(trailer), icrc_compute(&flow, id, &piece, 1));
		}
	}
}

static size_t gathered_bytes(const struct gso_gather *gather, uint8_t *to)
{
	size_t bytes = 0;

	for (size_t i = 0; i < gather->count; i++) {
		memcpy(to + bytes, gather->iov[i].iov_base, gather->iov[i].iov_len);
		bytes += gather->iov[i].iov_len;
	}
	return bytes;
}

static void gso_gather_joins_short_pieces(void **state)
{
	static struct gso_deltas deltas;
	static struct gso_gather gather;
	uint8_t payload[1024], wanted[2 * 1040 + 80], gathered[sizeof(wanted)];
	struct iovec whole = {payload, 1024}, end = {payload, 64};
	struct iovec split[2] = {{payload, 1000}, {payload + 1000, 24}};
	struct link_tx tx[3] = {packet(&path_a, 1024, 1), packet(&path_a, 1024, 2),
				packet(&path_a, 64, 1)};
	size_t bytes = 0;

	(void)state;
	memset(payload, 0xbb, sizeof(payload));
	tx[0].payload = &whole;
	tx[1].payload = split;
	tx[2].payload = &end;
	for (uint16_t i = 0; i < 3; i++) {
		memset(tx[i].hdr, 0xa0 + i, tx[i].hdr_bytes);
		memset(tx[i].trailer, 0xc0 + i, ICRC_BYTES);
		gso_gather_packet(&gather, &deltas, &tx[i], i);
		memcpy(wanted + bytes, tx[i].hdr, tx[i].hdr_bytes);
		memcpy(wanted + bytes + 12, payload, tx[i].payload_bytes);
		bytes += gso_packet_bytes(&tx[i]);
		memcpy(wanted + bytes - ICRC_BYTES, tx[i].trailer, ICRC_BYTES);
		if (i)
			gso_patch(&deltas, &tx[i], i, wanted + bytes - ICRC_BYTES);
	}
	/*
	 * Header; payload; trailer and header; payload; its end, trailer, header, payload and
	 * trailer.
	 */
	assert_int_equal(gather.count, 5);
	assert_int_equal(gathered_bytes(&gather, gathered), bytes);
	assert_memory_equal(gathered, wanted, bytes);
	assert_ptr_equal(gather.iov[1].iov_base, payload);
	/* Without identifications the ICRC is unchanged. */
	gather.count = gather.copied_bytes = 0;
	gso_gather_packet(&gather, NULL, &tx[2], 2);
	assert_int_equal(gather.count, 1);
	assert_memory_equal((uint8_t *)gather.iov[0].iov_base + 76, tx[2].trailer, ICRC_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gso_length_equal_packets_form_one_train),
		cmocka_unit_test(gso_length_shorter_packet_ends_train),
		cmocka_unit_test(gso_length_longer_packet_starts_new_train),
		cmocka_unit_test(gso_length_other_flow_starts_new_train),
		cmocka_unit_test(gso_length_queue_pairs_of_one_flow_share_train),
		cmocka_unit_test(gso_length_train_is_limited),
		cmocka_unit_test(gso_icrc_corrected_value_equals_computed),
		cmocka_unit_test(gso_gather_joins_short_pieces),
	};

	return cmocka_run_group_tests_name("gso", tests, NULL, NULL);
}
