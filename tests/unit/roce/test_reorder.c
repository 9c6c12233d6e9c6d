/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "expect.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/* The responder and packets that arrive ahead of a gap. */

#define PSN(n)		   psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME	   0x1f
#define NAK_SEQUENCE	   0x60
#define RNR_NAK		   (0x20 | 14)
#define REORDER_BYTES_MOST ((size_t)16 << 20)

/* The state after an in-order request. */
static void know_flow(struct peer *peer)
{
	roce_qp_of(to_qp(peer->qp))->rx.flow_port = peer->path.src_port;
}

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC,
		  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	know_flow(&peer);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	struct peer *peer = *state;

	peer_close(peer);
	return 0;
}

static size_t reorder_bytes(const struct peer *peer)
{
	return roce_of(&peer->node->engine)->reorder_bytes;
}

static void expect_aeth(struct peer *peer, uint32_t n, uint8_t syndrome, uint32_t msn)
{
	assert_int_equal(expect_response(peer, OPCODE(RC, ACK), PSN(n), syndrome).msn, msn);
}

static void reorder_filled_gap_executes_buffered_packet(void **state)
{
	struct peer *peer = *state;

	for (uint32_t n = 1; n < 5; n++)
		peer_write_byte(peer, false, n);
	peer_write_byte(peer, false, 3);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	expect_nothing(peer);
	/* No packet was executed, and no further NAK was sent. */
	assert_int_equal(peer->node->buf[1], 0);
	assert_true(reorder_bytes(peer) > 0);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 4, ACK_SYNDROME, 5);
	for (uint32_t n = 0; n < 5; n++)
		assert_int_equal(peer->node->buf[n], n + 1);
	assert_int_equal(reorder_bytes(peer), 0);
	assert_int_equal(peer_counter(peer, ROCE_OUT_OF_ORDER), 4);
	/* A requester that retransmits all packets gets ACKs for duplicates. */
	peer_write_byte(peer, false, 1);
	expect_aeth(peer, 4, ACK_SYNDROME, 5);
	assert_int_equal(peer_counter(peer, ROCE_DUPLICATES), 1);
}

static uint64_t buffered_count(struct peer *peer)
{
	return peer_counter(peer, ROCE_OUT_OF_ORDER);
}

/* No packet is buffered before the flow is known, nor from another source port. */
static void reorder_may_buffer_other_flow_is_false(void **state)
{
	struct peer *peer = *state;
	struct roce_qp *rqp = roce_qp_of(to_qp(peer->qp));
	uint16_t port = rqp->rx.flow_port;

	rqp->rx.flow_port = 0;
	peer_write_byte(peer, false, 2);
	peer_settle(peer);
	rqp->rx.flow_port = (uint16_t)(port + 1);
	peer_write_byte(peer, false, 2);
	peer_settle(peer);
	assert_int_equal(buffered_count(peer), 0);
	peer_write_byte(peer, false, 0);
	peer_settle(peer);
	assert_int_equal(rqp->rx.flow_port, port);
	peer_write_byte(peer, false, 2);
	peer_settle(peer);
	assert_int_equal(buffered_count(peer), 1);
}

/* Nor from a port that rxe computes from the sender's QPN. */
static void reorder_may_buffer_predictable_port_is_false(void **state)
{
	struct peer *peer = *state;
	struct roce_qp *rqp = roce_qp_of(to_qp(peer->qp));
	uint32_t qpn = rqp->path.remote_qpn;
	uint16_t rxe = (uint16_t)(0xc000 + ((qpn * 0x61c88647u) >> 18));

	rqp->rx.flow_port = rqp->inflow.src_port = rxe;
	assert_false(reorder_may_buffer(rqp));
	rqp->rx.flow_port = rqp->inflow.src_port = (uint16_t)(rxe ^ 0x1555);
	assert_true(reorder_may_buffer(rqp));
}

static void reorder_next_gap_sends_nak_at_once(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, false, 1);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	peer_write_byte(peer, false, 3);
	peer_write_byte(peer, false, 5);
	expect_nothing(peer);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 2, NAK_SEQUENCE, 2);
	peer_write_byte(peer, false, 2);
	expect_aeth(peer, 4, NAK_SEQUENCE, 4);
	expect_nothing(peer);
	peer_write_byte(peer, false, 4);
	expect_aeth(peer, 5, ACK_SYNDROME, 6);
}

static void reorder_message_of_many_packets_is_reassembled(void **state)
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
	/* The NAK for the first packet is superseded by the ACK for the last. */
	expect_aeth(peer, 2, ACK_SYNDROME, 1);
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.byte_len, 3 * PEER_MTU);
	for (uint32_t i = 0; i < 3 * PEER_MTU; i++)
		assert_int_equal(peer->node->buf[i], i / PEER_MTU + 7);
}

