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

/* The requester and its completer, packet by packet. */

#define PSN(n)	     psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME 0x1f
#define MS	     UINT64_C(1000000)
/* 4.096 us * 2^14 is 67 ms; four times this value exceeds the maximum timeout. */
#define ACK_TIMEOUT_NS (250 * MS)

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, 0);
	for (size_t i = 0; i < PEER_BUF_BYTES; i++)
		peer.node->buf[i] = (uint8_t)(i * 13 + (i >> 8));
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static struct packet expect(struct peer *peer, uint8_t opcode, uint32_t psn)
{
	struct packet packet;

	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, opcode);
	assert_int_equal(packet.psn, psn);
	return packet;
}

static void expect_nothing(struct peer *peer)
{
	struct packet packet;

	assert_false(peer_next(peer, &packet));
}

static void expect_done(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_none_done(struct peer *peer)
{
	struct ibv_wc wc;

	assert_false(world_poll(peer->node->send_cq, &wc));
}

/* Advances the virtual time. */
static void wait_ns(struct peer *peer, uint64_t ns)
{
	uint64_t until_ns = peer->world.now_ns + ns;

	while (peer->world.now_ns < until_ns) {
		peer->world.now_ns += 100000;
		world_turn(&peer->world);
	}
}

static int count_packets(struct peer *peer)
{
	struct packet packet;
	int n = 0;

	while (peer_next(peer, &packet))
		n++;
	return n;
}

static void requester_long_message_is_split_into_packets(void **state)
{
	struct peer *peer = *state;
	static const uint8_t opcodes[] = {OPCODE(RC, SEND_FIRST), OPCODE(RC, SEND_MIDDLE),
					  OPCODE(RC, SEND_MIDDLE), OPCODE(RC, SEND_LAST_IMM)};

	peer_post_send(peer, IBV_WR_SEND_WITH_IMM, 3 * PEER_MTU + 1, IBV_SEND_SOLICITED);
	for (uint32_t i = 0; i < 4; i++) {
		struct packet packet = expect(peer, opcodes[i], PSN(i));

		assert_int_equal(packet.wants_ack, i == 3);
		assert_int_equal(packet.is_solicited, i == 3);
		assert_int_equal(packet.payload_bytes, i < 3 ? PEER_MTU : 1);
		assert_memory_equal(packet.payload, peer->node->buf + i * PEER_MTU,
				    packet.payload_bytes);
		if (i == 3)
			assert_int_equal(packet.imm_be, 0x01020304);
	}
	expect_nothing(peer);
	expect_none_done(peer);
	peer_answer(peer, PSN(2), ACK_SYNDROME);
	expect_none_done(peer);
	peer_answer(peer, PSN(3), ACK_SYNDROME);
	expect_done(peer, IBV_WR_SEND_WITH_IMM, IBV_WC_SUCCESS);
}

static void requester_ack_completes_all_earlier_requests(void **state)
{
	struct peer *peer = *state;

	for (int i = 0; i < 3; i++)
		peer_post_send(peer, IBV_WR_RDMA_WRITE, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(expect(peer, OPCODE(RC, WRITE_ONLY), PSN(i)).va, PEER_REMOTE_ADDR);
	peer_answer(peer, PSN(2), ACK_SYNDROME);
	for (int i = 0; i < 3; i++)
		expect_done(peer, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS);
	/* An old PSN, and one that was never sent. */
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	peer_answer(peer, PSN(3), ACK_SYNDROME);
	peer_answer(peer, PSN(3), 0x62);
	expect_none_done(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 3);
}

/* A message of two packets, after which WRITEs are split. */
static void exchange_first_message(struct peer *peer)
{
	peer_post_send(peer, IBV_WR_SEND, PEER_MTU + 1, 0);
	expect(peer, OPCODE(RC, SEND_FIRST), PSN(0));
	expect(peer, OPCODE(RC, SEND_LAST), PSN(1));
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	expect_done(peer, IBV_WR_SEND, IBV_WC_SUCCESS);
}

static void requester_duplicate_nak_goes_back_once(void **state)
{
	struct peer *peer = *state;

	exchange_first_message(peer);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4 * PEER_MTU, 0);
	assert_int_equal(count_packets(peer), 4);
	peer_answer(peer, PSN(4), 0x60);
	/* The peer may have stored the packet after it. */
	expect(peer, OPCODE(RC, WRITE_ONLY), PSN(4));
	expect_nothing(peer);
	peer_answer(peer, PSN(4), 0x60);
	expect_nothing(peer);
	peer_answer(peer, PSN(5), ACK_SYNDROME);
	expect_done(peer, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS);
}

static void requester_nak_moves_qp_to_err(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} naks[] = {
		{0x61, IBV_WC_REM_INV_REQ_ERR}, {0x62, IBV_WC_REM_ACCESS_ERR},
		{0x63, IBV_WC_REM_OP_ERR},	{0x64, IBV_WC_REM_INV_RD_REQ_ERR},
		{0x7f, IBV_WC_BAD_RESP_ERR},
	};
	struct peer peer;

	(void)state;
	for (size_t i = 0; i < sizeof(naks) / sizeof(naks[0]); i++) {
		peer_open(&peer, IBV_QPT_RC, 0);
		for (int n = 0; n < 3; n++)
			peer_post_send(&peer, IBV_WR_RDMA_WRITE, 4, 0);
		peer_answer(&peer, PSN(1), naks[i].syndrome);
		expect_done(&peer, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS);
		expect_done(&peer, IBV_WR_RDMA_WRITE, naks[i].status);
		expect_done(&peer, IBV_WR_RDMA_WRITE, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(to_qp(peer.qp)->state, IBV_QPS_ERR);
		peer_close(&peer);
	}
}

static void requester_reserved_syndrome_is_dropped(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4, 0);
	for (unsigned syndrome = 0x80; syndrome < 0x100; syndrome++)
		peer_answer(peer, PSN(0), (uint8_t)syndrome);
	peer_answer(peer, PSN(0), 0x40);
	expect_none_done(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
}

static void requester_rnr_nak_waits_for_its_timer(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_SEND, 4, 0);
	assert_int_equal(count_packets(peer), 1);
	/* Code 16 is 2.56 ms. */
	peer_answer(peer, PSN(0), 0x20 | 16);
	wait_ns(peer, 2400000);
	expect_nothing(peer);
	wait_ns(peer, 400000);
	expect(peer, OPCODE(RC, SEND_ONLY), PSN(0));
	/* rnr_retry is 1. */
	peer_answer(peer, PSN(0), 0x20 | 16);
	expect_done(peer, IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void requester_no_response_fails_after_retries(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_SEND, 4, 0);
	/* retry_cnt is 2: three times the ACK timeout in all. */
	wait_ns(peer, 3 * ACK_TIMEOUT_NS - 2 * MS);
	expect_none_done(peer);
	assert_in_range(count_packets(peer), 4, 40);
	wait_ns(peer, 30 * MS);
	expect_done(peer, IBV_WR_SEND, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
}

static void requester_response_resets_retry_count(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4 * PEER_MTU, 0);
	for (uint32_t i = 0; i < 3; i++) {
		wait_ns(peer, 3 * ACK_TIMEOUT_NS - 2 * MS);
		peer_answer(peer, PSN(i), ACK_SYNDROME);
	}
	expect_none_done(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
	peer_answer(peer, PSN(3), ACK_SYNDROME);
	expect_done(peer, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS);
}

static void respond(struct peer *peer, uint8_t opcode, uint32_t psn, size_t at, size_t bytes)
{
	struct packet packet = {.opcode = opcode, .psn = psn, .syndrome = ACK_SYNDROME};

	peer_send(peer, packet, peer->node->buf + at, bytes);
	peer_settle(peer);
}

static void requester_lost_read_response_is_requested_again(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_RDMA_READ, 3 * PEER_MTU, 0);
	packet = expect(peer, OPCODE(RC, READ_REQUEST), PSN(0));
	assert_int_equal(packet.va, PEER_REMOTE_ADDR);
	assert_int_equal(packet.rkey, PEER_RKEY);
	assert_int_equal(packet.dma_length_bytes, 3 * PEER_MTU);
	respond(peer, OPCODE(RC, READ_RESPONSE_FIRST), PSN(0), 4096, PEER_MTU);
	respond(peer, OPCODE(RC, READ_RESPONSE_LAST), PSN(2), 4096, PEER_MTU);
	packet = expect(peer, OPCODE(RC, READ_REQUEST), PSN(1));
	assert_int_equal(packet.va, PEER_REMOTE_ADDR + PEER_MTU);
	assert_int_equal(packet.dma_length_bytes, 2 * PEER_MTU);
	expect_nothing(peer);
	respond(peer, OPCODE(RC, READ_RESPONSE_FIRST), PSN(1), 4096 + PEER_MTU, PEER_MTU);
	respond(peer, OPCODE(RC, READ_RESPONSE_LAST), PSN(2), 4096 + 2 * PEER_MTU, PEER_MTU);
	expect_done(peer, IBV_WR_RDMA_READ, IBV_WC_SUCCESS);
	assert_memory_equal(peer->node->buf, peer->node->buf + 4096, 3 * PEER_MTU);
}

static void requester_ack_beyond_read_repeats_read(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_READ, 4, 0);
	peer_post_send(peer, IBV_WR_SEND, 4, 0);
	assert_int_equal(count_packets(peer), 2);
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	expect_none_done(peer);
	expect(peer, OPCODE(RC, READ_REQUEST), PSN(0));
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(0), 0, 4);
	expect_done(peer, IBV_WR_RDMA_READ, IBV_WC_SUCCESS);
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	expect_done(peer, IBV_WR_SEND, IBV_WC_SUCCESS);
}

