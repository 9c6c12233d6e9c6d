/* SPDX-License-Identifier: BSD-2-Clause */
/* The effects of the fault points of packets and of wr.execute, in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "core/qp/qp.h"
#include "peer.h"
#include "roce/qp.h"
#include "wire/aeth.h"
#include "wire/icrc.h"
#include "wire/psn.h"

/*
 * Shorter than the first retransmission timeout, so that no other copy of the packet is sent in
 * between.
 */
#define DELAY	   "delay=5ms:nth=1"
#define MS	   UINT64_C(1000000)
#define STEP_NS	   (MS / 20)
#define SEND_BYTES 64u

/* Syndrome of an ACK without credits. */
#define ACK_SYNDROME 0x1f

/* Longer than the ACK timeout of the queue pair. */
#define RETRANSMIT_NS (500 * MS)

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

static void configure(const char *rules)
{
	char why[128];

	assert_int_equal(fault_configure(rules, why, sizeof(why)), 0);
}

static void wait_ns(uint64_t ns)
{
	uint64_t until_ns = peer.world.now_ns + ns;

	while (peer.world.now_ns < until_ns) {
		peer.world.now_ns += STEP_NS;
		world_turn(&peer.world);
	}
}

static void refuse_packets(unsigned int chance)
{
	const struct sim_faults faults = {.refuse = chance};

	sim_net_set_faults(peer.world.net, &faults);
}

/* The peer sends the SEND with number n. The receive with number 1 must have been posted. */
static void peer_send_nth(uint32_t n)
{
	static const uint8_t payload[SEND_BYTES];
	struct packet packet = {
		.opcode = OPCODE(RC, SEND_ONLY),
		.psn = psn_add(PEER_FIRST_PSN, n),
		.wants_ack = true,
	};

	peer_send(&peer, packet, payload, sizeof(payload));
	peer_settle(&peer);
}

static void send_to_queue_pair(void)
{
	peer_post_recv(&peer, 1, SEND_BYTES);
	peer_send_nth(0);
}

static void post_message(void)
{
	peer_post_send(&peer, IBV_WR_SEND, SEND_BYTES, IBV_SEND_SIGNALED);
}

static void check_message(const struct packet *packet, uint32_t n)
{
	assert_int_equal(packet->opcode, OPCODE(RC, SEND_ONLY));
	assert_int_equal(packet->psn, psn_add(PEER_SECOND_PSN, n));
	assert_int_equal(packet->payload_bytes, SEND_BYTES);
}

/* The next packet of the queue pair is its message with number n. */
static void expect_message(uint32_t n)
{
	struct packet packet;

	assert_true(peer_next(&peer, &packet));
	check_message(&packet, n);
}

/* The next packet of the queue pair is the ACK or NAK of the peer's message with number n. */
static void expect_response(uint32_t n, enum aeth_kind kind)
{
	struct packet packet;

	assert_true(peer_next(&peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, ACK));
	assert_int_equal(packet.psn, psn_add(PEER_FIRST_PSN, n));
	assert_int_equal(aeth_kind(packet.syndrome), kind);
}

static void expect_no_packet(void)
{
	struct packet packet;

	assert_false(peer_next(&peer, &packet));
}

