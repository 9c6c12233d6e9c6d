/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/object/cq_turns.h"
#include "expect.h"
#include "roce/qp.h"

/*
 * The ACK of a message for an application that waits for completion events waits for its reply
 * (docs/adr/0063).
 */

#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f
#define BYTES	     8
#define RECEIVES     4
/* Longer than an ACK waits. */
#define LONG_NS 1000000u

static struct comp_channel channel;

static struct cq *recv_cq(const struct peer *peer)
{
	return to_cq(peer->node->recv_cq);
}

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	for (uint64_t i = 0; i < RECEIVES; i++)
		peer_post_recv(&peer, i, BYTES);
	channel = (struct comp_channel){0};
	recv_cq(&peer)->channel = &channel;
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	struct peer *peer = *state;

	recv_cq(peer)->channel = NULL;
	peer_close(peer);
	return 0;
}

static void send_message(struct peer *peer, uint32_t n)
{
	static const uint8_t bytes[BYTES];
	struct packet packet = {.opcode = OPCODE(RC, SEND_ONLY), .psn = PSN(n), .wants_ack = true};

	peer_send(peer, packet, bytes, sizeof(bytes));
}

static void expect_ack(struct peer *peer, uint32_t n)
{
	expect_response(peer, OPCODE(RC, ACK), PSN(n), ACK_SYNDROME);
	expect_nothing(peer);
}

static void process_message(struct peer *peer)
{
	struct ibv_wc wc;

	peer_settle(peer);
	assert_int_equal(ibv_poll_cq(peer->node->recv_cq, 1, &wc), 1);
}

/* The peer settles after less time than an ACK waits. */
static void ack_wait_until_reply(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	send_message(peer, 0);
	expect_nothing(peer);
	process_message(peer);
	expect_nothing(peer);
	peer_post_send(peer, IBV_WR_SEND, BYTES, 0);
	expect_response(peer, OPCODE(RC, ACK), PSN(0), ACK_SYNDROME);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, SEND_ONLY));
	expect_nothing(peer);
}

static void ack_wait_until_cq_is_empty(void **state)
{
	struct peer *peer = *state;
	struct ibv_wc wc;

	send_message(peer, 0);
	process_message(peer);
	expect_nothing(peer);
	assert_int_equal(ibv_poll_cq(peer->node->recv_cq, 1, &wc), 0);
	expect_ack(peer, 0);
}

static void ack_wait_until_thread_waits(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	process_message(peer);
	expect_nothing(peer);
	cq_turn_ends(&channel.turns);
	expect_ack(peer, 0);
}

static void ack_wait_until_next_message(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	expect_nothing(peer);
	send_message(peer, 1);
	expect_ack(peer, 1);
	/*
	 * The application has not processed the first one yet: the peer does not wait for replies.
	 */
	send_message(peer, 2);
	expect_ack(peer, 2);
	cq_turn_ends(&channel.turns);
	send_message(peer, 3);
	expect_nothing(peer);
}

/* The peer goes on with a WRITE, whose window must not wait for the application. */
static void ack_wait_until_other_request(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	expect_nothing(peer);
	peer_write_byte(peer, false, 1);
	expect_ack(peer, 1);
	send_message(peer, 2);
	expect_ack(peer, 2);
	/* A WRITE that precedes the message in the next turn does not matter. */
	cq_turn_ends(&channel.turns);
	peer_write_byte(peer, false, 3);
	expect_ack(peer, 3);
	send_message(peer, 4);
	expect_nothing(peer);
}

static void ack_wait_ends_by_timer(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	expect_nothing(peer);
	peer->world.now_ns += LONG_NS;
	expect_ack(peer, 0);
	cq_turn_ends(&channel.turns);
	send_message(peer, 1);
	expect_nothing(peer);
	peer->world.now_ns += LONG_NS;
	expect_ack(peer, 1);
}

/* Before the process exits, or a QP ends. */
static void ack_wait_ends_by_catching_up(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	expect_nothing(peer);
	peer->node->engine.run_by = RUN_BY_CATCH_UP;
	expect_ack(peer, 0);
	peer->node->engine.run_by = RUN_BY_CALL;
}

static void ack_wait_ends_by_duplicate(void **state)
{
	struct peer *peer = *state;

	send_message(peer, 0);
	expect_nothing(peer);
	send_message(peer, 0);
	expect_ack(peer, 0);
}

static void ack_wait_is_for_messages_only(void **state)
{
	struct peer *peer = *state;

	peer_write_byte(peer, false, 0);
	expect_ack(peer, 0);
}

static void ack_wait_needs_channel(void **state)
{
	struct peer *peer = *state;

	recv_cq(peer)->channel = NULL;
	send_message(peer, 0);
	expect_ack(peer, 0);
}

/* A message for which no receive is posted is not executed. */
static void ack_wait_does_not_delay_naks(void **state)
{
	struct peer *peer = *state;

	for (uint32_t i = 0; i < RECEIVES; i++) {
		cq_turn_ends(&channel.turns);
		send_message(peer, i);
		expect_nothing(peer);
	}
	send_message(peer, RECEIVES);
	expect_response(peer, OPCODE(RC, ACK), PSN(RECEIVES), 0x20 | 14);
	expect_nothing(peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ack_wait_until_reply, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_until_cq_is_empty, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_until_thread_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_until_next_message, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_until_other_request, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_ends_by_timer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_ends_by_catching_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_ends_by_duplicate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_is_for_messages_only, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_needs_channel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ack_wait_does_not_delay_naks, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("roce/ack_wait", tests, NULL, NULL);
}
