/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ahead_kit.h"

/*
 * READ responses that are sent ahead of those with lower PSNs (docs/adr/0062): the requester, and
 * the responder.
 */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(requester_keeps_read_responses_sent_ahead),
		on_peer(requester_requests_again_what_precedes_kept_responses),
		on_peer(requester_drops_wrong_responses_sent_ahead),
		on_peer(requester_drops_responses_ahead_from_other_port),
		on_peer(responder_sends_read_responses_ahead_if_request_permits_it),
	};

	return cmocka_run_group_tests_name("read_ahead", tests, NULL, NULL);
}
