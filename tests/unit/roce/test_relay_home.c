/* SPDX-License-Identifier: BSD-2-Clause */

/* XRC at the process that made the queue pair: what it passes on to others, and what it says meanwhile. */

#include "relay_kit.h"

#include <errno.h>
#include <string.h>

#define SRQN(slot) ((uint32_t)(slot) << IPC_SLOT_SHIFT | 1)

static const struct relay_msg *expect_request(uint32_t slot, uint32_t psn)
{
	const struct relay_msg *msg = kit_expect_word(slot, RELAY_REQUEST);

	assert_int_equal(msg->psn, psn);
	assert_int_equal(kit_said[kit_seen - 1].packet.psn, psn);
	return msg;
}

static void report_of(struct peer *peer, uint32_t slot, const struct relay_msg *request_msg,
		      enum verdict verdict, uint32_t psn)
{
	struct relay_msg msg = *request_msg;

	msg.kind = RELAY_REPORT;
	msg.verdict = verdict;
	msg.psn = psn;
	msg.msn = msg.msn + 1;
	kit_tell(peer, slot, &msg, NULL, 0);
}

static void report(struct peer *peer, const struct relay_msg *request_msg, enum verdict verdict,
		   uint32_t psn)
{
	report_of(peer, OTHER, request_msg, verdict, psn);
}

static void a_request_is_passed_on_as_it_came(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *msg;

	kit_request(peer, OPCODE_SEND_ONLY_IMM, PSN(0), SRQN(OTHER), 9);
	kit_expect_word(OTHER, RELAY_ATTACH);
	assert_int_equal(kit_said[0].attach.domain_id, DOMAIN_ID);
	assert_int_equal(kit_said[0].attach.remote_qpn, PEER_QPN);
	assert_int_equal(kit_said[0].attach.access, ALL);
	assert_memory_equal(kit_said[0].attach.remote_gid, peer_gid, GID_BYTES);
	msg = expect_request(OTHER, PSN(0));
	assert_int_equal(msg->qpn, peer->qp->qp_num);
	assert_int_equal(kit_said[1].packet.payload_bytes, 9);
	assert_memory_equal(kit_said[1].packet.payload, kit_bytes, 9);
	kit_expect_no_word();
	/* The owner is who acknowledges. */
	kit_expect_nothing(peer);
	report(peer, msg, VERDICT_ACCEPTED, PSN(1));
	kit_expect_nothing(peer);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	kit_expect_no_word();
	/* It is attached already. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	msg = expect_request(OTHER, PSN(1));
	assert_int_equal(msg->msn, 1);
	kit_expect_no_word();
}

static void a_home_says_nothing_while_an_owner_executes(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *first, *second;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_word(OTHER, RELAY_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	second = expect_request(OTHER, PSN(1));
	assert_int_equal(second->run, first->run);
	/* Its own waits, a third process's waits, what was lost is not asked for, and a duplicate has no answer. */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), kit_srqn, 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(3), SRQN(THIRD), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(5), kit_srqn, 8);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	report(peer, first, VERDICT_ACCEPTED, PSN(1));
	kit_expect_nothing(peer);
	kit_expect_no_word();
	report(peer, second, VERDICT_ACCEPTED, PSN(2));
	/* Its own was next, and is acknowledged before the third has its turn. */
	kit_expect_aeth(peer, PSN(2), ACK_SYNDROME);
	kit_expect_word(THIRD, RELAY_ATTACH);
	expect_request(THIRD, PSN(3));
	kit_expect_nothing(peer);
	kit_expect_no_word();
}

static void a_gap_is_told_of_when_all_before_it_is_done(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *first;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_expect_no_word();
	report(peer, first, VERDICT_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(1), NAK(AETH_NAK_PSN_SEQUENCE));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	expect_request(OTHER, PSN(1));
	expect_request(OTHER, PSN(2));
	kit_expect_no_word();
}

static void who_is_not_ready_gets_it_again(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *first, *again;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(2), kit_srqn, 9);
	kit_expect_word(OTHER, RELAY_ATTACH);
	first = expect_request(OTHER, PSN(0));
	expect_request(OTHER, PSN(1));
	report(peer, first, VERDICT_RNR, PSN(0));
	/* The owner has told the requester; what was behind it is not taken before. */
	kit_expect_nothing(peer);
	kit_expect_no_word();
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	kit_expect_no_word();
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	again = expect_request(OTHER, PSN(0));
	assert_int_not_equal(again->run, first->run);
	/* A word of the run that is over counts no more. */
	report(peer, first, VERDICT_ACCEPTED, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	report(peer, again, VERDICT_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
}

static void without_room_it_waits(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), kit_srqn, 8);
	kit_expect_nothing(peer);
	relay_room(&peer->node->engine, THIRD);
	relay_room(&peer->node->engine, OTHER);
	kit_expect_nothing(peer);
	kit_send_error = 0;
	relay_room(&peer->node->engine, OTHER);
	kit_expect_word(OTHER, RELAY_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(1), ACK_SYNDROME);
}

