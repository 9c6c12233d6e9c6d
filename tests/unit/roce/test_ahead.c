/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ahead_kit.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/*
 * Requests that are sent ahead of those with lower PSNs (docs/adr/0062): the requester, and the
 * responder.
 */

#define NAK_SEQUENCE   0x60
#define PAIRS	       3
#define PAIR_PACKETS   3 /* a WRITE of two packets and a SEND */
#define RESPONSE_AFTER 14
#define FULL_BYTES     ((size_t)(8 << 20) + 1)

/* The state after an in-order request of a sender of this project. */
static int open_known(void **state)
{
	struct peer *peer;

	ahead_kit_open(state);
	peer = *state;
	roce_qp_of(to_qp(peer->qp))->rx.flow_port = peer->path.src_port;
	return 0;
}

/* Posts a list of pairs of a WRITE and a SEND, which is one batch. */
static void post_pairs(struct peer *peer)
{
	const struct ibv_mr *mr = peer->node->mr;
	struct ibv_sge sge[2] = {{(uintptr_t)peer->node->buf, 2 * PEER_MTU, mr->lkey},
				 {(uintptr_t)peer->node->buf, 16, mr->lkey}};
	struct ibv_send_wr wr[2 * PAIRS] = {0}, *bad;

	for (int i = 0; i < 2 * PAIRS; i++) {
		wr[i].sg_list = &sge[i % 2];
		wr[i].num_sge = 1;
		wr[i].opcode = i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.remote_addr = PEER_REMOTE_ADDR;
		wr[i].wr.rdma.rkey = PEER_RKEY;
		wr[i].next = i + 1 < 2 * PAIRS ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(peer->qp, wr, &bad), 0);
	peer_settle(peer);
}

/* Expects the packets with these PSNs after `first`, in this order. */
static void expect_order(struct peer *peer, uint32_t first, const uint8_t *order,
			 const uint8_t *ahead, int n)
{
	struct packet packet;

	for (int i = 0; i < n; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.psn, OWN_PSN(first + order[i]));
		assert_int_equal(packet.is_ahead, ahead[i]);
	}
	assert_false(peer_next(peer, &packet));
}

