/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "base/trace_ring.h"
#include "expect.h"
#include "wire/aeth.h"

/*
 * XRC, packet by packet (IBA A14): which SRQ a request uses, and the effect of destroying an SRQ on
 * outstanding messages.
 */

#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f
#define RNR_SYNDROME (0x20 | 14)
#define NAK_INVALID  (0x60 | AETH_NAK_INVALID_REQUEST)
#define SRQS	     2

static uint8_t bytes[2 * PEER_MTU];

static struct ibv_srq *srqs[SRQS];
static uint32_t srqns[SRQS];

static void open_srq(struct peer *peer, int i)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = peer->node->pd,
		.xrcd = peer->node->xrcd,
		/* One completion queue for each SRQ, to see where a receive completes. */
		.cq = i ? peer->node->send_cq : peer->node->recv_cq,
	};

	srqs[i] = ibv_create_srq_ex(&peer->node->context.pub.context, &attr);
	assert_non_null(srqs[i]);
	assert_int_equal(ibv_get_srq_num(srqs[i], &srqns[i]), 0);
}

static void close_srq(int i)
{
	assert_int_equal(ibv_destroy_srq(srqs[i]), 0);
	srqs[i] = NULL;
}

static int set_up(void **state)
{
	static struct peer peer;

	memset(bytes, 0xb5, sizeof(bytes));
	peer_open(&peer, IBV_QPT_XRC_RECV, ALL);
	for (int i = 0; i < SRQS; i++)
		open_srq(&peer, i);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < SRQS; i++) {
		if (srqs[i])
			close_srq(i);
	}
	peer_close(*state);
	return 0;
}

static int set_up_sender(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_XRC_SEND, 0);
	*state = &peer;
	return 0;
}

static int tear_down_sender(void **state)
{
	peer_close(*state);
	return 0;
}

static void post_recv(struct peer *peer, int srq, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, PEER_BUF_BYTES, peer->node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srqs[srq], &wr, &bad), 0);
}

static void request(struct peer *peer, enum opcode_operation operation, uint32_t psn, uint32_t srqn,
		    size_t payload_bytes)
{
	struct packet packet = {.opcode = opcode_make(OPCODE_TRANSPORT_XRC, operation),
				.psn = psn,
				.wants_ack = true,
				.xrc_srqn = srqn,
				.va = (uintptr_t)peer->node->buf,
				.rkey = peer->node->mr->rkey,
				.dma_length_bytes = 8};

	peer_send(peer, packet, bytes, payload_bytes);
}

static void expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	(void)expect_response(peer, OPCODE(XRC, ACK), psn, syndrome);
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(world_poll(cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_no_wc(struct peer *peer)
{
	struct ibv_wc wc;

	assert_false(world_poll(peer->node->recv_cq, &wc));
	assert_false(world_poll(peer->node->send_cq, &wc));
}

static void responder_xrc_uses_srq_of_packet(void **state)
{
	struct peer *peer = *state;

	post_recv(peer, 1, 7);
	request(peer, OPCODE_SEND_ONLY, PSN(0), srqns[0], 8);
	expect_aeth(peer, PSN(0), RNR_SYNDROME);
	expect_no_wc(peer);
	post_recv(peer, 0, 6);
	request(peer, OPCODE_SEND_ONLY, PSN(0), srqns[0], 8);
	expect_aeth(peer, PSN(0), ACK_SYNDROME);
	expect_wc(peer->node->recv_cq, 6, IBV_WC_SUCCESS);
	request(peer, OPCODE_SEND_FIRST, PSN(1), srqns[1], PEER_MTU);
	request(peer, OPCODE_SEND_LAST, PSN(2), srqns[1], 8);
	expect_aeth(peer, PSN(2), ACK_SYNDROME);
	expect_wc(peer->node->send_cq, 7, IBV_WC_SUCCESS);
	expect_no_wc(peer);
}

static void expect_refusal(struct peer *peer, uint32_t psn)
{
	expect_aeth(peer, psn, NAK_INVALID);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	assert_int_equal(peer_event(peer), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(peer_event(peer), -1);
}

static void responder_xrc_unknown_srqn_gets_nak(void **state)
{
	struct peer *peer = *state;

	request(peer, OPCODE_WRITE_ONLY, PSN(0), srqns[0], 8);
	expect_aeth(peer, PSN(0), ACK_SYNDROME);
	request(peer, OPCODE_WRITE_ONLY, PSN(1), 0, 8);
	expect_refusal(peer, PSN(1));
}

static void responder_xrc_other_srqn_within_message_gets_nak(void **state)
{
	struct peer *peer = *state;

	post_recv(peer, 0, 6);
	post_recv(peer, 1, 7);
	request(peer, OPCODE_SEND_FIRST, PSN(0), srqns[0], PEER_MTU);
	expect_aeth(peer, PSN(0), ACK_SYNDROME);
	request(peer, OPCODE_SEND_LAST, PSN(1), srqns[1], 8);
	expect_refusal(peer, PSN(1));
	/* The receive that the message had taken completes in the CQ of its SRQ. */
	expect_wc(peer->node->recv_cq, 6, IBV_WC_WR_FLUSH_ERR);
	expect_no_wc(peer);
}

static void responder_xrc_srq_destroyed_within_message_gets_nak(void **state)
{
	struct peer *peer = *state;

	post_recv(peer, 0, 6);
	request(peer, OPCODE_SEND_FIRST, PSN(0), srqns[0], PEER_MTU);
	expect_aeth(peer, PSN(0), ACK_SYNDROME);
	close_srq(0);
	request(peer, OPCODE_SEND_LAST, PSN(1), srqns[0], 8);
	expect_refusal(peer, PSN(1));
	expect_no_wc(peer);
}

static void responder_xrc_duplicate_read_needs_its_srq(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	for (int i = 0; i < 2; i++) {
		request(peer, OPCODE_READ_REQUEST, PSN(0), srqns[1], 0);
		peer_settle(peer);
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, OPCODE(XRC, READ_RESPONSE_ONLY));
		assert_int_equal(packet.payload_bytes, 8);
	}
	close_srq(1);
	request(peer, OPCODE_READ_REQUEST, PSN(0), srqns[1], 0);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_STALE), 1);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
}