static void requester_read_response_of_wrong_length_fails(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_READ, 2 * PEER_MTU, 0);
	respond(peer, OPCODE(RC, READ_RESPONSE_FIRST), PSN(0), 0, PEER_MTU - 4);
	expect_done(peer, IBV_WR_RDMA_READ, IBV_WC_BAD_RESP_ERR);
}

static void requester_read_response_without_read_is_dropped(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_SEND, 4, 0);
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(0), 0, 4);
	respond(peer, OPCODE(RC, ATOMIC_ACK), PSN(0), 0, 0);
	expect_none_done(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 2);
}

static void requester_atomic_has_operands(void **state)
{
	struct peer *peer = *state;
	struct packet packet,
		response = {.opcode = OPCODE(RC, ATOMIC_ACK), .syndrome = ACK_SYNDROME};
	uint64_t word;

	peer_post_send(peer, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0);
	packet = expect(peer, OPCODE(RC, COMPARE_SWAP), PSN(0));
	assert_int_equal(packet.compare, 5);
	assert_int_equal(packet.swap_or_add, 6);
	response.psn = PSN(0);
	response.atomic_original = UINT64_C(0x1122334455667788);
	peer_send(peer, response, NULL, 0);
	peer_settle(peer);
	expect_done(peer, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_SUCCESS);
	memcpy(&word, peer->node->buf, 8);
	assert_true(word == UINT64_C(0x1122334455667788));
	peer_post_send(peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0);
	packet = expect(peer, OPCODE(RC, FETCH_ADD), PSN(1));
	assert_int_equal(packet.swap_or_add, 5);
}

