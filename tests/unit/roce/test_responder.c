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

/* The responder, packet by packet: the responses of IBA 1.x §9.7.4 and §9.7.5. */

#define ALL                                                                            \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_FLUSH_GLOBAL)
#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f

static uint8_t bytes[2 * PEER_MTU];

static int set_up(void **state)
{
	static struct peer peer;

	memset(bytes, 0xb5, sizeof(bytes));
	peer_open(&peer, IBV_QPT_RC, ALL);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static uint64_t va(const struct peer *peer, size_t at)
{
	return (uintptr_t)peer->node->buf + at;
}

static struct packet write_only(const struct peer *peer, uint32_t psn, uint32_t length)
{
	return (struct packet){.opcode = OPCODE(RC, WRITE_ONLY),
			       .psn = psn,
			       .wants_ack = true,
			       .va = va(peer, 0),
			       .rkey = peer->node->mr->rkey,
			       .dma_length_bytes = length};
}

static void expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	assert_int_equal(expect_response(peer, OPCODE(RC, ACK), psn, syndrome).msn, msn);
}

static void responder_ack_request_gets_one_coalesced_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet = write_only(peer, PSN(0), 4);

	packet.wants_ack = false;
	peer_send(peer, packet, bytes, 4);
	expect_nothing(peer);
	assert_memory_equal(peer->node->buf, bytes, 4);
	for (uint32_t i = 1; i < 5; i++)
		peer_send(peer, write_only(peer, PSN(i), 4), bytes, 4);
	expect_aeth(peer, PSN(4), ACK_SYNDROME, 5);
	expect_nothing(peer);
}

static void responder_psn_gap_gets_one_nak(void **state)
{
	struct peer *peer = *state;

	/* The state after an in-order request. */
	roce_qp_of(to_qp(peer->qp))->rx.flow_port = peer->path.src_port;
	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	expect_aeth(peer, PSN(0), 0x60, 0);
	peer_send(peer, write_only(peer, PSN(2), 4), bytes, 4);
	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	expect_nothing(peer);
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	/* The other packets were buffered (test_reorder.c). */
	expect_aeth(peer, PSN(2), ACK_SYNDROME, 3);
	peer_send(peer, write_only(peer, PSN(0x7ffffe), 4), bytes, 4);
	expect_aeth(peer, PSN(3), 0x60, 3);
	assert_int_equal(peer->qp->state, IBV_QPS_RTS);
}

static void responder_duplicate_gets_ack_and_is_not_executed(void **state)
{
	struct peer *peer = *state;

	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
	memset(peer->node->buf, 0, 4);
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
	assert_int_equal(peer->node->buf[0], 0);
	peer_send(peer, write_only(peer, psn_sub(PSN(2), 0x7fffff), 4), bytes, 4);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
}

static void responder_no_receive_gets_rnr_nak(void **state)
{
	struct peer *peer = *state;
	struct packet send = {.opcode = OPCODE(RC, SEND_ONLY), .wants_ack = true};
	struct packet write = write_only(peer, PSN(0), 4);
	struct ibv_wc wc;

	send.psn = PSN(0);
	peer_send(peer, send, bytes, 8);
	expect_aeth(peer, PSN(0), 0x20 | 14, 0);
	send.psn = PSN(1);
	peer_send(peer, send, bytes, 8);
	expect_nothing(peer);
	peer_post_recv(peer, 7, 64);
	send.psn = PSN(0);
	peer_send(peer, send, bytes, 8);
	expect_aeth(peer, PSN(0), ACK_SYNDROME, 1);
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, 8);
	/* A WRITE with immediate also needs a receive, and its data is placed only once. */
	write.opcode = OPCODE(RC, WRITE_ONLY_IMM);
	write.psn = PSN(1);
	peer_send(peer, write, bytes, 4);
	expect_aeth(peer, PSN(1), 0x20 | 14, 1);
	peer_post_recv(peer, 8, 64);
	peer_send(peer, write, bytes, 4);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
}