static void reorder_read_drops_packets_in_its_response_psns(void **state)
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
	/* One invalid packet, and one valid packet. */
	peer_write_byte(peer, false, 2);
	peer_write_byte(peer, false, 4);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	peer_write_byte(peer, false, 0);
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

static void reorder_rnr_nak_empties_buffer(void **state)
{
	struct peer *peer = *state;
	struct packet send = {.opcode = OPCODE(RC, SEND_ONLY), .psn = PSN(1), .wants_ack = true};
	uint8_t byte = 9;

	/*
	 * Buffered, and rejected when it is executed: the packets after it are removed from the
	 * buffer.
	 */
	peer_send(peer, send, &byte, 1);
	peer_write_byte(peer, false, 2);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 1, RNR_NAK, 1);
	assert_int_equal(reorder_bytes(peer), 0);
	peer_write_byte(peer, false, 3);
	expect_nothing(peer);
	assert_int_equal(reorder_bytes(peer), 0);
	peer_post_recv(peer, 1, 1);
	peer_send(peer, send, &byte, 1);
	expect_aeth(peer, 1, ACK_SYNDROME, 2);
	assert_int_equal(peer->node->buf[2], 0);
}

static void reorder_buffered_invalid_request_ends_qp_in_order(void **state)
{
	struct peer *peer = *state;
	struct packet middle = {.opcode = OPCODE(RC, WRITE_MIDDLE), .psn = PSN(1)};
	uint8_t bytes[PEER_MTU] = {0};

	peer_send(peer, middle, bytes, sizeof(bytes));
	peer_write_byte(peer, false, 2);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 1, 0x61, 1);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	assert_int_equal(peer->node->buf[2], 0);
	assert_int_equal(reorder_bytes(peer), 0);
}

static void reorder_buffer_is_limited(void **state)
{
	struct peer *peer = *state;

	/* Too far ahead. */
	peer_write_byte(peer, false, REORDER_PSNS);
	expect_aeth(peer, 0, NAK_SEQUENCE, 0);
	assert_int_equal(reorder_bytes(peer), 0);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 0, ACK_SYNDROME, 1);
	/* A flood of packets. */
	for (uint32_t n = 2; n < 3 * REORDER_PSNS; n++) {
		peer_write_byte(peer, false, n);
		peer_settle(peer);
	}
	assert_int_equal(peer_counter(peer, ROCE_OUT_OF_ORDER), REORDER_PSNS - 1);
	expect_aeth(peer, 1, NAK_SEQUENCE, 1);
	peer_write_byte(peer, false, 1);
	expect_aeth(peer, REORDER_PSNS, ACK_SYNDROME, REORDER_PSNS + 1);
	assert_int_equal(reorder_bytes(peer), 0);
	/* As if other queue pairs used the whole limit: then no packet is buffered. */
	roce_of(&peer->node->engine)->reorder_bytes = REORDER_BYTES_MOST;
	peer_write_byte(peer, false, REORDER_PSNS + 2);
	expect_aeth(peer, REORDER_PSNS + 1, NAK_SEQUENCE, REORDER_PSNS + 1);
	peer_write_byte(peer, false, REORDER_PSNS + 1);
	expect_aeth(peer, REORDER_PSNS + 1, ACK_SYNDROME, REORDER_PSNS + 2);
	roce_of(&peer->node->engine)->reorder_bytes = 0;
}

static void reorder_destroy_qp_frees_buffer(void **state)
{
	struct peer peer;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	know_flow(&peer);
	for (uint32_t n = 1; n < 9; n++)
		peer_write_byte(&peer, false, n);
	expect_aeth(&peer, 0, NAK_SEQUENCE, 0);
	assert_true(reorder_bytes(&peer) > 0);
	assert_int_equal(ibv_modify_qp(peer.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(reorder_bytes(&peer), 0);
	peer_close(&peer);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(reorder_filled_gap_executes_buffered_packet),
		on_peer(reorder_may_buffer_other_flow_is_false),
		on_peer(reorder_may_buffer_predictable_port_is_false),
		on_peer(reorder_next_gap_sends_nak_at_once),
		on_peer(reorder_message_of_many_packets_is_reassembled),
		on_peer(reorder_read_drops_packets_in_its_response_psns),
		on_peer(reorder_rnr_nak_empties_buffer),
		on_peer(reorder_buffered_invalid_request_ends_qp_in_order),
		on_peer(reorder_buffer_is_limited),
		cmocka_unit_test(reorder_destroy_qp_frees_buffer),
	};

	return cmocka_run_group_tests_name("roce-reorder", tests, NULL, NULL);
}
