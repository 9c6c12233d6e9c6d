/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "../../with_locks.h"
#include "core/engine/transport.h"
#include "peer.h"
#include "roce/qp.h"

/* When the responder sends its ACKs, and the limits of its other responses. */

#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f
#define NAK_SEQUENCE 0x60
#define NAK_INVALID  0x61
#define NAK_ACCESS   0x62
#define PRIVATE_BYTE 0x5e
#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const uint8_t bytes[4];

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, ALL);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static struct packet write_only(const struct peer *peer, uint32_t psn, uint32_t length)
{
	return (struct packet){.opcode = OPCODE(RC, WRITE_ONLY),
			       .psn = psn,
			       .wants_ack = true,
			       .va = (uintptr_t)peer->node->buf,
			       .rkey = peer->node->mr->rkey,
			       .dma_length_bytes = length};
}

static void expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	struct packet packet;

	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ACK));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.syndrome, syndrome);
	assert_int_equal(packet.msn, msn);
}

/* Runs the engine once for the packets that have arrived. */
static void run_once(struct peer *peer)
{
	peer->world.now_ns += 1000;
	sim_net_advance(peer->world.net, peer->world.now_ns);
	WITH_LOCKS(&peer->node->engine, roce_transport.run(&peer->node->engine));
	peer->world.now_ns += 1000;
	sim_net_advance(peer->world.net, peer->world.now_ns);
}

static void roce_run_spinning_application_delays_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer->node->engine.run_by = RUN_BY_REPLIER;
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	run_once(peer);
	assert_false(peer_next(peer, &packet));
	/*
	 * A thread that replies soon does not run the transport again for the ACK; an engine that
	 * would sleep does.
	 */
	WITH_LOCKS(&peer->node->engine,
		   assert_false(roce_transport.sleep(&peer->node->engine, true)));
	peer->node->engine.run_by = RUN_BY_CALL;
	WITH_LOCKS(&peer->node->engine,
		   assert_true(roce_transport.sleep(&peer->node->engine, true)));
	peer->node->engine.run_by = RUN_BY_REPLIER;
	run_once(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ACK));
	/*
	 * The pending ACK is sent with the next message, and before it: a reply completes after the
	 * request that it answers.
	 */
	peer_send(peer, write_only(peer, PSN(1), 4), bytes, 4);
	run_once(peer);
	assert_false(peer_next(peer, &packet));
	peer_post_send(peer, IBV_WR_SEND, 8, 0);
	expect_aeth(peer, PSN(1), ACK_SYNDROME, 2);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, SEND_ONLY));
	/*
	 * A NAK is sent immediately, and so is an ACK if the application does not poll
	 * continuously.
	 */
	peer_send(peer, write_only(peer, PSN(3), 4), bytes, 4);
	run_once(peer);
	expect_aeth(peer, PSN(2), NAK_SEQUENCE, 2);
	peer->node->engine.run_by = RUN_BY_CALL;
	peer_send(peer, write_only(peer, PSN(2), 4), bytes, 4);
	run_once(peer);
	expect_aeth(peer, PSN(3), ACK_SYNDROME, 4);
}

/* A peer that processes ACKs first receives one burst. */
static void roce_kick_puts_ack_behind_send_for_peer_of_this_project(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer->node->engine.run_by = RUN_BY_REPLIER;
	roce_qp_of(to_qp(peer->qp))->tx.may_overtake = true;
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	run_once(peer);
	peer_post_send(peer, IBV_WR_SEND, 8, 0);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, SEND_ONLY));
	expect_aeth(peer, PSN(0), ACK_SYNDROME, 1);
}

/*
 * The last packet of a SEND makes the peer's receive complete, and the ACK completes the request
 * that was received before.
 */
static void roce_kick_puts_ack_before_last_packet_of_send(void **state)
{
	static const uint8_t wanted[] = {OPCODE(RC, SEND_FIRST), OPCODE(RC, ACK),
					 OPCODE(RC, SEND_LAST)};
	struct peer *peer = *state;
	struct packet packet;

	peer->node->engine.run_by = RUN_BY_REPLIER;
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	run_once(peer);
	peer_post_send(peer, IBV_WR_SEND, 2 * PEER_MTU, 0);
	for (size_t i = 0; i < sizeof(wanted); i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, wanted[i]);
	}
	assert_false(peer_next(peer, &packet));
}

/* The first packet of a WRITE is longer than the second, so that a GSO burst ends there. */
static void roce_kick_puts_ack_after_first_packet_of_write(void **state)
{
	static const uint8_t wanted[] = {OPCODE(RC, WRITE_FIRST), OPCODE(RC, ACK),
					 OPCODE(RC, WRITE_MIDDLE), OPCODE(RC, WRITE_LAST_IMM)};
	struct peer *peer = *state;
	struct packet packet;

	peer->node->engine.run_by = RUN_BY_REPLIER;
	peer_send(peer, write_only(peer, PSN(0), 4), bytes, 4);
	run_once(peer);
	assert_false(peer_next(peer, &packet));
	peer_post_send(peer, IBV_WR_RDMA_WRITE_WITH_IMM, 3 * PEER_MTU, 0);
	for (size_t i = 0; i < sizeof(wanted); i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, wanted[i]);
	}
	assert_false(peer_next(peer, &packet));
	/* A later WRITE has no ACK to carry. */
	peer_answer(peer, PEER_SECOND_PSN + 2, ACK_SYNDROME);
	peer_post_send(peer, IBV_WR_RDMA_WRITE_WITH_IMM, 2 * PEER_MTU, 0);
	assert_true(peer_next(peer, &packet));
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, WRITE_LAST_IMM));
}