static const uint8_t in_order[PAIRS * PAIR_PACKETS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static const uint8_t none_ahead[PAIRS * PAIR_PACKETS] = {0};
static const uint8_t by_length[PAIRS * PAIR_PACKETS] = {0, 1, 3, 4, 6, 7, 2, 5, 8};
static const uint8_t long_ahead[PAIRS * PAIR_PACKETS] = {0, 0, 1, 1, 1, 1};

/*
 * The peer's ACKs determine the order: it may be any implementation, and another one after a
 * migration.
 */
static void requester_sends_ahead_if_last_ack_permits_it(void **state)
{
	struct peer *peer = *state;
	uint32_t sent = 0;

	post_pairs(peer);
	expect_order(peer, sent, in_order, none_ahead, PAIRS * PAIR_PACKETS);
	answer(peer, sent + PAIRS * PAIR_PACKETS - 1, true);
	sent += PAIRS * PAIR_PACKETS;
	post_pairs(peer);
	expect_order(peer, sent, by_length, long_ahead, PAIRS * PAIR_PACKETS);
	assert_int_equal(peer_counter(peer, ROCE_SENT_AHEAD), 4);
	answer(peer, sent + PAIRS * PAIR_PACKETS - 1, false);
	sent += PAIRS * PAIR_PACKETS;
	post_pairs(peer);
	expect_order(peer, sent, in_order, none_ahead, PAIRS * PAIR_PACKETS);
}

/* The PSN of an ACK that permits it must be in flight, as of every ACK. */
static void requester_ignores_permission_of_stale_ack(void **state)
{
	struct peer *peer = *state;

	answer(peer, 0, true);
	post_pairs(peer);
	expect_order(peer, 0, in_order, none_ahead, PAIRS * PAIR_PACKETS);
}

/*
 * Posts pairs whose packets are in order, an ACK that permits more, and pairs whose packets are
 * sent ahead.
 */
static void post_ahead(struct peer *peer)
{
	post_pairs(peer);
	expect_order(peer, 0, in_order, none_ahead, PAIRS * PAIR_PACKETS);
	answer(peer, PAIRS * PAIR_PACKETS - 1, true);
	post_pairs(peer);
	expect_order(peer, PAIRS * PAIR_PACKETS, by_length, long_ahead, PAIRS * PAIR_PACKETS);
}

/* A retransmission is in order. */
static void requester_retransmits_in_order(void **state)
{
	static const uint8_t rest[] = {4, 5, 6, 7, 8};
	struct peer *peer = *state;
	uint32_t sent = PAIRS * PAIR_PACKETS;

	post_ahead(peer);
	/* An RNR NAK, after which the peer expects everything again. */
	peer_answer(peer, OWN_PSN(sent + 4), 0x20 | RESPONSE_AFTER);
	peer_settle(peer);
	peer->world.now_ns += aeth_rnr_wait_ns(RESPONSE_AFTER);
	peer_settle(peer);
	expect_order(peer, sent, rest, none_ahead, 5);
}

/*
 * The bursts of packets that overtake others: a loss of the first one is repaired by everything up
 * to its last packet.
 */
static void bursts_pkts_contains_packets_between(void **state)
{
	struct peer *peer = *state;
	const struct roce_qp *rqp = roce_qp_of(to_qp(peer->qp));
	uint32_t sent = PAIRS * PAIR_PACKETS;

	post_ahead(peer);
	/* 0 1 3 4 6 7 and 2, then 5 and 8. */
	assert_int_equal(bursts_pkts(rqp, OWN_PSN(sent)), 8);
	assert_int_equal(bursts_pkts(rqp, OWN_PSN(sent + 5)), 4);
	assert_int_equal(bursts_pkts(rqp, OWN_PSN(sent + 2)), 1);
}

static void expect_aeth(struct peer *peer, uint32_t n, uint8_t syndrome, bool takes_ahead)
{
	struct packet packet = expect_response(peer, OPCODE(RC, ACK), PSN(n), syndrome);

	assert_int_equal(packet.takes_ahead, takes_ahead);
}

static void expect_written(const struct peer *peer, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(peer->node->buf[i], i + 1);
	assert_int_equal(peer->node->buf[n], 0);
}

/* Packets that were sent ahead wait without a NAK, and are executed in order. */
static void responder_keeps_packets_sent_ahead(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, true, 1);
	peer_settle(peer);
	peer_write_byte(peer, true, 3);
	peer_settle(peer);
	expect_nothing(peer);
	expect_written(peer, 0);
	peer_write_byte(peer, false, 0);
	peer_settle(peer);
	expect_aeth(peer, 1, ACK_SYNDROME, true);
	expect_written(peer, 2);
	peer_write_byte(peer, false, 2);
	peer_settle(peer);
	expect_aeth(peer, 3, ACK_SYNDROME, true);
	expect_written(peer, 4);
	expect_nothing(peer);
	assert_int_equal(roce_of(&peer->node->engine)->reorder_bytes, 0);
	assert_int_equal(peer_counter(peer, ROCE_RECEIVED_AHEAD), 2);
	assert_int_equal(peer_counter(peer, ROCE_OUT_OF_ORDER), 0);
	assert_int_equal(peer_counter(peer, ROCE_SEQUENCE_NAKS_SENT), 0);
}

/*
 * A packet that was not sent ahead shows that those before it are lost: also if others were sent
 * ahead of them.
 */
static void responder_reports_loss_among_packets_sent_ahead(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, true, 1);
	peer_settle(peer);
	peer_write_byte(peer, true, 4);
	peer_settle(peer);
	expect_nothing(peer);
	peer_write_byte(peer, false, 3);
	peer_settle(peer);
	expect_aeth(peer, 0, NAK_SEQUENCE, true);
	/* 2 is still missing: the next NAK is sent at once. */
	peer_write_byte(peer, false, 0);
	peer_settle(peer);
	expect_aeth(peer, 2, NAK_SEQUENCE, true);
	expect_written(peer, 2);
	peer_write_byte(peer, false, 2);
	peer_settle(peer);
	expect_aeth(peer, 4, ACK_SYNDROME, true);
	expect_written(peer, 5);
}

