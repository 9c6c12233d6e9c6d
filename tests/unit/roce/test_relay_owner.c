/* SPDX-License-Identifier: BSD-2-Clause */

/* XRC at the process that has the SRQ: what it does with requests that others pass on to it. */

#include "relay_kit.h"

#include <string.h>

#define RNR_SYNDROME (0x20 | 14)
#define FAR_QPN	     (OTHER << IPC_SLOT_SHIFT | 5)

static struct relay_attach attach_of(const struct peer *peer)
{
	struct relay_attach attach = {
		.domain_id = DOMAIN_ID,
		.dev_id = peer->node->device.info.dev_id,
		.remote_qpn = PEER_QPN,
		.path_mtu = IBV_MTU_256,
		.access = ALL,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 14,
		.hop_limit = 1,
	};

	memcpy(attach.local_gid, peer->node->gid, GID_BYTES);
	memcpy(attach.remote_gid, peer_gid, GID_BYTES);
	return attach;
}

static void attach(struct peer *peer)
{
	const struct relay_msg msg = {.kind = RELAY_ATTACH, .qpn = FAR_QPN};
	struct relay_attach what = attach_of(peer);

	kit_tell(peer, OTHER, &msg, &what, sizeof(what));
}

/* As the home would pass it on. */
static void pass(struct peer *peer, uint32_t run, uint32_t serial, struct packet packet,
		 size_t payload_bytes)
{
	const struct relay_msg msg = {.kind = RELAY_REQUEST,
				      .qpn = FAR_QPN,
				      .run = run,
				      .serial = serial,
				      .psn = packet.psn,
				      .msn = 3};
	uint8_t whole[PACKET_MAX];
	size_t len;

	packet.payload_bytes = payload_bytes;
	len = packet_build_headers(&packet, whole);
	memcpy(whole + len, kit_bytes, payload_bytes);
	len += payload_bytes;
	len += packet_build_trailer(payload_bytes, 0, whole + len);
	kit_tell(peer, OTHER, &msg, whole, (uint32_t)len);
}

static void expect_report(uint32_t run, uint32_t serial, enum verdict verdict, uint32_t psn)
{
	const struct relay_msg *msg = kit_expect_word(OTHER, RELAY_REPORT);

	assert_int_equal(msg->qpn, FAR_QPN);
	assert_int_equal(msg->run, run);
	assert_int_equal(msg->serial, serial);
	assert_int_equal(msg->verdict, verdict);
	assert_int_equal(msg->psn, psn);
}

static void post_recv(struct peer *peer, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, PEER_BUF_BYTES, peer->node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(kit_srq, &wr, &bad), 0);
}

static void expect_wc(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, FAR_QPN);
}

static void an_owner_executes_answers_and_reports(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	attach(peer);
	post_recv(peer, 1);
	pass(peer, 4, 10, kit_packet(peer, OPCODE_SEND_FIRST, PSN(7), kit_srqn), PEER_MTU);
	kit_expect_aeth(peer, PSN(7), ACK_SYNDROME);
	expect_report(4, 10, VERDICT_ACCEPTED, PSN(8));
	/* The message goes on in a run of its own. */
	pass(peer, 5, 11, kit_packet(peer, OPCODE_SEND_LAST, PSN(8), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(8), ACK_SYNDROME);
	expect_report(5, 11, VERDICT_ACCEPTED, PSN(9));
	expect_wc(peer, 1, IBV_WC_SUCCESS);
	pass(peer, 5, 12, kit_packet(peer, OPCODE_READ_REQUEST, PSN(9), kit_srqn), 0);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, READ_RESPONSE_ONLY));
	assert_int_equal(packet.psn, PSN(9));
	expect_report(5, 12, VERDICT_ACCEPTED, PSN(10));
	kit_expect_no_word();
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
}

