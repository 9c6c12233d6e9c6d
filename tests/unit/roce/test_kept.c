/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "peer.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/* The responder and packets that come ahead of a gap. */

#define PSN(n)		psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME	0x1f
#define NAK_SEQUENCE	0x60
#define RNR_NAK		(0x20 | 14)
#define KEPT_BYTES_MOST ((size_t)16 << 20)

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC,
		  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	struct peer *peer = *state;

	peer_close(peer);
	return 0;
}

static size_t kept_bytes(const struct peer *peer)
{
	return peer->node->engine.roce->kept_bytes;
}

/* WRITEs its own number to the place that has it. */
static void send_write(struct peer *peer, uint32_t n)
{
	uint8_t byte = (uint8_t)(n + 1);
	struct packet packet = {.opcode = OPCODE(RC, WRITE_ONLY),
				.psn = PSN(n),
				.wants_ack = true,
				.va = (uintptr_t)peer->node->buf + n,
				.rkey = peer->node->mr->rkey,
				.dma_length_bytes = 1};

	peer_send(peer, packet, &byte, 1);
}

static void expect_aeth(struct peer *peer, uint32_t n, uint8_t syndrome, uint32_t msn)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ACK));
	assert_int_equal(packet.psn, PSN(n));
	assert_int_equal(packet.syndrome, syndrome);
	assert_int_equal(packet.msn, msn);
}

static void expect_nothing(struct peer *peer)
{
	struct packet packet;

	peer_settle(peer);
	assert_false(peer_next(peer, &packet));
}

static void has_its_turn_when_the_gap_is_filled(void **state)
{
	struct peer *peer = *state;

	for (uint32_t n = 1; n < 5; n++)
		send_write(peer, n);
	send_write(peer, 3);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	expect_nothing(peer);
	/* Nothing of it was done, and nobody was told more. */
	assert_int_equal(peer->node->buf[1], 0);
	assert_true(kept_bytes(peer) > 0);
	send_write(peer, 0);
	expect_aeth(peer, 4, ACK_SYNDROME, 5);
	for (uint32_t n = 0; n < 5; n++)
		assert_int_equal(peer->node->buf[n], n + 1);
	assert_int_equal(kept_bytes(peer), 0);
	assert_int_equal(peer_counter(peer, ROCE_KEPT), 4);
	/* The requester that sends all of it again has duplicates acknowledged. */
	send_write(peer, 1);
	expect_aeth(peer, 4, ACK_SYNDROME, 5);
	assert_int_equal(peer_counter(peer, ROCE_DUPLICATES), 1);
}

static void the_next_gap_is_told_at_once(void **state)
{
	struct peer *peer = *state;

	send_write(peer, 1);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	send_write(peer, 3);
	send_write(peer, 5);
	expect_nothing(peer);
	send_write(peer, 0);
	expect_aeth(peer, 2, NAK_SEQUENCE, 2);
	send_write(peer, 2);
	expect_aeth(peer, 4, NAK_SEQUENCE, 4);
	expect_nothing(peer);
	send_write(peer, 4);
	expect_aeth(peer, 5, ACK_SYNDROME, 6);
}

static void messages_of_many_packets_are_put_together(void **state)
{
	static const uint8_t opcodes[] = {OPCODE(RC, SEND_FIRST), OPCODE(RC, SEND_MIDDLE),
					  OPCODE(RC, SEND_LAST)};
	struct peer *peer = *state;
	uint8_t bytes[PEER_MTU];
	struct ibv_wc wc;

	peer_post_recv(peer, 3, 3 * PEER_MTU);
	for (uint32_t n = 3; n-- > 0;) {
		struct packet packet = {.opcode = opcodes[n], .psn = PSN(n), .wants_ack = n == 2};

		memset(bytes, (int)n + 7, sizeof(bytes));
		peer_send(peer, packet, bytes, sizeof(bytes));
	}
	/* What the first of them to come led to is overtaken by what the last did. */
	expect_aeth(peer, 2, ACK_SYNDROME, 1);
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.byte_len, 3 * PEER_MTU);
	for (uint32_t i = 0; i < 3 * PEER_MTU; i++)
		assert_int_equal(peer->node->buf[i], i / PEER_MTU + 7);
}