static void roce_sleep_pending_packets_prevent_sleep(void **state)
{
	struct peer *peer = *state;

	for (uint32_t i = 0; i <= ROCE_BATCH; i++)
		peer_send(peer, write_only(peer, PSN(i), 4), bytes, 4);
	run_once(peer);
	WITH_LOCKS(&peer->node->engine,
		   assert_true(roce_transport.sleep(&peer->node->engine, true)));
	run_once(peer);
	expect_aeth(peer, PSN(ROCE_BATCH - 1), ACK_SYNDROME, ROCE_BATCH);
	expect_aeth(peer, PSN(ROCE_BATCH), ACK_SYNDROME, ROCE_BATCH + 1);
	WITH_LOCKS(&peer->node->engine,
		   assert_false(roce_transport.sleep(&peer->node->engine, true)));
}

/* The link accepts no packet while `full`. */
static void set_back_pressure(struct peer *peer, bool full)
{
	const struct sim_faults faults = {.refuse = full ? SIM_CERTAIN : 0};

	sim_net_set_faults(peer->world.net, &faults);
}

static void response_atomic_above_depth_is_not_executed(void **state)
{
	struct peer *peer = *state;
	struct packet add = write_only(peer, PSN(0), 0), packet;
	uint64_t word = 40;

	memcpy(peer->node->buf, &word, sizeof(word));
	add.opcode = OPCODE(RC, FETCH_ADD);
	add.swap_or_add = 1;
	for (uint32_t i = 0; i < 3; i++) {
		add.psn = PSN(i);
		peer_send(peer, add, NULL, 0);
	}
	set_back_pressure(peer, true);
	peer_settle(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	set_back_pressure(peer, false);
	peer->world.now_ns += 1000000;
	peer_settle(peer);
	for (uint64_t i = 0; i < 2; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.atomic_original, 40 + i);
	}
	memcpy(&word, peer->node->buf, sizeof(word));
	assert_int_equal(word, 42);
	expect_aeth(peer, PSN(2), NAK_INVALID, 2);
}

static struct packet read_request(const struct peer *peer, uint32_t psn, uint32_t length)
{
	struct packet read = write_only(peer, psn, length);

	read.opcode = OPCODE(RC, READ_REQUEST);
	return read;
}

/* Fills the memory that the peer reads, and lets the link accept packets again. */
static void make_memory_private(struct peer *peer)
{
	memset(peer->node->buf, PRIVATE_BYTE, PEER_BUF_BYTES);
	set_back_pressure(peer, false);
}

/* Checks that no response contains the private memory. */
static void expect_memory_is_private(struct peer *peer)
{
	struct packet packet;

	peer->world.now_ns += 1000000;
	peer_settle(peer);
	while (peer_next(peer, &packet)) {
		if (packet.info->is_read && packet.payload_bytes)
			assert_int_not_equal(packet.payload[0], PRIVATE_BYTE);
	}
}

/* Begins the responses to a long READ, until the link accepts no more packets. */
static void begin_long_read(struct peer *peer)
{
	peer_send(peer, read_request(peer, PSN(0), PEER_BUF_BYTES), NULL, 0);
	run_once(peer);
	set_back_pressure(peer, true);
	run_once(peer);
}

static void modify_to(struct peer *peer, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	assert_int_equal(ibv_modify_qp(peer->qp, &attr, IBV_QP_STATE), 0);
}

static void response_long_read_ends_with_modify_to_err(void **state)
{
	begin_long_read(*state);
	modify_to(*state, IBV_QPS_ERR);
	make_memory_private(*state);
	expect_memory_is_private(*state);
}

static void response_long_read_is_not_resumed_by_modify_to_reset(void **state)
{
	begin_long_read(*state);
	modify_to(*state, IBV_QPS_ERR);
	make_memory_private(*state);
	modify_to(*state, IBV_QPS_RESET);
	expect_memory_is_private(*state);
}

/* A request was rejected before, so that the QP is in ERR already, and duplicates get responses. */
static void response_duplicate_read_after_modify_to_err_is_not_executed(void **state)
{
	struct peer *peer = *state;
	struct packet add = write_only(peer, PSN(1), 0), bad = write_only(peer, PSN(2), 4), packet;

	add.opcode = OPCODE(RC, FETCH_ADD);
	add.va += 64;
	add.swap_or_add = 1;
	bad.rkey ^= 0x100;
	peer_send(peer, read_request(peer, PSN(0), 4), NULL, 0);
	peer_send(peer, add, NULL, 0);
	peer_send(peer, bad, bytes, 4);
	peer_settle(peer);
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_ERR);
	while (peer_next(peer, &packet))
		;
	modify_to(peer, IBV_QPS_ERR);
	peer_send(peer, read_request(peer, PSN(0), 4), NULL, 0);
	peer_settle(peer);
	expect_aeth(peer, PSN(2), NAK_ACCESS, 2);
	/* The result of an atomic is stored. */
	peer_send(peer, add, NULL, 0);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ATOMIC_ACK));
	expect_aeth(peer, PSN(2), NAK_ACCESS, 2);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(roce_run_spinning_application_delays_ack),
		on_peer(roce_kick_puts_ack_before_last_packet_of_send),
		on_peer(roce_kick_puts_ack_behind_send_for_peer_of_this_project),
		on_peer(roce_kick_puts_ack_after_first_packet_of_write),
		on_peer(roce_sleep_pending_packets_prevent_sleep),
		on_peer(response_atomic_above_depth_is_not_executed),
		on_peer(response_long_read_ends_with_modify_to_err),
		on_peer(response_long_read_is_not_resumed_by_modify_to_reset),
		on_peer(response_duplicate_read_after_modify_to_err_is_not_executed),
	};

	return cmocka_run_group_tests_name("roce-response", tests, NULL, NULL);
}