/*
 * Completed only by the response of a READ without data; an ACK for following requests means that
 * the response was lost.
 */
static void requester_flush_and_atomic_write_complete_by_their_response(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_ATOMIC_WRITE, 8, 0);
	packet = expect(peer, OPCODE(RC, ATOMIC_WRITE), PSN(0));
	assert_int_equal(packet.va, PEER_REMOTE_ADDR);
	assert_int_equal(packet.rkey, PEER_RKEY);
	assert_int_equal(packet.dma_length_bytes, 8);
	assert_int_equal(packet.payload_bytes, 8);
	assert_memory_equal(packet.payload, peer->node->buf, 8);
	assert_true(packet.wants_ack);
	peer_post_send(peer, IBV_WR_FLUSH, 100000, 0);
	packet = expect(peer, OPCODE(RC, FLUSH), PSN(1));
	assert_int_equal(packet.va, PEER_REMOTE_ADDR);
	assert_int_equal(packet.rkey, PEER_RKEY);
	assert_int_equal(packet.dma_length_bytes, 100000);
	assert_int_equal(packet.flush_types, IBV_FLUSH_GLOBAL);
	assert_int_equal(packet.flush_level, IBV_FLUSH_RANGE);
	/* The peer's responder resources are two. */
	peer_post_send(peer, IBV_WR_RDMA_READ, 4, 0);
	expect_nothing(peer);
	respond(peer, OPCODE(RC, ATOMIC_ACK), PSN(0), 0, 0);
	respond(peer, OPCODE(RC, READ_RESPONSE_FIRST), PSN(0), 0, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 2);
	peer_answer(peer, PSN(1), ACK_SYNDROME);
	expect_none_done(peer);
	expect(peer, OPCODE(RC, ATOMIC_WRITE), PSN(0));
	expect(peer, OPCODE(RC, FLUSH), PSN(1));
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(0), 0, 0);
	expect_done(peer, IBV_WR_ATOMIC_WRITE, IBV_WC_SUCCESS);
	expect(peer, OPCODE(RC, READ_REQUEST), PSN(2));
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(1), 0, 0);
	expect_done(peer, IBV_WR_FLUSH, IBV_WC_SUCCESS);
	expect_none_done(peer);
}