static void expect_end(struct peer *peer, uint32_t psn, uint8_t syndrome, enum ibv_event_type event)
{
	kit_expect_aeth(peer, psn, syndrome);
	assert_int_equal(kit_state(peer), IBV_QPS_ERR);
	assert_int_equal(peer_event(peer), event);
	assert_int_equal(peer_event(peer), -1);
}

static void a_process_that_is_not_there_has_no_srq(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_send_error = -ENOENT;
	relay_room(&peer->node->engine, OTHER);
	expect_end(peer, PSN(0), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
}

static void who_waits_for_room_hears_of_the_end(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_send_error = -ENOENT;
	relay_gone(&peer->node->engine, OTHER);
	expect_end(peer, PSN(0), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
}

static void what_an_owner_refuses_ends_the_queue_pair(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	expect_request(OTHER, PSN(0));
	report(peer, expect_request(OTHER, PSN(1)), VERDICT_SRQ, PSN(1));
	expect_end(peer, PSN(1), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
	kit_expect_no_word();
	/* The response was lost, and the requester does not come to the NAK without it. */
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	assert_int_equal(kit_expect_word(OTHER, RELAY_REPLAY)->psn, PSN(0));
	kit_expect_aeth(peer, PSN(1), NAK(AETH_NAK_INVALID_REQUEST));
	world_reset_qp(peer->qp);
	assert_int_equal(kit_expect_word(OTHER, RELAY_DETACH)->qpn, peer->qp->qp_num);
	kit_expect_no_word();
}

static void wait_long(struct peer *peer)
{
	peer->world.now_ns += UINT64_C(1000000000);
}

static void expect_excuse(struct peer *peer, uint32_t psn)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, ACK));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(aeth_kind(packet.syndrome), AETH_KIND_RNR_NAK);
	/* Not again and again at once. */
	assert_true(aeth_rnr_wait_ns(aeth_code(packet.syndrome)) >= UINT64_C(10000000));
}

