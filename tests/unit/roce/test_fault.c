/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conditions of the fault points of packets, and the actions reorder, mark and rate, in virtual
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/fault.h"
#include "peer.h"
#include "roce/qp.h"
#include "wire/psn.h"

#define MS	   UINT64_C(1000000)
#define STEP_NS	   (MS / 20)
#define SEND_BYTES 64u

static struct peer peer;

static int set_up(void **state)
{
	(void)state;
	peer_open(&peer, IBV_QPT_RC, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	peer_close(&peer);
	return fault_configure(NULL, NULL, 0);
}

static void set_rules(const char *rules)
{
	char why[128] = "";

	if (fault_configure(rules, why, sizeof(why)))
		fail_msg("%s: %s", rules, why);
}

static void advance(uint64_t ns)
{
	uint64_t until_ns = peer.world.now_ns + ns;

	while (peer.world.now_ns < until_ns) {
		peer.world.now_ns += STEP_NS;
		world_turn(&peer.world);
	}
}

static void send_one(void)
{
	peer_post_send(&peer, IBV_WR_SEND, SEND_BYTES, IBV_SEND_SIGNALED);
}

/* The next packet of the queue pair is its message with number n. */
static void expect_nth(uint32_t n)
{
	struct packet packet;

	assert_true(peer_next(&peer, &packet));
	assert_int_equal(packet.psn, psn_add(PEER_SECOND_PSN, n));
}

static void expect_nothing(void)
{
	struct packet packet;

	assert_false(peer_next(&peer, &packet));
}

static void roce_fault_reordered_packet_is_sent_after_given_number(void **state)
{
	(void)state;
	set_rules("packet.send:reorder=2:nth=1");
	send_one();
	expect_nothing();
	send_one();
	expect_nth(1);
	expect_nothing();
	send_one();
	expect_nth(2);
	expect_nth(0);
	expect_nothing();
	assert_int_equal(roce_of(&peer.node->engine)->reordered_count, 0);
	assert_int_equal(roce_of(&peer.node->engine)->delayed_count, 0);
}

static void roce_fault_reordered_packet_without_successor_is_sent_after_limit(void **state)
{
	(void)state;
	set_rules("packet.send:reorder:nth=1");
	send_one();
	advance(9 * MS);
	expect_nothing();
	advance(2 * MS);
	expect_nth(0);
	assert_int_equal(roce_of(&peer.node->engine)->reordered_count, 0);
}

static void roce_fault_constant_delay_keeps_order(void **state)
{
	(void)state;
	set_rules("packet.send:delay=1ms");
	for (unsigned int i = 0; i < 8; i++)
		send_one();
	advance(2 * MS);
	for (uint32_t i = 0; i < 8; i++)
		expect_nth(i);
}

static void roce_fault_rate_sends_at_that_rate(void **state)
{
	(void)state;
	/* About 4 packets of 80 bytes in 1 ms. */
	set_rules("packet.send:rate=320K");
	for (unsigned int i = 0; i < 8; i++)
		send_one();
	advance(MS + MS / 20);
	for (uint32_t i = 0; i < 4; i++)
		expect_nth(i);
	expect_nothing();
	advance(MS);
	for (uint32_t i = 10; i < 8; i++)
		expect_nth(i);
}

static void roce_fault_marked_packet_has_ecn_field(void **state)
{
	struct link_rx rx;

	(void)state;
	set_rules("packet.send:mark:nth=1");
	send_one();
	send_one();
	assert_int_equal(link_recv(peer.link, &rx, 1), 1);
	assert_int_equal(rx.traffic_class & ROCE_ECN_MASK, 3);
	assert_int_equal(link_recv(peer.link, &rx, 1), 1);
	assert_int_not_equal(rx.traffic_class & ROCE_ECN_MASK, 3);
}

static void roce_fault_marked_received_packet_is_counted(void **state)
{
	static const uint8_t payload[SEND_BYTES];
	struct packet packet = {
		.opcode = OPCODE(RC, SEND_ONLY), .psn = PEER_FIRST_PSN, .wants_ack = true};

	(void)state;
	set_rules("packet.receive:mark");
	peer_post_recv(&peer, 1, SEND_BYTES);
	peer_send(&peer, packet, payload, sizeof(payload));
	peer_settle(&peer);
	assert_int_equal(peer_counter(&peer, ROCE_CONGESTION_MARKS), 1);
}

/* Returns whether the rule with this condition drops a SEND of the queue pair. */
static bool drops(const char *condition)
{
	struct packet packet;
	char rules[128];

	snprintf(rules, sizeof(rules), "packet.send:drop:%s", condition);
	set_rules(rules);
	send_one();
	set_rules(NULL);
	return !peer_next(&peer, &packet);
}

static void roce_fault_condition_of_packet_selects(void **state)
{
	char own[32];

	(void)state;
	snprintf(own, sizeof(own), "qp=%u", peer.qp->qp_num);
	assert_true(drops("op=SEND"));
	assert_false(drops("op=ACK,READ,WRITE"));
	assert_true(drops("type=RC"));
	assert_false(drops("type=UC,UD"));
	assert_true(drops(own));
	snprintf(own, sizeof(own), "qp=%u", peer.qp->qp_num + 1);
	assert_false(drops(own));
	assert_false(drops("peer=203.0.113.1"));
	assert_false(drops("dev=other"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(roce_fault_reordered_packet_is_sent_after_given_number),
		TEST(roce_fault_reordered_packet_without_successor_is_sent_after_limit),
		TEST(roce_fault_constant_delay_keeps_order),
		TEST(roce_fault_rate_sends_at_that_rate),
		TEST(roce_fault_marked_packet_has_ecn_field),
		TEST(roce_fault_marked_received_packet_is_counted),
		TEST(roce_fault_condition_of_packet_selects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