static void an_owner_that_is_not_ready_drops_the_rest(void **state)
{
	struct peer *peer = *state;

	attach(peer);
	pass(peer, 1, 1, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	expect_report(1, 1, VERDICT_RNR, PSN(0));
	kit_expect_aeth(peer, PSN(0), RNR_SYNDROME);
	post_recv(peer, 1);
	pass(peer, 1, 2, kit_packet(peer, OPCODE_SEND_ONLY, PSN(1), kit_srqn), 8);
	pass(peer, 1, 3, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
	kit_expect_no_word();
	pass(peer, 2, 1, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	expect_report(2, 1, VERDICT_ACCEPTED, PSN(1));
	expect_wc(peer, 1, IBV_WC_SUCCESS);
}

static void an_owner_answers_an_atomic_again_without_executing_it(void **state)
{
	struct peer *peer = *state;
	struct packet packet = kit_packet(peer, OPCODE_FETCH_ADD, PSN(0), kit_srqn), answer;
	struct relay_msg replay = {.kind = RELAY_REPLAY, .qpn = FAR_QPN, .run = 1, .psn = PSN(0)};
	uint8_t whole[PACKET_MAX];
	uint64_t word;
	size_t len;

	packet.swap_or_add = 5;
	memset(peer->node->buf, 0, 8);
	attach(peer);
	pass(peer, 1, 1, packet, 0);
	assert_true(peer_next(peer, &answer));
	assert_int_equal(answer.opcode, OPCODE(XRC, ATOMIC_ACK));
	len = packet_build_headers(&packet, whole);
	len += packet_build_trailer(0, 0, whole + len);
	kit_tell(peer, OTHER, &replay, whole, (uint32_t)len);
	assert_true(peer_next(peer, &answer));
	assert_int_equal(answer.opcode, OPCODE(XRC, ATOMIC_ACK));
	assert_int_equal(answer.atomic_original, 0);
	memcpy(&word, peer->node->buf, sizeof(word));
	assert_int_equal(word, 5);
	expect_report(1, 1, VERDICT_ACCEPTED, PSN(1));
	kit_expect_no_word();
}

static void what_an_owner_refuses_ends_the_run(void **state)
{
	struct peer *peer = *state;
	struct packet packet = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn);

	attach(peer);
	packet.rkey = ~packet.rkey;
	pass(peer, 1, 1, packet, 8);
	kit_expect_aeth(peer, PSN(0), NAK(AETH_NAK_REMOTE_ACCESS));
	expect_report(1, 1, VERDICT_RKEY, PSN(0));
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
	kit_expect_no_word();
	/* Its own queue pair has nothing to do with it. */
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
	assert_int_equal(peer_event(peer), -1);
}

static void a_message_that_was_begun_ends_with_its_queue_pair(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg detach = {.kind = RELAY_DETACH, .qpn = FAR_QPN};

	for (int i = 0; i < 2; i++) {
		attach(peer);
		post_recv(peer, 1);
		pass(peer, 1, 1, kit_packet(peer, OPCODE_SEND_FIRST, PSN(0), kit_srqn), PEER_MTU);
		kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
		expect_report(1, 1, VERDICT_ACCEPTED, PSN(1));
		if (i)
			relay_gone(&peer->node->engine, OTHER);
		else
			kit_tell(peer, OTHER, &detach, NULL, 0);
		expect_wc(peer, 1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(peer->node->engine.roce->relay.proxies.count, 0);
	}
}

static void a_stranger_owns_nothing(void **state)
{
	struct peer *peer = *state;
	struct relay_msg msg = {.kind = RELAY_ATTACH, .qpn = FAR_QPN};
	struct relay_attach what;

#define REFUSES(change, slot, len)                                                 \
	do {                                                                       \
		what = attach_of(peer);                                            \
		change;                                                            \
		kit_tell(peer, slot, &msg, &what, len);                            \
		msg.qpn = FAR_QPN;                                                 \
		assert_int_equal(peer->node->engine.roce->relay.proxies.count, 0); \
	} while (0)
	REFUSES((void)0, THIRD, sizeof(what));
	REFUSES((void)0, OTHER, sizeof(what) - 1);
	REFUSES(msg.qpn |= 1u << 24, OTHER, sizeof(what));
	REFUSES(what.domain_id++, OTHER, sizeof(what));
	REFUSES(what.domain_id = 0, OTHER, sizeof(what));
	REFUSES(what.dev_id++, OTHER, sizeof(what));
	REFUSES(what.remote_qpn = 1u << 24, OTHER, sizeof(what));
	REFUSES(what.path_mtu = 0, OTHER, sizeof(what));
	REFUSES(what.path_mtu = IBV_MTU_4096 + 1, OTHER, sizeof(what));
	REFUSES(what.max_dest_rd_atomic = 255, OTHER, sizeof(what));
	REFUSES(what.min_rnr_timer = 32, OTHER, sizeof(what));
	REFUSES(what.local_gid[0] ^= 1, OTHER, sizeof(what));
	/* The home is told, and tells the requester. */
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	expect_report(1, 1, VERDICT_SRQ, PSN(0));
	kit_expect_nothing(peer);
	assert_int_equal(peer->node->buf[0], 0);
}

/* Who is refused while there is no room to say so would wait for ever. */
static void a_stranger_hears_of_it_when_there_is_room(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	pass(peer, 2, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	relay_room(&peer->node->engine, OTHER);
	kit_send_error = 0;
	relay_room(&peer->node->engine, THIRD);
	kit_expect_no_word();
	relay_room(&peer->node->engine, OTHER);
	/* Of each queue pair the last. */
	expect_report(2, 1, VERDICT_SRQ, PSN(0));
	kit_expect_no_word();
}

/* Nobody reads what this process has to say: it does not remember all of it. */
static void who_floods_and_does_not_listen_is_forgotten(void **state)
{
	struct peer *peer = *state;
	struct relay_msg msg = {.kind = RELAY_REQUEST, .run = 1, .serial = 1};
	unsigned int owed = 0;
	struct list_head *node;

	kit_send_error = -EAGAIN;
	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++) {
		msg.qpn = OTHER << IPC_SLOT_SHIFT | i;
		relay_take(&peer->node->engine, OTHER, &msg, NULL, 0);
	}
	for (node = peer->node->engine.roce->relay.owed.next;
	     node != &peer->node->engine.roce->relay.owed; node = node->next)
		owed++;
	assert_int_equal(owed, RELAY_REFUSALS_MAX);
	relay_gone(&peer->node->engine, OTHER);
	assert_true(list_is_empty(&peer->node->engine.roce->relay.owed));
}

/* However many queue pairs one has, there is room for those of others. */
static void one_process_does_not_take_all_the_room(void **state)
{
	struct peer *peer = *state;
	struct relay_msg msg = {.kind = RELAY_ATTACH};
	struct relay_attach what = attach_of(peer);
	uint32_t count;

	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++) {
		msg.qpn = OTHER << IPC_SLOT_SHIFT | i;
		relay_take(&peer->node->engine, OTHER, &msg, (const uint8_t *)&what, sizeof(what));
	}
	count = peer->node->engine.roce->relay.proxies.count;
	assert_in_range(count, 1024, IPC_SLOT_QPNS - 1);
	msg.qpn = THIRD << IPC_SLOT_SHIFT;
	kit_tell(peer, THIRD, &msg, &what, sizeof(what));
	assert_int_equal(peer->node->engine.roce->relay.proxies.count, count + 1);
	relay_gone(&peer->node->engine, OTHER);
	assert_int_equal(peer->node->engine.roce->relay.proxies.count, 1);
	/* And it is given back. */
	msg.qpn = OTHER << IPC_SLOT_SHIFT;
	kit_tell(peer, OTHER, &msg, &what, sizeof(what));
	assert_int_equal(peer->node->engine.roce->relay.proxies.count, 2);
}

static void an_owner_takes_nothing_but_requests(void **state)
{
	struct peer *peer = *state;
	const struct relay_msg msg = {.kind = RELAY_REQUEST, .qpn = FAR_QPN, .run = 1, .serial = 1};
	struct packet packet = kit_packet(peer, OPCODE_ACK, PSN(0), kit_srqn);

	attach(peer);
	pass(peer, 1, 1, packet, 0);
	packet = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn);
	packet.opcode = OPCODE(RC, WRITE_ONLY);
	pass(peer, 1, 1, packet, 8);
	kit_tell(peer, OTHER, &msg, kit_bytes, 0);
	kit_tell(peer, OTHER, &msg, kit_bytes, 100);
	kit_expect_nothing(peer);
	kit_expect_no_word();
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	/* Out of the run's order. */
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(3), kit_srqn), 8);
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_owner_executes_answers_and_reports),
		TEST(an_owner_that_is_not_ready_drops_the_rest),
		TEST(an_owner_answers_an_atomic_again_without_executing_it),
		TEST(what_an_owner_refuses_ends_the_run),
		TEST(a_message_that_was_begun_ends_with_its_queue_pair),
		TEST(a_stranger_owns_nothing),
		TEST(a_stranger_hears_of_it_when_there_is_room),
		TEST(who_floods_and_does_not_listen_is_forgotten),
		TEST(one_process_does_not_take_all_the_room),
		TEST(an_owner_takes_nothing_but_requests),
	};

	return cmocka_run_group_tests_name("relay owner", tests, NULL, NULL);
}