/* An owner that is stopped costs the requester time, and no retries. */
static void who_asks_a_silent_owner_again_is_told_to_wait(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *first, *second;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_word(OTHER, RELAY_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	second = expect_request(OTHER, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	wait_long(peer);
	report(peer, first, VERDICT_ACCEPTED, PSN(1));
	/* It has just said something. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	wait_long(peer);
	/* The acknowledgement of what it has done was lost: this one says as much. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	expect_excuse(peer, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	expect_excuse(peer, PSN(1));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), kit_srqn, 8);
	expect_excuse(peer, PSN(1));
	kit_expect_nothing(peer);
	kit_expect_no_word();
	report(peer, second, VERDICT_ACCEPTED, PSN(2));
	kit_expect_aeth(peer, PSN(2), ACK_SYNDROME);
	kit_expect_nothing(peer);
}

static void who_waits_for_room_for_long_is_told_to_wait(void **state)
{
	struct peer *peer = *state;

	wait_long(peer);
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	for (int i = 0; i < 3; i++) {
		wait_long(peer);
		kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
		expect_excuse(peer, PSN(0));
		kit_expect_nothing(peer);
	}
	kit_send_error = 0;
	relay_room(&peer->node->engine, OTHER);
	kit_expect_word(OTHER, RELAY_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	/* The same where the owner knows the queue pair already. */
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	for (int i = 0; i < 3; i++) {
		wait_long(peer);
		kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
		expect_excuse(peer, PSN(1));
		kit_expect_nothing(peer);
	}
}

static void connect_again(struct peer *peer)
{
	const struct world_qp_attr attr = {.mtu = IBV_MTU_256, .access = ALL, .rd_atomic = 2};

	world_connect_to(peer->qp, peer_gid, PEER_QPN, PSN(0), 0, &attr);
}

/* Else the owner forgets the queue pair that it was told of last. */
static void an_end_is_told_of_before_a_new_beginning(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	kit_send_error = -EAGAIN;
	world_reset_qp(peer->qp);
	connect_again(peer);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_no_word();
	/* There is room, and who waits for it has not heard of it yet. */
	kit_send_error = 0;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_DETACH);
	kit_expect_word(OTHER, RELAY_ATTACH);
	expect_request(OTHER, PSN(0));
	relay_room(&peer->node->engine, OTHER);
	kit_expect_no_word();
}

/* One process without room is nothing to who waits for another's. */
static void an_answer_without_room_is_not_waited_for(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_expect_word(THIRD, RELAY_ATTACH);
	report_of(peer, THIRD, expect_request(THIRD, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_send_error = 0;
	relay_room(&peer->node->engine, OTHER);
	kit_expect_word(OTHER, RELAY_ATTACH);
	expect_request(OTHER, PSN(1));
}

static void an_owner_that_dies_takes_its_messages_along(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *first;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	first = expect_request(OTHER, PSN(0));
	report(peer, first, VERDICT_ACCEPTED, PSN(1));
	relay_gone(&peer->node->engine, THIRD);
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
	relay_gone(&peer->node->engine, OTHER);
	expect_end(peer, PSN(1), NAK(AETH_NAK_REMOTE_OPERATION), IBV_EVENT_QP_FATAL);
	/* The owner had acknowledged one more, so that the requester comes again with the last. */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_aeth(peer, PSN(2), NAK(AETH_NAK_REMOTE_OPERATION));
}

static void an_owner_without_messages_dies_alone(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	relay_gone(&peer->node->engine, OTHER);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), kit_srqn, 8);
	kit_expect_aeth(peer, PSN(1), ACK_SYNDROME);
	/* Whoever has its slot now knows nothing of the queue pair. */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	expect_request(OTHER, PSN(2));
}

static void a_home_believes_no_word_that_cannot_be(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg *msg;
	struct relay_msg lie;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_word(OTHER, RELAY_ATTACH);
	msg = expect_request(OTHER, PSN(0));
	lie = *msg;
	lie.kind = RELAY_REPORT;
	lie.psn = PSN(1);
#define LIES(slot, change)                           \
	do {                                         \
		struct relay_msg truth = lie;        \
		change;                              \
		kit_tell(peer, slot, &lie, NULL, 0); \
		lie = truth;                         \
	} while (0)
	LIES(THIRD, (void)0);
	LIES(OTHER, lie.qpn ^= 1);
	LIES(OTHER, lie.qpn = UINT32_MAX);
	LIES(OTHER, lie.run++);
	LIES(OTHER, lie.serial++);
	LIES(OTHER, lie.serial--);
	LIES(OTHER, lie.psn = PSN(2));
	LIES(OTHER, lie.psn = psn_prev(PSN(0)));
	LIES(OTHER, lie.psn |= 0xff000000);
	LIES(OTHER, lie.verdict = VERDICT_COUNT);
	LIES(OTHER, lie.kind = RELAY_KIND_COUNT);
	LIES(OTHER, lie.kind = 0);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_tell(peer, OTHER, &lie, NULL, 0);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
}

static void a_read_is_answered_again_by_its_owner(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	kit_expect_word(OTHER, RELAY_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), VERDICT_ACCEPTED, PSN(1));
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	assert_int_equal(kit_expect_word(OTHER, RELAY_REPLAY)->psn, PSN(0));
	/* Not of one that never had it. */
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_expect_no_word();
	kit_expect_nothing(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_passed_on_as_it_came),
		TEST(a_home_says_nothing_while_an_owner_executes),
		TEST(a_gap_is_told_of_when_all_before_it_is_done),
		TEST(who_is_not_ready_gets_it_again),
		TEST(without_room_it_waits),
		TEST(a_process_that_is_not_there_has_no_srq),
		TEST(who_waits_for_room_hears_of_the_end),
		TEST(what_an_owner_refuses_ends_the_queue_pair),
		TEST(who_asks_a_silent_owner_again_is_told_to_wait),
		TEST(who_waits_for_room_for_long_is_told_to_wait),
		TEST(an_end_is_told_of_before_a_new_beginning),
		TEST(an_answer_without_room_is_not_waited_for),
		TEST(an_owner_that_dies_takes_its_messages_along),
		TEST(an_owner_without_messages_dies_alone),
		TEST(a_home_believes_no_word_that_cannot_be),
		TEST(a_read_is_answered_again_by_its_owner),
	};

	return cmocka_run_group_tests_name("relay home", tests, NULL, NULL);
}