static void requester_flush_response_with_data_fails(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_FLUSH, 8, 0);
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(0), 0, 4);
	expect_done(peer, IBV_WR_FLUSH, IBV_WC_BAD_RESP_ERR);
}

/* An atomic WRITE whose SGEs do not have 8 bytes is not sent. */
static void requester_atomic_write_of_other_length_fails(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_ATOMIC_WRITE, 16, 0);
	expect_nothing(peer);
	expect_done(peer, IBV_WR_ATOMIC_WRITE, IBV_WC_LOC_LEN_ERR);
}

static void requester_max_rd_atomic_and_fence_are_kept(void **state)
{
	struct peer *peer = *state;

	for (int i = 0; i < 3; i++)
		peer_post_send(peer, IBV_WR_RDMA_READ, 4, 0);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4, IBV_SEND_FENCE);
	assert_int_equal(count_packets(peer), 2);
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(0), 0, 4);
	expect(peer, OPCODE(RC, READ_REQUEST), PSN(2));
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(1), 0, 4);
	expect_nothing(peer);
	respond(peer, OPCODE(RC, READ_RESPONSE_ONLY), PSN(2), 0, 4);
	expect(peer, OPCODE(RC, WRITE_ONLY), PSN(3));
}

static void requester_congestion_window_grows_and_shrinks(void **state)
{
	struct peer *peer = *state;
	const struct cc *cc = &roce_qp_of(to_qp(peer->qp))->tx.cc;
	struct packet packet = {.opcode = OPCODE(CNP, NOTIFICATION)};
	uint32_t acked = 0, grown;
	int out, n;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 900 * PEER_MTU, 0);
	out = count_packets(peer);
	assert_in_range(out, 4, CC_LIMIT_PKTS);
	/* No further packet is sent without an ACK. */
	wait_ns(peer, 1 * MS);
	expect_nothing(peer);
	for (int i = 0; i < 4; i++) {
		acked += (uint32_t)out;
		peer_answer(peer, PSN(acked - 1), ACK_SYNDROME);
		n = count_packets(peer);
		assert_in_range(n, out, CC_MAX_PKTS);
		out = n;
	}
	/* The minimum growth for any round-trip time. */
	assert_in_range(out, CC_LIMIT_PKTS, CC_MAX_PKTS);
	grown = cc->cwnd_pkts;
	peer_send(peer, packet, NULL, 0);
	peer_settle(peer);
	assert_in_range(cc->cwnd_pkts, 4, grown - 1);
	/* The window is reduced once for each window of outstanding packets. */
	grown = cc->cwnd_pkts;
	peer_answer(peer, PSN(acked), 0x60);
	assert_int_equal(cc->cwnd_pkts, grown);
}