static void responder_duplicate_read_is_answered_from_any_psn(void **state)
{
	struct peer *peer = *state;
	struct packet read = write_only(peer, PSN(0), 2 * PEER_MTU + 3), packet;
	static const uint8_t whole[] = {OPCODE(RC, READ_RESPONSE_FIRST),
					OPCODE(RC, READ_RESPONSE_MIDDLE),
					OPCODE(RC, READ_RESPONSE_LAST)};
	static const uint8_t rest[] = {OPCODE(RC, READ_RESPONSE_FIRST),
				       OPCODE(RC, READ_RESPONSE_LAST)};

	for (size_t i = 0; i < 3 * PEER_MTU; i++)
		peer->node->buf[i] = (uint8_t)(i * 7);
	read.opcode = OPCODE(RC, READ_REQUEST);
	peer_send(peer, read, NULL, 0);
	peer_settle(peer);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, whole[i]);
		assert_int_equal(packet.psn, PSN(i));
		assert_int_equal(packet.payload_bytes, i < 2 ? PEER_MTU : 3);
		assert_memory_equal(packet.payload, peer->node->buf + i * PEER_MTU,
				    packet.payload_bytes);
	}
	expect_nothing(peer);
	read.psn = PSN(1);
	read.va += PEER_MTU;
	read.dma_length_bytes -= PEER_MTU;
	peer_send(peer, read, NULL, 0);
	peer_settle(peer);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, rest[i]);
		assert_int_equal(packet.psn, PSN(1 + i));
		assert_memory_equal(packet.payload, peer->node->buf + (1 + i) * PEER_MTU,
				    packet.payload_bytes);
	}
	/* A duplicate READ beyond the original range is not answered. */
	read.psn = PSN(2);
	peer_send(peer, read, NULL, 0);
	expect_nothing(peer);
	/* The PSN after all responses is next. */
	peer_send(peer, write_only(peer, PSN(3), 4), bytes, 4);
	expect_aeth(peer, PSN(3), ACK_SYNDROME, 2);
}

static void responder_reads_above_depth_get_nak(void **state)
{
	struct peer *peer = *state;
	const struct sim_faults full = {.refuse = SIM_CERTAIN}, none = {0};
	struct packet read = write_only(peer, PSN(0), 4), packet;

	read.opcode = OPCODE(RC, READ_REQUEST);
	for (uint32_t i = 0; i < 3; i++) {
		read.psn = PSN(i);
		peer_send(peer, read, NULL, 0);
	}
	sim_net_set_faults(peer->world.net, &full);
	peer_settle(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	assert_int_equal(peer_event(peer), IBV_EVENT_QP_REQ_ERR);
	sim_net_set_faults(peer->world.net, &none);
	peer->world.now_ns += 1000000;
	peer_settle(peer);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, OPCODE(RC, READ_RESPONSE_ONLY));
	}
	expect_aeth(peer, PSN(2), 0x61, 2);
}

/*
 * Cases that end with a NAK and the QP in ERR: a valid first packet, or NOTHING, and an invalid
 * one.
 */
struct bad_case {
	const char *name;
	uint8_t before;
	uint8_t opcode;
	uint32_t payload;
	uint32_t dma_length;
	uint32_t rkey_flip;
	uint64_t va_add;
	uint32_t recv_bytes;
	uint8_t syndrome;
	int event;
};

