/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRs that are sent as several WRITE Only packets (docs/adr/0056): at the requester, and at the
 * responder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "peer.h"
#include "roce/qp.h"

#define PSN(n)	     psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME 0x1f

static uint8_t bytes[PEER_MTU];

static int set_up(void **state)
{
	static struct peer peer;

	memset(bytes, 0xb5, sizeof(bytes));
	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static struct packet part_expect(struct peer *peer, uint8_t opcode, uint32_t psn)
{
	struct packet packet;

	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, opcode);
	assert_int_equal(packet.psn, psn);
	return packet;
}

static void part_expect_nothing(struct peer *peer)
{
	struct packet packet;

	assert_false(peer_next(peer, &packet));
}

static void part_expect_done(struct peer *peer, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void part_expect_none_done(struct peer *peer)
{
	struct ibv_wc wc;

	assert_false(world_poll(peer->node->send_cq, &wc));
}

/* A message of two packets, after which WRITEs are split. */
static void part_exchange_first(struct peer *peer)
{
	peer_post_send(peer, IBV_WR_SEND, PEER_MTU + 1, 0);
	part_expect(peer, OPCODE(RC, SEND_FIRST), PSN(0));
	part_expect(peer, OPCODE(RC, SEND_LAST), PSN(1));
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	part_expect_done(peer, IBV_WR_SEND);
}

/*
 * The peer may have another path MTU: it refuses the first packet of this message, as it refuses
 * that of a NIC.
 */
static void requester_first_write_of_several_packets_is_one_message(void **state)
{
	static const uint8_t opcodes[] = {OPCODE(RC, WRITE_FIRST), OPCODE(RC, WRITE_MIDDLE),
					  OPCODE(RC, WRITE_MIDDLE), OPCODE(RC, WRITE_LAST)};
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_MTU, 0);
	assert_false(part_expect(peer, OPCODE(RC, WRITE_ONLY), PSN(0)).is_solicited);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 3 * PEER_MTU + 1, 0);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 2 * PEER_MTU, 0);
	for (uint32_t i = 0; i < 4; i++)
		part_expect(peer, opcodes[i], PSN(1 + i));
	part_expect(peer, OPCODE(RC, WRITE_ONLY), PSN(5));
	part_expect(peer, OPCODE(RC, WRITE_ONLY), PSN(6));
	/* It is retransmitted in the same packets. */
	peer_answer(peer, PSN(2), 0x60);
	part_expect(peer, OPCODE(RC, WRITE_MIDDLE), PSN(2));
	peer_answer(peer, PSN(6), ACK_SYNDROME);
	for (int i = 0; i < 3; i++)
		part_expect_done(peer, IBV_WR_RDMA_WRITE);
}

/* All packets but the last have the same length, so that they are one GSO burst. */
static void requester_short_write_is_sent_as_only_packets(void **state)
{
	struct peer *peer = *state;

	part_exchange_first(peer);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 3 * PEER_MTU + 1, IBV_SEND_SOLICITED);
	for (uint32_t i = 0; i < 4; i++) {
		struct packet packet = part_expect(peer, OPCODE(RC, WRITE_ONLY), PSN(2 + i));

		assert_int_equal(packet.wants_ack, i == 3);
		assert_int_equal(packet.is_solicited, i < 3);
		assert_int_equal(packet.payload_bytes, i < 3 ? PEER_MTU : 1);
		assert_int_equal(packet.dma_length_bytes, packet.payload_bytes);
		assert_int_equal(packet.va, PEER_REMOTE_ADDR + i * PEER_MTU);
		assert_int_equal(packet.rkey, PEER_RKEY);
		assert_memory_equal(packet.payload, peer->node->buf + i * PEER_MTU,
				    packet.payload_bytes);
	}
	part_expect_nothing(peer);
	/* It is one WR. */
	peer_answer(peer, PSN(4), ACK_SYNDROME);
	part_expect_none_done(peer);
	peer_answer(peer, PSN(5), ACK_SYNDROME);
	part_expect_done(peer, IBV_WR_RDMA_WRITE);
}

static void requester_long_write_is_one_message(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 32 * PEER_MTU + 1, 0);
	packet = part_expect(peer, OPCODE(RC, WRITE_FIRST), PSN(0));
	assert_int_equal(packet.dma_length_bytes, 32 * PEER_MTU + 1);
	assert_int_equal(packet.va, PEER_REMOTE_ADDR);
	part_expect(peer, OPCODE(RC, WRITE_MIDDLE), PSN(1));
}

/* The immediate makes the last packet longer than the others: it would not be in their burst. */
static void requester_write_with_imm_is_one_message(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE_WITH_IMM, 2 * PEER_MTU, 0);
	part_expect(peer, OPCODE(RC, WRITE_FIRST), PSN(0));
	part_expect(peer, OPCODE(RC, WRITE_LAST_IMM), PSN(1));
	part_expect_nothing(peer);
}

/* Only the SE bit of a WRITE Only packet without immediate means that the WR continues. */
static void responder_se_bit_marks_part_of_wr(void **state)
{
	static const struct {
		uint8_t opcode;
		bool is_solicited, is_part;
	} writes[] = {
		{OPCODE(RC, WRITE_ONLY), true, true},
		{OPCODE(RC, WRITE_ONLY), false, false},
		{OPCODE(RC, WRITE_ONLY_IMM), true, false},
		{OPCODE(RC, WRITE_FIRST), true, false},
	};
	struct peer *peer = *state;
	const uint8_t *buf = peer->node->buf;

	peer_post_recv(peer, 1, 4);
	for (uint32_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct packet packet = {
			.opcode = writes[i].opcode,
			.psn = psn_add(PEER_FIRST_PSN, i),
			.is_solicited = writes[i].is_solicited,
			.va = (uintptr_t)buf + PEER_BUF_BYTES - PEER_MTU,
			.rkey = peer->node->mr->rkey,
			.dma_length_bytes = PEER_MTU,
		};

		if (packet.opcode == OPCODE(RC, WRITE_FIRST)) {
			packet.va = (uintptr_t)buf;
			packet.dma_length_bytes = 2 * PEER_MTU;
		}
		peer_send(peer, packet, bytes, PEER_MTU);
		peer_settle(peer);
		assert_int_equal(roce_qp_of(to_qp(peer->qp))->rx.in->is_part, writes[i].is_part);
		assert_memory_equal(buf + (packet.va - (uintptr_t)buf), bytes, PEER_MTU);
	}
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(requester_first_write_of_several_packets_is_one_message),
		on_peer(requester_short_write_is_sent_as_only_packets),
		on_peer(requester_long_write_is_one_message),
		on_peer(requester_write_with_imm_is_one_message),
		on_peer(responder_se_bit_marks_part_of_wr),
	};

	return cmocka_run_group_tests_name("write_parts", tests, NULL, NULL);
}