static void a_read_takes_the_psns_of_its_responses(void **state)
{
	struct peer *peer = *state;
	struct packet read = {.opcode = OPCODE(RC, READ_REQUEST),
			      .psn = PSN(1),
			      .wants_ack = true,
			      .va = (uintptr_t)peer->node->buf,
			      .rkey = peer->node->mr->rkey,
			      .dma_length_bytes = 3 * PEER_MTU};
	struct packet packet;

	peer_send(peer, read, NULL, 0);
	/* One that has no business there, and one that has. */
	send_write(peer, 2);
	send_write(peer, 4);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	send_write(peer, 0);
	peer_settle(peer);
	for (uint32_t n = 1; n < 4; n++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.psn, PSN(n));
	}
	expect_aeth(peer, 4, ACK_SYNDROME, 3);
	assert_int_equal(peer->node->buf[2], 0);
	assert_int_equal(peer->node->buf[4], 5);
	expect_nothing(peer);
}

static void not_behind_one_that_was_turned_away(void **state)
{
	struct peer *peer = *state;
	struct packet send = {.opcode = OPCODE(RC, SEND_ONLY), .psn = PSN(1), .wants_ack = true};
	uint8_t byte = 9;

	/* Kept, and turned away when its turn comes: what was kept behind it is so no more. */
	peer_send(peer, send, &byte, 1);
	send_write(peer, 2);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	send_write(peer, 0);
	expect_aeth(peer, 1, RNR_NAK, 1);
	assert_int_equal(kept_bytes(peer), 0);
	send_write(peer, 3);
	expect_nothing(peer);
	assert_int_equal(kept_bytes(peer), 0);
	peer_post_recv(peer, 1, 1);
	peer_send(peer, send, &byte, 1);
	expect_aeth(peer, 1, ACK_SYNDROME, 2);
	assert_int_equal(peer->node->buf[2], 0);
}

static void one_that_is_wrong_ends_the_qp_in_its_turn(void **state)
{
	struct peer *peer = *state;
	struct packet middle = {.opcode = OPCODE(RC, WRITE_MIDDLE), .psn = PSN(1)};
	uint8_t bytes[PEER_MTU] = {0};

	peer_send(peer, middle, bytes, sizeof(bytes));
	send_write(peer, 2);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
	send_write(peer, 0);
	expect_aeth(peer, 1, 0x61, 1);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	assert_int_equal(peer->node->buf[2], 0);
	assert_int_equal(kept_bytes(peer), 0);
}

static void no_more_than_there_is_room_for(void **state)
{
	struct peer *peer = *state;

	/* Too far ahead. */
	send_write(peer, KEPT_PSNS);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	assert_int_equal(kept_bytes(peer), 0);
	send_write(peer, 0);
	expect_aeth(peer, 0, ACK_SYNDROME, 1);
	/* A flood. */
	for (uint32_t n = 2; n < 3 * KEPT_PSNS; n++) {
		send_write(peer, n);
		peer_settle(peer);
	}
	assert_int_equal(peer_counter(peer, ROCE_KEPT), KEPT_PSNS - 1);
	expect_aeth(peer, 1, NAK_SEQUENCE, 1);
	send_write(peer, 1);
	expect_aeth(peer, KEPT_PSNS, ACK_SYNDROME, KEPT_PSNS + 1);
	assert_int_equal(kept_bytes(peer), 0);
	/* As if other queue pairs had taken it all: then it is as if nothing were kept. */
	peer->node->engine.roce->kept_bytes = KEPT_BYTES_MOST;
	send_write(peer, KEPT_PSNS + 2);
	expect_aeth(peer, KEPT_PSNS + 1, NAK_SEQUENCE, KEPT_PSNS + 1);
	send_write(peer, KEPT_PSNS + 1);
	expect_aeth(peer, KEPT_PSNS + 1, ACK_SYNDROME, KEPT_PSNS + 2);
	peer->node->engine.roce->kept_bytes = 0;
}

static void what_is_kept_goes_with_its_queue_pair(void **state)
{
	struct peer peer;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	for (uint32_t n = 1; n < 9; n++)
		send_write(&peer, n);
	expect_aeth(&peer, 0, NAK_SEQUENCE, 0);
	assert_true(kept_bytes(&peer) > 0);
	assert_int_equal(ibv_modify_qp(peer.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(kept_bytes(&peer), 0);
	peer_close(&peer);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(has_its_turn_when_the_gap_is_filled),
		on_peer(the_next_gap_is_told_at_once),
		on_peer(messages_of_many_packets_are_put_together),
		on_peer(a_read_takes_the_psns_of_its_responses),
		on_peer(not_behind_one_that_was_turned_away),
		on_peer(one_that_is_wrong_ends_the_qp_in_its_turn),
		on_peer(no_more_than_there_is_room_for),
		cmocka_unit_test(what_is_kept_goes_with_its_queue_pair),
	};

	return cmocka_run_group_tests_name("roce-kept", tests, NULL, NULL);
}