#define R(op)	OPCODE(RC, op)
#define NOTHING 0xff
static const struct bad_case bad_cases[] = {
	{"middle of nothing", NOTHING, R(SEND_MIDDLE), PEER_MTU, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"last of nothing", NOTHING, R(WRITE_LAST), 4, 0, 0, 0, 0, 0x61, IBV_EVENT_QP_REQ_ERR},
	{"first in a send", R(SEND_FIRST), R(SEND_FIRST), PEER_MTU, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"only in a write", R(WRITE_FIRST), R(SEND_ONLY), 4, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"read in a send", R(SEND_FIRST), R(READ_REQUEST), 0, 4, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic in a write", R(WRITE_FIRST), R(FETCH_ADD), 0, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"send ends a write", R(WRITE_FIRST), R(SEND_LAST), 4, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"short first", NOTHING, R(SEND_FIRST), PEER_MTU - 4, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"long only", NOTHING, R(SEND_ONLY), PEER_MTU + 4, 0, 0, 0, 512, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"empty last", R(SEND_FIRST), R(SEND_LAST), 0, 0, 0, 0, 512, 0x61, IBV_EVENT_QP_REQ_ERR},
	{"read of 4 GiB", NOTHING, R(READ_REQUEST), 0, 0xffffffff, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"write shorter than it said", NOTHING, R(WRITE_ONLY), 4, 8, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"write longer than it said", NOTHING, R(WRITE_ONLY), 8, 4, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"write, rkey", NOTHING, R(WRITE_ONLY), 4, 4, 0x100, 0, 0, 0x62, IBV_EVENT_QP_ACCESS_ERR},
	{"write, bounds", NOTHING, R(WRITE_ONLY), 4, 4, 0, PEER_BUF_BYTES - 3, 0, 0x62,
	 IBV_EVENT_QP_ACCESS_ERR},
	{"read, rkey", NOTHING, R(READ_REQUEST), 0, 4, 0x100, 0, 0, 0x62, IBV_EVENT_QP_ACCESS_ERR},
	{"read, bounds", NOTHING, R(READ_REQUEST), 0, 4, 0, UINT64_MAX / 2, 0, 0x62,
	 IBV_EVENT_QP_ACCESS_ERR},
	{"atomic, rkey", NOTHING, R(FETCH_ADD), 0, 0, 0x100, 0, 0, 0x62, IBV_EVENT_QP_ACCESS_ERR},
	{"atomic, odd address", NOTHING, R(COMPARE_SWAP), 0, 0, 0, 1, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic write of another length", NOTHING, R(ATOMIC_WRITE), 4, 4, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic write shorter than it said", NOTHING, R(ATOMIC_WRITE), 4, 8, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic write of two words", NOTHING, R(ATOMIC_WRITE), 16, 16, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic write, odd address", NOTHING, R(ATOMIC_WRITE), 8, 8, 0, 4, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"atomic write, rkey", NOTHING, R(ATOMIC_WRITE), 8, 8, 0x100, 0, 0, 0x62,
	 IBV_EVENT_QP_ACCESS_ERR},
	{"atomic write, bounds", NOTHING, R(ATOMIC_WRITE), 8, 8, 0, PEER_BUF_BYTES, 0, 0x62,
	 IBV_EVENT_QP_ACCESS_ERR},
	{"atomic write in a write", R(WRITE_FIRST), R(ATOMIC_WRITE), 8, 8, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	/* No placement type. */
	{"flush of nothing that there is", NOTHING, R(FLUSH), 0, 8, 0, 0, 0, 0x61,
	 IBV_EVENT_QP_REQ_ERR},
	{"send too long", NOTHING, R(SEND_ONLY), 64, 0, 0, 0, 63, 0x61, -1},
	{"invalidate of a region", NOTHING, R(SEND_ONLY_INV), 4, 0, 0, 0, 63, 0x62,
	 IBV_EVENT_QP_ACCESS_ERR},
};

static void refuse_one(const struct bad_case *bad)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = PSN(0);

	peer_open(&peer, IBV_QPT_RC, ALL);
	if (bad->recv_bytes)
		peer_post_recv(&peer, 1, bad->recv_bytes);
	packet = write_only(&peer, psn, 2 * PEER_MTU);
	packet.wants_ack = false;
	if (bad->before != NOTHING) {
		packet.opcode = bad->before;
		peer_send(&peer, packet, bytes, PEER_MTU);
		psn = PSN(1);
	}
	packet.opcode = bad->opcode;
	packet.psn = psn;
	packet.dma_length_bytes = bad->dma_length;
	packet.rkey ^= bad->rkey_flip;
	packet.va += bad->va_add;
	packet.inv_rkey = packet.rkey;
	peer_send(&peer, packet, bytes, bad->payload);
	expect_aeth(&peer, psn, bad->syndrome, 0);
	assert_int_equal(to_qp(peer.qp)->state, IBV_QPS_ERR);
	assert_int_equal(peer_event(&peer), bad->event);
	/* A lost NAK is repeated for every retransmitted request. */
	peer_send(&peer, packet, bytes, bad->payload);
	expect_aeth(&peer, psn, bad->syndrome, 0);
	peer_close(&peer);
}

static void expect_answers(struct peer *peer, uint32_t rkey_psn)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, R(READ_RESPONSE_ONLY));
	assert_int_equal(packet.psn, PSN(0));
	assert_int_equal(packet.payload_bytes, 4);
	expect_aeth(peer, rkey_psn, 0x62, 2);
}

