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

/*
 * Packets that are sent ahead of those with lower PSNs (docs/adr/0062): the requester, and the
 * responder.
 */

#define PSN(n)	       psn_add(PEER_FIRST_PSN, (n))
#define OWN_PSN(n)     psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME   0x1f
#define NAK_SEQUENCE   0x60
#define PAIRS	       3
#define PAIR_PACKETS   3 /* a WRITE of two packets and a SEND */
#define RESPONSE_AFTER 14
#define FULL_BYTES     ((size_t)(8 << 20) + 1)
#define READS_OUT      4
#define READ_PACKETS   3
#define READ_BYTES     (READ_PACKETS * PEER_MTU)

static int open_peer(void **state)
{
	static struct peer peer;

	peer_open_reads(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
			READS_OUT);
	*state = &peer;
	return 0;
}

/* The state after an in-order request of a sender of this project. */
static int open_known(void **state)
{
	struct peer *peer;

	open_peer(state);
	peer = *state;
	roce_qp_of(to_qp(peer->qp))->rx.flow_port = peer->path.src_port;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

/* An ACK of the peer for the n-th packet of the queue pair. */
static void answer(struct peer *peer, uint32_t n, bool takes_ahead)
{
	peer_send(peer,
		  (struct packet){.opcode = OPCODE(RC, ACK),
				  .psn = OWN_PSN(n),
				  .syndrome = ACK_SYNDROME,
				  .msn = n + 1,
				  .takes_ahead = takes_ahead},
		  NULL, 0);
	peer_settle(peer);
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

/* Posts two READs and a SEND between them, whose packets have the PSNs 0 to 2, 3, and 4 to 6. */
static void post_reads(struct peer *peer)
{
	const struct ibv_mr *mr = peer->node->mr;
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[3] = {0}, *bad;

	for (uint32_t i = 0; i < 3; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)peer->node->buf + i * READ_BYTES,
					  i == 1 ? 16 : READ_BYTES, mr->lkey};
		wr[i].wr_id = i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = i == 1 ? IBV_WR_SEND : IBV_WR_RDMA_READ;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = PEER_REMOTE_ADDR;
		wr[i].wr.rdma.rkey = PEER_RKEY;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(peer->qp, wr, &bad), 0);
	peer_settle(peer);
}

static void expect_read_request(struct peer *peer, uint32_t n, bool takes_ahead)
{
	struct packet packet;

	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, READ_REQUEST));
	assert_int_equal(packet.psn, OWN_PSN(n));
	assert_int_equal(packet.takes_ahead, takes_ahead);
}

/* A response of the peer with the PSN n after `first`, full of n + 1. */
static void respond(struct peer *peer, uint32_t first, uint32_t n, bool is_ahead, uint32_t bytes)
{
	static const uint8_t opcodes[] = {OPCODE(RC, READ_RESPONSE_FIRST),
					  OPCODE(RC, READ_RESPONSE_MIDDLE),
					  OPCODE(RC, READ_RESPONSE_LAST)};
	uint8_t payload[PEER_MTU];

	memset(payload, (int)n + 1, sizeof(payload));
	peer_send(peer,
		  (struct packet){.opcode = opcodes[n % (READ_PACKETS + 1) % READ_PACKETS],
				  .psn = OWN_PSN(first + n),
				  .syndrome = ACK_SYNDROME,
				  .is_ahead = is_ahead,
				  .takes_ahead = true},
		  payload, bytes);
	peer_settle(peer);
}

/* The number of WRs that have completed, all with success. */
static int completed(struct peer *peer)
{
	struct ibv_wc wc;
	int count = 0;

	while (world_poll(peer->node->send_cq, &wc)) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		count++;
	}
	return count;
}

static void expect_read(const struct peer *peer, uint32_t wr, uint32_t first)
{
	const uint8_t *at = peer->node->buf + wr * READ_BYTES;

	for (uint32_t i = 0; i < READ_BYTES; i++)
		assert_int_equal(at[i], first + i / PEER_MTU + 1);
}

/*
 * Responses that arrive ahead are stored, and complete their READs when the others have arrived.
 * They acknowledge the SEND.
 */
static void requester_keeps_read_responses_sent_ahead(void **state)
{
	static const uint8_t order[] = {0, 2, 4, 6, 1, 5};
	struct peer *peer = *state;
	struct packet packet;
	uint32_t sent = 1;

	/* A READ of one packet shows the source port of the peer. */
	peer_post_send(peer, IBV_WR_RDMA_READ, 4, IBV_SEND_SIGNALED);
	peer_settle(peer);
	expect_read_request(peer, 0, false);
	peer_send(peer,
		  (struct packet){.opcode = OPCODE(RC, READ_RESPONSE_ONLY),
				  .psn = OWN_PSN(0),
				  .syndrome = ACK_SYNDROME,
				  .takes_ahead = true},
		  "data", 4);
	peer_settle(peer);
	assert_int_equal(completed(peer), 1);
	post_reads(peer);
	expect_read_request(peer, sent, true);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, SEND_ONLY));
	expect_read_request(peer, sent + 4, true);
	for (size_t i = 0; i < sizeof(order); i++) {
		assert_int_equal(completed(peer), i == 5 ? 2 : 0);
		respond(peer, sent, order[i], order[i] != 0 && order[i] % 4 != 1, PEER_MTU);
	}
	assert_int_equal(completed(peer), 1);
	expect_read(peer, 0, 0);
	expect_read(peer, 2, 4);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_RECEIVED_AHEAD), 3);
	assert_int_equal(peer_counter(peer, ROCE_PACKETS_RESENT), 0);
	/* Copies are responses to nothing. */
	respond(peer, sent, 2, true, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 1);
}