static void responder_xrc_atomic_response_has_xrc_opcode(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(XRC, COMPARE_SWAP),
				.psn = PSN(0),
				.xrc_srqn = srqns[0],
				.va = (uintptr_t)peer->node->buf,
				.rkey = peer->node->mr->rkey,
				.compare = 0,
				.swap_or_add = 9};
	uint64_t word;

	peer_send(peer, packet, NULL, 0);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, ATOMIC_ACK));
	assert_int_equal(packet.atomic_original, 0);
	memcpy(&word, peer->node->buf, sizeof(word));
	assert_int_equal(word, 9);
}

static void responder_xrc_opcode_of_other_service_is_dropped(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(RC, WRITE_ONLY),
				.psn = PSN(0),
				.va = (uintptr_t)peer->node->buf,
				.rkey = peer->node->mr->rkey,
				.dma_length_bytes = 8};

	peer_send(peer, packet, bytes, 8);
	packet.opcode = OPCODE(XRC, ACK);
	peer_send(peer, packet, NULL, 0);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_OPCODE), 2);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
}

static void requester_xrc_every_packet_has_xrceth(void **state)
{
	struct peer *peer = *state;
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, 2 * PEER_MTU, peer->node->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .qp_type.xrc.remote_srqn = 0xabcdef};
	struct ibv_send_wr *bad;
	struct packet packet;

	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, SEND_FIRST));
	assert_int_equal(packet.xrc_srqn, 0xabcdef);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, SEND_LAST));
	assert_int_equal(packet.xrc_srqn, 0xabcdef);
	/* A response or a request of RC is not for this QP. */
	peer_answer(peer, packet.psn, ACK_SYNDROME);
	request(peer, OPCODE_WRITE_ONLY, PSN(0), 0xabcdef, 8);
	expect_nothing(peer);
	expect_no_wc(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_OPCODE), 2);
	packet = (struct packet){
		.opcode = OPCODE(XRC, ACK), .psn = packet.psn, .syndrome = ACK_SYNDROME};
	peer_send(peer, packet, NULL, 0);
	peer_settle(peer);
	expect_wc(peer->node->send_cq, 0, IBV_WC_SUCCESS);
}

/* Without tracers that need each packet, a packet is an event only if it is a NAK. */
static void roce_probe_xrc_nak_is_traced_without_packets(void **state)
{
	struct peer *peer = *state;
	int fd = trace_ring_create(), naks = 0;
	struct trace_ring_reader reader;
	struct trace_clock clock;
	struct trace_event event;

	trace_clock_init(&clock);
	assert_int_equal(trace_ring_open(&reader, fd, &clock), 0);
	assert_int_equal(trace_ring_attach(fd), 0);
	trace_ring_want_packets(false);
	request(peer, OPCODE_SEND_ONLY, PSN(0), 0xabcdef, 8);
	expect_aeth(peer, PSN(0), NAK_INVALID);
	trace_ring_refresh(&reader);
	while (trace_ring_next(&reader, &event)) {
		assert_int_not_equal(event.type, TRACE_PACKET_RECEIVED);
		naks += event.type == TRACE_PACKET_SENT;
	}
	assert_int_equal(naks, 1);
	trace_ring_detach();
	trace_ring_close(&reader);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(responder_xrc_uses_srq_of_packet),
		TEST(responder_xrc_unknown_srqn_gets_nak),
		TEST(roce_probe_xrc_nak_is_traced_without_packets),
		TEST(responder_xrc_other_srqn_within_message_gets_nak),
		TEST(responder_xrc_srq_destroyed_within_message_gets_nak),
		TEST(responder_xrc_duplicate_read_needs_its_srq),
		TEST(responder_xrc_atomic_response_has_xrc_opcode),
		TEST(responder_xrc_opcode_of_other_service_is_dropped),
		cmocka_unit_test_setup_teardown(requester_xrc_every_packet_has_xrceth,
						set_up_sender, tear_down_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