/* Lost packets may be the responses to READs and atomics before the rejected request. */
static void responder_responses_before_nak_are_sent_again(void **state)
{
	struct peer *peer = *state;
	struct packet read = write_only(peer, PSN(0), 4), add = read, bad = read, packet;

	read.opcode = R(READ_REQUEST);
	add.opcode = R(FETCH_ADD);
	add.psn = PSN(1);
	add.swap_or_add = 1;
	bad.psn = PSN(2);
	bad.rkey ^= 0x100;
	peer_send(peer, read, NULL, 0);
	peer_send(peer, add, NULL, 0);
	peer_send(peer, bad, bytes, 4);
	peer_settle(peer);
	for (int i = 0; i < 3; i++)
		assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.syndrome, 0x62);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	peer_send(peer, read, NULL, 0);
	expect_answers(peer, PSN(2));
	peer_send(peer, add, NULL, 0);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, R(ATOMIC_ACK));
	assert_int_equal(packet.atomic_original, 0);
	expect_aeth(peer, PSN(2), 0x62, 2);
	assert_int_equal(*(uint64_t *)(void *)peer->node->buf, 1);
	/*
	 * Requests that were never accepted are not executed, and deregistered memory is not read.
	 */
	read.psn = PSN(3);
	peer_send(peer, read, NULL, 0);
	expect_aeth(peer, PSN(2), 0x62, 2);
	read.psn = PSN(0);
	read.rkey ^= 0x100;
	peer_send(peer, read, NULL, 0);
	expect_aeth(peer, PSN(2), 0x62, 2);
	expect_nothing(peer);
}

static void responder_invalid_request_gets_nak(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
		print_message("# %s\n", bad_cases[i].name);
		refuse_one(&bad_cases[i]);
	}
}

static void responder_request_without_qp_access_gets_nak(void **state)
{
	static const uint8_t opcodes[] = {R(WRITE_ONLY), R(READ_REQUEST), R(FETCH_ADD)};
	struct peer peer;
	struct packet packet;

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		peer_open(&peer, IBV_QPT_RC, 0);
		packet = write_only(&peer, PSN(0), 4);
		packet.opcode = opcodes[i];
		peer_send(&peer, packet, bytes, i ? 0 : 4);
		expect_aeth(&peer, PSN(0), 0x61, 0);
		assert_int_equal(peer_event(&peer), IBV_EVENT_QP_REQ_ERR);
		peer_close(&peer);
	}
}

/* Each packet is counted by its reason, causes no response and has no effect. */
static void responder_wrong_destination_is_dropped_and_counted(void **state)
{
	struct peer *peer = *state;
	struct packet good = write_only(peer, PSN(0), 4), packet;
	struct icrc_flow flow;

	packet = good;
	packet.dest_qpn = peer->qp->qp_num + 1;
	peer_send(peer, packet, bytes, 4);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_UNKNOWN_QPN), 1);
	packet = good;
	packet.pkey = 0xfffe;
	peer_send(peer, packet, bytes, 4);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_PKEY), 1);
	packet = good;
	packet.opcode = OPCODE(UC, WRITE_ONLY);
	peer_send(peer, packet, bytes, 4);
	packet.opcode = OPCODE(UD, SEND_ONLY);
	peer_send(peer, packet, bytes, 4);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_OPCODE), 2);
	/* A valid packet from another address. */
	flow = peer->flow;
	peer->path.local_gid[15]++;
	icrc_flow_init(&peer->flow, peer->path.local_gid, peer->path.remote_gid,
		       peer->path.src_port, PACKET_UDP_PORT);
	{
		uint8_t stranger[GID_BYTES];
		struct link *mine = peer->link, *other;

		memcpy(stranger, peer->path.local_gid, GID_BYTES);
		other = sim_link_new(peer->world.net, stranger);
		assert_non_null(other);
		peer->link = other;
		peer_send(peer, good, bytes, 4);
		expect_nothing(peer);
		link_close(other);
		peer->link = mine;
	}
	peer->path.local_gid[15]--;
	peer->flow = flow;
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_ADDRESS), 1);
	/*
	 * Any bit changed after the ICRC was computed. BTH byte 4 is not covered, and P_Key, QPN
	 * and opcode are checked before.
	 */
	for (size_t at = 8; at < BTH_BYTES + 16 + 4 + ICRC_BYTES; at++)
		peer_send_spoilt(peer, good, bytes, 4, at, 0x10, false);
	expect_nothing(peer);
	assert_int_equal(roce_of(&peer->node->engine)->unparsable[PACKET_ICRC], 4 + 16 + 4 + 4);
	assert_int_equal(peer->node->buf[0], 0);
	peer_send(peer, good, bytes, 4);
	expect_aeth(peer, PSN(0), ACK_SYNDROME, 1);
}