/*
 * A response that was not sent ahead shows a loss, and those that were kept need not arrive again.
 */
static void requester_requests_again_what_precedes_kept_responses(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	post_reads(peer);
	expect_read_request(peer, 0, false);
	assert_true(peer_next(peer, &packet));
	expect_read_request(peer, 4, false);
	respond(peer, 0, 0, false, PEER_MTU);
	respond(peer, 0, 2, true, PEER_MTU);
	respond(peer, 0, 4, true, PEER_MTU);
	expect_nothing(peer);
	respond(peer, 0, 5, false, PEER_MTU);
	expect_read_request(peer, 1, true);
	assert_true(peer_next(peer, &packet));
	expect_read_request(peer, 4, true);
	respond(peer, 0, 1, false, PEER_MTU);
	assert_int_equal(completed(peer), 2);
	/* 2 and 4 took effect before. */
	respond(peer, 0, 2, false, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 1);
	respond(peer, 0, 5, false, PEER_MTU);
	respond(peer, 0, 6, false, PEER_MTU);
	assert_int_equal(completed(peer), 1);
	expect_read(peer, 0, 0);
	expect_read(peer, 2, 4);
}

/*
 * Responses that the peer should not send are dropped: of the wrong length, to a SEND, repeated,
 * never requested.
 */
static void requester_drops_wrong_responses_sent_ahead(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	post_reads(peer);
	while (peer_next(peer, &packet))
		;
	/* The source port of the peer is not known yet. */
	respond(peer, 0, 2, true, PEER_MTU);
	respond(peer, 0, 0, false, PEER_MTU);
	respond(peer, 0, 2, true, PEER_MTU - 4);
	respond(peer, 0, 3, true, PEER_MTU);
	respond(peer, 0, 7, true, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 4);
	respond(peer, 0, 2, true, PEER_MTU);
	respond(peer, 0, 2, true, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 5);
	assert_int_equal(peer_counter(peer, ROCE_RECEIVED_AHEAD), 1);
	assert_int_equal(completed(peer), 0);
	respond(peer, 0, 1, false, PEER_MTU);
	assert_int_equal(completed(peer), 1);
	expect_read(peer, 0, 0);
}

static void set_port(struct peer *peer, uint16_t port)
{
	peer->path.src_port = port;
	icrc_flow_init(&peer->flow, peer_gid, peer->node->gid, port, PACKET_UDP_PORT);
}

/*
 * A forger does not know the source port. Responses and ACKs that are not expected do not make its
 * own one known.
 */
static void requester_drops_responses_ahead_from_other_port(void **state)
{
	struct peer *peer = *state;
	uint16_t port = peer->path.src_port;
	struct packet packet;

	post_reads(peer);
	while (peer_next(peer, &packet))
		;
	respond(peer, 0, 0, false, PEER_MTU);
	set_port(peer, port ^ 1);
	respond(peer, 0, 4, true, PEER_MTU);
	respond(peer, 0, 5, false, PEER_MTU);
	answer(peer, 0, true);
	respond(peer, 0, 4, true, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_RECEIVED_AHEAD), 0);
	set_port(peer, port);
	respond(peer, 0, 4, true, PEER_MTU);
	assert_int_equal(peer_counter(peer, ROCE_RECEIVED_AHEAD), 1);
}

/*
 * The responses to two READs: the first and last packets have an AETH, and are sent before the
 * middle ones.
 */
static void responder_sends_read_responses_ahead_if_request_permits_it(void **state)
{
	static const uint8_t orders[][2 * READ_PACKETS] = {{0, 1, 2, 3, 4, 5}, {0, 2, 3, 5, 1, 4}};
	struct peer *peer = *state;
	struct packet packet;
	uint32_t psn = 0;

	for (int permits = 0; permits < 2; permits++) {
		for (uint32_t i = 0; i < 2; i++)
			peer_send(peer,
				  (struct packet){.opcode = OPCODE(RC, READ_REQUEST),
						  .psn = PSN(psn + i * READ_PACKETS),
						  .takes_ahead = permits,
						  .va = (uintptr_t)peer->node->buf,
						  .rkey = peer->node->mr->rkey,
						  .dma_length_bytes = READ_BYTES},
				  NULL, 0);
		peer_settle(peer);
		for (uint32_t i = 0; i < 2 * READ_PACKETS; i++) {
			assert_true(peer_next(peer, &packet));
			assert_int_equal(packet.psn, PSN(psn + orders[permits][i]));
			assert_int_equal(packet.is_ahead, permits && (i >= 1 && i <= 3));
		}
		expect_nothing(peer);
		psn += 2 * READ_PACKETS;
	}
}

#define on_peer(test)  cmocka_unit_test_setup_teardown(test, open_peer, tear_down)
#define on_known(test) cmocka_unit_test_setup_teardown(test, open_known, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(requester_sends_ahead_if_last_ack_permits_it),
		on_peer(requester_ignores_permission_of_stale_ack),
		on_peer(requester_retransmits_in_order),
		on_peer(bursts_pkts_contains_packets_between),
		on_peer(requester_keeps_read_responses_sent_ahead),
		on_peer(requester_requests_again_what_precedes_kept_responses),
		on_peer(requester_drops_wrong_responses_sent_ahead),
		on_peer(requester_drops_responses_ahead_from_other_port),
		on_peer(responder_sends_read_responses_ahead_if_request_permits_it),
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
