/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/train.h"
#include "wire/icrc.h"

static const struct link_path path_a, path_b;

static struct link_tx packet(const struct link_path *path, uint16_t payload_bytes,
			     int payload_count)
{
	return (struct link_tx){.path = path,
				.hdr_bytes = 12,
				.payload_bytes = payload_bytes,
				.payload_count = payload_count,
				.trailer_bytes = ICRC_BYTES};
}

static void equal_packets_make_a_train(void **state)
{
	struct link_tx tx[4] = {packet(&path_a, 1024, 1), packet(&path_a, 1024, 1),
				packet(&path_a, 1024, 1), packet(&path_a, 1024, 1)};

	(void)state;
	assert_int_equal(train_length(tx, 4), 4);
	assert_int_equal(train_length(tx, 1), 1);
}

static void a_shorter_packet_is_the_last(void **state)
{
	struct link_tx tx[4] = {packet(&path_a, 1024, 1), packet(&path_a, 1024, 1),
				packet(&path_a, 8, 1), packet(&path_a, 8, 1)};

	(void)state;
	assert_int_equal(train_length(tx, 4), 3);
	assert_int_equal(train_length(tx + 2, 2), 2);
}

static void a_longer_packet_starts_another(void **state)
{
	struct link_tx tx[2] = {packet(&path_a, 8, 1), packet(&path_a, 1024, 1)};

	(void)state;
	assert_int_equal(train_length(tx, 2), 1);
}

static void another_path_starts_another(void **state)
{
	struct link_tx tx[2] = {packet(&path_a, 8, 1), packet(&path_b, 8, 1)};

	(void)state;
	assert_int_equal(train_length(tx, 2), 1);
}

static void bounds_hold(void **state)
{
	struct link_tx tx[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		tx[i] = packet(&path_a, 4096, 1);
	assert_int_equal(train_length(tx, 100), TRAIN_BYTES_MAX / train_packet_bytes(&tx[0]));
	for (int i = 0; i < 100; i++)
		tx[i] = packet(&path_a, 0, 0);
	assert_int_equal(train_length(tx, 100), TRAIN_PACKETS_MAX);
	/* In many pieces it goes by itself, wherever it stands. */
	tx[0].payload_count = TRAIN_IOVS_A_PACKET;
	assert_int_equal(train_length(tx, 100), 1);
	tx[0].payload_count = 1;
	tx[3].payload_count = TRAIN_IOVS_A_PACKET;
	assert_int_equal(train_length(tx, 100), 3);
}

/* What patching gives is what computing it anew would have given, for every place and many lengths. */
static void patched_is_computed(void **state)
{
	static const uint8_t gids[2][GID_BYTES] = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
						   {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}};
	struct train_deltas deltas = {0};
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

		for (uint16_t id = 0; id < TRAIN_PACKETS_MAX; id++) {
			uint8_t trailer[LINK_TRAILER_MAX];

			icrc_store(trailer, icrc_compute(&flow, 0, &piece, 1));
			train_patch(&deltas, &tx, id, trailer);
			assert_int_equal(icrc_load(trailer), icrc_compute(&flow, id, &piece, 1));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_packets_make_a_train),
		cmocka_unit_test(a_shorter_packet_is_the_last),
		cmocka_unit_test(a_longer_packet_starts_another),
		cmocka_unit_test(another_path_starts_another),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(patched_is_computed),
	};

	return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