static void responder_uc_sends_no_response(void **state)
{
	struct packet packet = {.opcode = OPCODE(UC, SEND_FIRST), .psn = PSN(5)};
	struct peer peer;
	struct ibv_wc wc;

	(void)state;
	peer_open(&peer, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
	peer_post_recv(&peer, 3, 2 * PEER_MTU);
	/* The last packet is lost: the receive is used for the next message. */
	peer_send(&peer, packet, bytes, PEER_MTU);
	packet.opcode = OPCODE(UC, SEND_LAST);
	packet.psn = PSN(7);
	peer_send(&peer, packet, bytes, 4);
	/* A WRITE in between does not affect the receive, whether or not it is permitted. */
	packet = write_only(&peer, PSN(8), 4);
	packet.opcode = OPCODE(UC, WRITE_ONLY);
	packet.wants_ack = false;
	peer_send(&peer, packet, bytes, 4);
	packet.psn = PSN(9);
	packet.rkey ^= 0x100;
	peer_send(&peer, packet, bytes, 4);
	packet = (struct packet){.opcode = OPCODE(UC, SEND_ONLY_IMM), .psn = PSN(10)};
	packet.imm_be = 0x55;
	peer_send(&peer, packet, bytes, 12);
	/* Again, without a receive. */
	peer_send(&peer, packet, bytes, 12);
	packet.psn = PSN(11);
	peer_send(&peer, packet, bytes, 12);
	expect_nothing(&peer);
	assert_true(world_poll(peer.node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(wc.byte_len, 12);
	assert_int_equal(wc.imm_data, 0x55);
	assert_false(world_poll(peer.node->recv_cq, &wc));
	assert_int_equal(to_qp(peer.qp)->state, IBV_QPS_RTS);
	peer_close(&peer);
}

/* After a dropped message the next PSN that the peer sends is accepted. */
static void responder_uc_accepts_next_message_after_invalid_one(void **state)
{
	struct packet bad, good;
	struct peer peer;

	(void)state;
	peer_open(&peer, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
	good = write_only(&peer, PSN(0), 4);
	good.opcode = OPCODE(UC, WRITE_ONLY);
	bad = good;
	bad.rkey ^= 0x100;
	peer_send(&peer, bad, bytes, 4);
	bad = good;
	bad.dma_length_bytes = 8;
	peer_send(&peer, bad, bytes, 4);
	peer_send(&peer, (struct packet){.opcode = OPCODE(UC, SEND_ONLY), .psn = PSN(0)}, bytes, 4);
	peer_settle(&peer);
	assert_int_equal(peer_counter(&peer, ROCE_DROPPED_ACCESS), 1);
	assert_int_equal(peer_counter(&peer, ROCE_DROPPED_SIZE), 1);
	assert_int_equal(peer_counter(&peer, ROCE_DROPPED_NO_RECV), 1);
	assert_int_equal(peer.node->buf[0], 0);
	peer_send(&peer, good, bytes, 4);
	peer_settle(&peer);
	assert_memory_equal(peer.node->buf, bytes, 4);
	peer_send(&peer, good, bytes, 4);
	peer_settle(&peer);
	assert_int_equal(peer_counter(&peer, ROCE_DROPPED_SEQUENCE), 1);
	peer_close(&peer);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(responder_ack_request_gets_one_coalesced_ack),
		on_peer(responder_psn_gap_gets_one_nak),
		on_peer(responder_duplicate_gets_ack_and_is_not_executed),
		on_peer(responder_no_receive_gets_rnr_nak),
		on_peer(responder_duplicate_read_is_answered_from_any_psn),
		on_peer(responder_responses_before_nak_are_sent_again),
		on_peer(responder_reads_above_depth_get_nak),
		on_peer(responder_wrong_destination_is_dropped_and_counted),
		cmocka_unit_test(responder_invalid_request_gets_nak),
		cmocka_unit_test(responder_request_without_qp_access_gets_nak),
		cmocka_unit_test(responder_uc_sends_no_response),
		cmocka_unit_test(responder_uc_accepts_next_message_after_invalid_one),
	};

	return cmocka_run_group_tests_name("roce-responder", tests, NULL, NULL);
}
