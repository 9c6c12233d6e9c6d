/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "peer.h"
#include "wire/aeth.h"

/* The responder, packet by packet: what IBA 1.x §9.7.4 and §9.7.5 have it answer. */

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
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ACK));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.syndrome, syndrome);
	assert_int_equal(packet.msn, msn);
}

static void expect_nothing(struct peer *peer)
{
	struct packet packet;

	peer_settle(peer);
	assert_false(peer_next(peer, &packet));
}

static void acks_when_asked_and_once_for_many(void **state)
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

static void naks_a_gap_once(void **state)
{
	struct peer *peer = *state;

	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	expect_aeth(peer, PSN(0), 0x60, 0);
	peer_send(peer, write_only(peer, PSN(2), 4), bytes, 4);
	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	expect_nothing(peer);
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	/* The others were kept (test_kept.c). */
	expect_aeth(peer, PSN(2), ACK_SYNDROME, 3);
	peer_send(peer, write_only(peer, PSN(0x7ffffe), 4), bytes, 4);
	expect_aeth(peer, PSN(3), 0x60, 3);
	assert_int_equal(peer->qp->state, IBV_QPS_RTS);
}

static void acks_a_duplicate_without_executing_it(void **state)
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

static void turns_away_without_a_receive(void **state)
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
	/* The immediate of a WRITE needs one as well, and its bytes are placed but once. */
	write.opcode = OPCODE(RC, WRITE_ONLY_IMM);
	write.psn = PSN(1);
	peer_send(peer, write, bytes, 4);
	expect_aeth(peer, PSN(1), 0x20 | 14, 1);
	peer_post_recv(peer, 8, 64);
	peer_send(peer, write, bytes, 4);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
}

static void reads_come_in_pieces_and_again_from_anywhere(void **state)
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
	/* More than was asked for in turn: not answered. */
	read.psn = PSN(2);
	peer_send(peer, read, NULL, 0);
	expect_nothing(peer);
	/* The PSN behind all responses is next. */
	peer_send(peer, write_only(peer, PSN(3), 4), bytes, 4);
	expect_aeth(peer, PSN(3), ACK_SYNDROME, 2);
}

static void atomics_are_executed_once(void **state)
{
	struct peer *peer = *state;
	struct packet add = {.opcode = OPCODE(RC, FETCH_ADD),
			     .va = va(peer, 64),
			     .rkey = peer->node->mr->rkey,
			     .swap_or_add = 5};
	struct packet packet;
	uint64_t word = 40;

	memcpy(peer->node->buf + 64, &word, 8);
	for (uint32_t i = 0; i < 2; i++) {
		add.psn = PSN(i);
		peer_send(peer, add, NULL, 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		add.psn = PSN(i);
		peer_send(peer, add, NULL, 0);
		peer_settle(peer);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, OPCODE(RC, ATOMIC_ACK));
		assert_int_equal(packet.psn, PSN(i));
		assert_int_equal(packet.atomic_original, 40 + 5 * i);
	}
	memcpy(&word, peer->node->buf + 64, 8);
	assert_int_equal(word, 50);
}

static void no_more_reads_than_agreed(void **state)
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
	expect_aeth(peer, PSN(2), 0x61, 3);
}

/* What must end with a NAK and the QP in ERR: a first packet that is fine, or NOTHING, and one that is not. */
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
	/* Of no type. */
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
	/* Lost on the way, it is said again, to whatever the requester sends again. */
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

/* What was lost may be the answers to READs and atomics before the request that was refused. */
static void answers_before_a_refusal_come_again(void **state)
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
	/* What was never accepted is not done now, and memory that was let go of is not read. */
	read.psn = PSN(3);
	peer_send(peer, read, NULL, 0);
	expect_aeth(peer, PSN(2), 0x62, 2);
	read.psn = PSN(0);
	read.rkey ^= 0x100;
	peer_send(peer, read, NULL, 0);
	expect_aeth(peer, PSN(2), 0x62, 2);
	expect_nothing(peer);
}

static void refuses_what_breaks_a_rule(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
		print_message("# %s\n", bad_cases[i].name);
		refuse_one(&bad_cases[i]);
	}
}

static void refuses_what_the_qp_does_not_permit(void **state)
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

/* Each is counted for what it is, answered with nothing, and harmless. */
static void drops_what_is_not_for_it(void **state)
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
	/* From elsewhere, and right in itself. */
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
	 * Any bit wrong after the ICRC was made. BTH byte 4 is not covered, and P_Key, QPN and opcode are looked at
	 * before.
	 */
	for (size_t at = 8; at < BTH_BYTES + 16 + 4 + ICRC_BYTES; at++)
		peer_send_spoilt(peer, good, bytes, 4, at, 0x10, false);
	expect_nothing(peer);
	assert_int_equal(peer->node->engine.roce->unparsable[PACKET_ICRC], 4 + 16 + 4 + 4);
	assert_int_equal(peer->node->buf[0], 0);
	peer_send(peer, good, bytes, 4);
	expect_aeth(peer, PSN(0), ACK_SYNDROME, 1);
}

static void uc_answers_nothing(void **state)
{
	struct packet packet = {.opcode = OPCODE(UC, SEND_FIRST), .psn = PSN(5)};
	struct peer peer;
	struct ibv_wc wc;

	(void)state;
	peer_open(&peer, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
	peer_post_recv(&peer, 3, 2 * PEER_MTU);
	/* Its end is lost: the receive is used for the next. */
	peer_send(&peer, packet, bytes, PEER_MTU);
	packet.opcode = OPCODE(UC, SEND_LAST);
	packet.psn = PSN(7);
	peer_send(&peer, packet, bytes, 4);
	/* A WRITE in between has nothing to do with it, allowed or not. */
	packet = write_only(&peer, PSN(8), 4);
	packet.opcode = OPCODE(UC, WRITE_ONLY);
	peer_send(&peer, packet, bytes, 4);
	packet.psn = PSN(9);
	packet.rkey ^= 0x100;
	peer_send(&peer, packet, bytes, 4);
	packet = (struct packet){.opcode = OPCODE(UC, SEND_ONLY_IMM), .psn = PSN(10)};
	packet.imm_be = 0x55;
	peer_send(&peer, packet, bytes, 12);
	/* Again, and with no receive left. */
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

/* What is refused leaves the place in the stream to whatever the peer sends there. */
static void uc_goes_on_where_something_wrong_was(void **state)
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
		on_peer(acks_when_asked_and_once_for_many),
		on_peer(naks_a_gap_once),
		on_peer(acks_a_duplicate_without_executing_it),
		on_peer(turns_away_without_a_receive),
		on_peer(reads_come_in_pieces_and_again_from_anywhere),
		on_peer(answers_before_a_refusal_come_again),
		on_peer(atomics_are_executed_once),
		on_peer(no_more_reads_than_agreed),
		on_peer(drops_what_is_not_for_it),
		cmocka_unit_test(refuses_what_breaks_a_rule),
		cmocka_unit_test(refuses_what_the_qp_does_not_permit),
		cmocka_unit_test(uc_answers_nothing),
		cmocka_unit_test(uc_goes_on_where_something_wrong_was),
	};

	return cmocka_run_group_tests_name("roce-responder", tests, NULL, NULL);
}