/* The next completion is a success. */
static void expect_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_true(world_poll(cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void expect_no_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_false(world_poll(cq, &wc));
}

/* Message n did not arrive: the retransmission timer sends it again, and it completes. */
static void expect_retransmission(uint32_t n)
{
	uint64_t until_ns = peer.world.now_ns + RETRANSMIT_NS;
	struct packet packet;

	expect_no_packet();
	expect_no_completion(peer.node->send_cq);
	assert_int_equal(peer_counter(&peer, ROCE_PACKETS_RESENT), 0);
	while (!peer_next(&peer, &packet)) {
		assert_true(peer.world.now_ns < until_ns);
		wait_ns(MS);
	}
	check_message(&packet, n);
	assert_int_equal(peer_counter(&peer, ROCE_PACKETS_RESENT), 1);
	peer_answer(&peer, psn_add(PEER_SECOND_PSN, n), ACK_SYNDROME);
	expect_completion(peer.node->send_cq);
}

static void roce_probe_dropped_packet_is_retransmitted(void **state)
{
	(void)state;
	configure("packet.send:drop:nth=1");
	post_message();
	expect_retransmission(0);
}

static void roce_probe_corrupt_packet_has_wrong_icrc_and_is_retransmitted(void **state)
{
	struct packet packet;
	struct icrc_flow flow;
	struct link_rx rx;
	uint16_t ip_id;

	(void)state;
	configure("packet.send:corrupt:nth=1");
	post_message();
	assert_int_equal(link_recv(peer.link, &rx, 1), 1);
	icrc_flow_init(&flow, rx.remote_gid, rx.local_gid, rx.src_port, PACKET_UDP_PORT);
	assert_false(packet_parse(&packet, rx.bytes, rx.len) == PACKET_OK &&
		     icrc_check(&flow, &roce_of(&peer.node->engine)->solver, rx.bytes, rx.len,
				&ip_id) == ICRC_RIGHT);
	expect_retransmission(0);
}

static void duplicated_packet_is_sent_twice_and_completes_once(void **state)
{
	(void)state;
	configure("packet.send:duplicate:nth=1");
	post_message();
	expect_message(0);
	expect_message(0);
	expect_no_packet();
	assert_int_equal(peer_counter(&peer, ROCE_PACKETS_RESENT), 0);
	peer_answer(&peer, PEER_SECOND_PSN, ACK_SYNDROME);
	peer_answer(&peer, PEER_SECOND_PSN, ACK_SYNDROME);
	expect_completion(peer.node->send_cq);
	expect_no_completion(peer.node->send_cq);
}

static void roce_probe_delayed_packet_is_sent_after_its_successor(void **state)
{
	(void)state;
	configure("packet.send:" DELAY);
	post_message();
	post_message();
	expect_message(1);
	wait_ns(4 * MS);
	expect_no_packet();
	wait_ns(2 * MS);
	expect_message(0);
	assert_int_equal(roce_of(&peer.node->engine)->delayed_count, 0);
}

/*
 * A message of several packets is committed to the batch as a whole, which the link could send as
 * one GSO burst.
 */
static void roce_probe_packet_of_message_passes_point(void **state)
{
	struct packet packet;

	(void)state;
	configure("packet.send:drop:nth=3");
	peer_post_send(&peer, IBV_WR_SEND, 4 * PEER_MTU, IBV_SEND_SIGNALED);
	for (uint32_t i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		assert_true(peer_next(&peer, &packet));
		assert_int_equal(packet.psn, psn_add(PEER_SECOND_PSN, i));
	}
	expect_no_packet();
}

/* The link does not accept the packet at first. The retries must not pass the point again. */
static void refused_packet_passes_the_point_once(void **state)
{
	(void)state;
	configure("packet.send:duplicate:nth=2");
	refuse_packets(SIM_CERTAIN);
	post_message();
	wait_ns(MS);
	assert_int_equal(peer_counter(&peer, ROCE_BACK_PRESSURE), 1);
	refuse_packets(0);
	wait_ns(MS);
	expect_message(0);
	expect_no_packet();
	post_message();
	expect_message(1);
	expect_message(1);
	expect_no_packet();
}

/* The retries execute the action that was drawn on the first attempt. */
static void refused_packet_keeps_its_fault(void **state)
{
	struct link_rx rx;

	(void)state;
	configure("packet.send:duplicate:nth=1");
	refuse_packets(SIM_CERTAIN);
	post_message();
	refuse_packets(0);
	wait_ns(MS);
	expect_message(0);
	expect_message(0);
	expect_no_packet();
	peer_answer(&peer, PEER_SECOND_PSN, ACK_SYNDROME);
	expect_completion(peer.node->send_cq);
	configure("packet.send:corrupt:nth=1");
	refuse_packets(SIM_CERTAIN);
	post_message();
	refuse_packets(0);
	wait_ns(MS);
	assert_int_equal(link_recv(peer.link, &rx, 1), 1);
	expect_retransmission(1);
}

static void roce_probe_delayed_packet_is_received_when_its_delay_is_over(void **state)
{
	(void)state;
	configure("packet.receive:" DELAY);
	send_to_queue_pair();
	wait_ns(4 * MS);
	expect_no_completion(peer.node->recv_cq);
	wait_ns(2 * MS);
	expect_completion(peer.node->recv_cq);
	expect_response(0, AETH_KIND_ACK);
}

static void roce_probe_delayed_packet_is_received_after_its_successor(void **state)
{
	(void)state;
	configure("packet.receive:" DELAY);
	peer_post_recv(&peer, 2, SEND_BYTES);
	send_to_queue_pair();
	peer_send_nth(1);
	expect_no_completion(peer.node->recv_cq);
	expect_response(0, AETH_KIND_NAK);
	assert_int_equal(peer_counter(&peer, ROCE_SEQUENCE_NAKS_SENT), 1);
	wait_ns(6 * MS);
	expect_completion(peer.node->recv_cq);
	expect_response(0, AETH_KIND_ACK);
}

/* Under AddressSanitizer this shows that they are freed. */
static void roce_probe_delayed_packets_end_with_transport(void **state)
{
	(void)state;
	configure("packet.send:delay=3600s;packet.receive:delay=3600s");
	post_message();
	send_to_queue_pair();
	assert_int_equal(roce_of(&peer.node->engine)->delayed_count, 2);
}

static void roce_probe_duplicate_of_received_packet_is_counted_as_duplicate(void **state)
{
	(void)state;
	configure("packet.receive:duplicate:nth=1");
	send_to_queue_pair();
	expect_completion(peer.node->recv_cq);
	expect_no_completion(peer.node->recv_cq);
	assert_int_equal(peer_counter(&peer, ROCE_DUPLICATES), 1);
}

static void roce_probe_dropped_received_packet_leaves_gap(void **state)
{
	(void)state;
	configure("packet.receive:drop:nth=1");
	peer_post_recv(&peer, 2, SEND_BYTES);
	send_to_queue_pair();
	expect_no_packet();
	assert_int_equal(peer_counter(&peer, ROCE_PACKETS_RECEIVED), 0);
	peer_send_nth(1);
	expect_no_completion(peer.node->recv_cq);
	expect_response(0, AETH_KIND_NAK);
	assert_int_equal(peer_counter(&peer, ROCE_SEQUENCE_NAKS_SENT), 1);
	peer_send_nth(0);
	expect_completion(peer.node->recv_cq);
}

static void roce_probe_corrupt_received_packet_is_dropped_and_counted(void **state)
{
	(void)state;
	configure("packet.receive:corrupt:nth=1");
	send_to_queue_pair();
	assert_int_equal(peer_counter(&peer, ROCE_DROPPED_UNPARSABLE), 1);
	expect_no_completion(peer.node->recv_cq);
	expect_no_packet();
	peer_send_nth(0);
	expect_completion(peer.node->recv_cq);
	expect_response(0, AETH_KIND_ACK);
}

/* No packet of the WR is sent, and the status and the vendor error are those of the rule. */
static void roce_probe_failed_wr_is_not_sent_and_has_status_of_rule(void **state)
{
	struct ibv_wc wc;

	(void)state;
	configure("wr.execute:fail=REM_OP_ERR:nth=2");
	post_message();
	post_message();
	expect_message(0);
	expect_no_packet();
	peer_answer(&peer, PEER_SECOND_PSN, ACK_SYNDROME);
	expect_completion(peer.node->send_cq);
	assert_true(world_poll(peer.node->send_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_INJECTED);
	assert_int_equal(to_qp(peer.qp)->state, IBV_QPS_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(roce_probe_dropped_packet_is_retransmitted),
		TEST(roce_probe_corrupt_packet_has_wrong_icrc_and_is_retransmitted),
		TEST(duplicated_packet_is_sent_twice_and_completes_once),
		TEST(roce_probe_delayed_packet_is_sent_after_its_successor),
		TEST(roce_probe_packet_of_message_passes_point),
		TEST(refused_packet_passes_the_point_once),
		TEST(refused_packet_keeps_its_fault),
		TEST(roce_probe_delayed_packet_is_received_when_its_delay_is_over),
		TEST(roce_probe_delayed_packet_is_received_after_its_successor),
		TEST(roce_probe_delayed_packets_end_with_transport),
		TEST(roce_probe_duplicate_of_received_packet_is_counted_as_duplicate),
		TEST(roce_probe_dropped_received_packet_leaves_gap),
		TEST(roce_probe_corrupt_received_packet_is_dropped_and_counted),
		TEST(roce_probe_failed_wr_is_not_sent_and_has_status_of_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