static void requester_long_read_is_split(void **state)
{
	struct peer *peer = *state;
	struct packet packet;
	uint32_t psns = 0;

	peer_post_send(peer, IBV_WR_RDMA_READ, 100 * PEER_MTU + 1, 0);
	while (peer_next(peer, &packet)) {
		assert_int_equal(packet.opcode, OPCODE(RC, READ_REQUEST));
		assert_int_equal(packet.psn, PSN(psns));
		assert_int_equal(packet.va, PEER_REMOTE_ADDR + psns * PEER_MTU);
		assert_int_equal(packet.dma_length_bytes % PEER_MTU, 0);
		psns += packet.dma_length_bytes / PEER_MTU;
	}
	assert_in_range(psns, 1, CC_LIMIT_PKTS);
}

static void requester_invalid_wr_fails_in_order(void **state)
{
	struct peer *peer = *state;
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, 4, peer->node->mr->lkey ^ 0x100};
	struct ibv_send_wr wr = {.wr_id = 99, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4, 0);
	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
	peer_settle(peer);
	expect_none_done(peer);
	peer_answer(peer, PSN(0), ACK_SYNDROME);
	expect_done(peer, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS);
	expect_done(peer, 99, IBV_WC_LOC_PROT_ERR);
}

static void requester_full_link_loses_nothing(void **state)
{
	struct peer *peer = *state;
	const struct sim_faults full = {.refuse = SIM_CERTAIN}, none = {0};
	uint8_t was[4];

	memcpy(was, peer->node->buf, 4);
	sim_net_set_faults(peer->world.net, &full);
	peer_post_send(peer, IBV_WR_SEND, 4, 0);
	assert_true(roce_is_held(&peer->node->engine));
	expect_nothing(peer);
	/* Inline data does not refer to the application's memory. */
	memset(peer->node->buf, 0, 4);
	sim_net_set_faults(peer->world.net, &none);
	wait_ns(peer, 1 * MS);
	assert_false(roce_is_held(&peer->node->engine));
	assert_memory_equal(expect(peer, OPCODE(RC, SEND_ONLY), PSN(0)).payload, was, 4);
}

static void requester_uc_completes_when_sent(void **state)
{
	struct peer peer;

	(void)state;
	peer_open(&peer, IBV_QPT_UC, 0);
	peer_post_send(&peer, IBV_WR_RDMA_WRITE_WITH_IMM, 200 * PEER_MTU, 0);
	assert_int_equal(count_packets(&peer), 200);
	expect_done(&peer, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_SUCCESS);
	peer_close(&peer);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(requester_long_message_is_split_into_packets),
		on_peer(requester_ack_completes_all_earlier_requests),
		on_peer(requester_duplicate_nak_goes_back_once),
		cmocka_unit_test(requester_nak_moves_qp_to_err),
		on_peer(requester_reserved_syndrome_is_dropped),
		on_peer(requester_rnr_nak_waits_for_its_timer),
		on_peer(requester_no_response_fails_after_retries),
		on_peer(requester_response_resets_retry_count),
		on_peer(requester_lost_read_response_is_requested_again),
		on_peer(requester_ack_beyond_read_repeats_read),
		on_peer(requester_read_response_of_wrong_length_fails),
		on_peer(requester_read_response_without_read_is_dropped),
		on_peer(requester_atomic_has_operands),
		on_peer(requester_flush_and_atomic_write_complete_by_their_response),
		on_peer(requester_flush_response_with_data_fails),
		on_peer(requester_atomic_write_of_other_length_fails),
		on_peer(requester_max_rd_atomic_and_fence_are_kept),
		on_peer(requester_congestion_window_grows_and_shrinks),
		on_peer(requester_long_read_is_split),
		on_peer(requester_invalid_wr_fails_in_order),
		on_peer(requester_full_link_loses_nothing),
		cmocka_unit_test(requester_uc_completes_when_sent),
	};

	return cmocka_run_group_tests_name("roce-requester", tests, NULL, NULL);
}