/* From a flow whose packets are not buffered, the bit means nothing, and ACKs do not have it. */
static void responder_of_unknown_flow_ignores_bit(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, true, 1);
	peer_settle(peer);
	expect_aeth(peer, 0, NAK_SEQUENCE, false);
	assert_int_equal(roce_of(&peer->node->engine)->reorder_bytes, 0);
	peer_write_byte(peer, false, 0);
	peer_settle(peer);
	expect_aeth(peer, 0, ACK_SYNDROME, true);
}

/*
 * A peer that fills the memory of the reorder buffers does not stop the others, which then send in
 * order.
 */
static void responder_with_full_buffers_permits_nothing_ahead(void **state)
{
	struct peer *peer = *state;
	size_t *reorder_bytes = &roce_of(&peer->node->engine)->reorder_bytes;

	*reorder_bytes += FULL_BYTES;
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 0, ACK_SYNDROME, false);
	/* Packets that were permitted before are buffered. */
	peer_write_byte(peer, true, 2);
	expect_nothing(peer);
	*reorder_bytes -= FULL_BYTES;
	peer_write_byte(peer, false, 1);
	expect_aeth(peer, 2, ACK_SYNDROME, true);
	/* Without memory the packet is lost, which is reported. */
	*reorder_bytes += 2 * FULL_BYTES;
	peer_write_byte(peer, true, 4);
	expect_aeth(peer, 3, NAK_SEQUENCE, false);
	*reorder_bytes -= 2 * FULL_BYTES;
}

/*
 * The PSNs of READ responses are used: a request with one of them is dropped, and not executed when
 * the PSNs wrap around.
 */
static void responder_drops_requests_with_psns_of_responses(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, true, 2);
	peer_settle(peer);
	assert_true(roce_of(&peer->node->engine)->reorder_bytes > 0);
	peer_send(peer,
		  (struct packet){.opcode = OPCODE(RC, READ_REQUEST),
				  .psn = PSN(0),
				  .va = (uintptr_t)peer->node->buf,
				  .rkey = peer->node->mr->rkey,
				  .dma_length_bytes = READ_BYTES},
		  NULL, 0);
	peer_settle(peer);
	assert_int_equal(roce_of(&peer->node->engine)->reorder_bytes, 0);
}

/*
 * A retransmission that overtakes what was lost shows the next loss at once, also of a packet that
 * was sent ahead before.
 */
static void responder_reports_loss_after_copy_of_packet_sent_ahead(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, true, 2);
	expect_nothing(peer);
	peer_write_byte(peer, false, 2);
	expect_aeth(peer, 0, NAK_SEQUENCE, true);
	peer_write_byte(peer, false, 0);
	expect_aeth(peer, 1, NAK_SEQUENCE, true);
	peer_write_byte(peer, false, 1);
	expect_aeth(peer, 2, ACK_SYNDROME, true);
}

/* Everything is dropped at the end of the queue pair. */
static void responder_drops_packets_sent_ahead_with_qp(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct peer *peer = *state;

	peer_write_byte(peer, true, 1);
	peer_settle(peer);
	assert_true(roce_of(&peer->node->engine)->reorder_bytes > 0);
	assert_int_equal(ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(roce_of(&peer->node->engine)->reorder_bytes, 0);
	expect_written(peer, 0);
}

#define on_known(test) cmocka_unit_test_setup_teardown(test, open_known, ahead_kit_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(requester_sends_ahead_if_last_ack_permits_it),
		on_peer(requester_ignores_permission_of_stale_ack),
		on_peer(requester_retransmits_in_order),
		on_peer(bursts_pkts_contains_packets_between),
		on_known(responder_keeps_packets_sent_ahead),
		on_known(responder_reports_loss_among_packets_sent_ahead),
		on_peer(responder_of_unknown_flow_ignores_bit),
		on_known(responder_drops_requests_with_psns_of_responses),
		on_known(responder_reports_loss_after_copy_of_packet_sent_ahead),
		on_known(responder_with_full_buffers_permits_nothing_ahead),
		on_known(responder_drops_packets_sent_ahead_with_qp),
	};

	return cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}
