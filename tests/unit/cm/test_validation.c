/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An address that has returned nothing gets at most as many bytes as arrived from it (RFC 9000 §8.1
 * with the factor 1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/timer.h"
#include "ends.h"

#define SPOOFED_GID 0x77 /* last byte of the GID of a host that sends nothing itself */
#define SPOOFED	    50u

/* The same REQ of a forged source, or another one with another number. */
static struct cm_msg forged_req(uint32_t number)
{
	return (struct cm_msg){
		.type = CM_MSG_REQ,
		.tid = 0x5000 + number,
		.req =
			{
				.local_comm_id = 1 + number,
				.local_ca_guid = 0xbad,
				.local_qpn = 0x100 + number,
				.service_id = NET_SERVICE,
				.local_cm_response_timeout = 16,
				.remote_cm_response_timeout = 16,
				.max_cm_retries = CM_MAX_RETRIES,
			},
	};
}

static void receive_forged(uint32_t number)
{
	const struct cm_msg req = forged_req(number);

	receive_by_hand(there, &req, SPOOFED_GID);
}

/* A consumer of many connections; the last one is passive.conn. */
static void *on_any_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			    uint16_t *reason)
{
	(void)node;
	(void)req;
	(void)reason;
	passive.conn = conn;
	return &passive;
}

static void on_any_event(struct net_node *node, struct cm_conn *conn, void *owner,
			 enum cm_event_type type, const struct cm_msg *msg)
{
	struct end *end = owner;

	(void)node;
	(void)conn;
	(void)msg;
	end->events++;
	end->last = type;
}

static void serve_many(void)
{
	net.on_request = on_any_request;
	net.on_event = on_any_event;
}

static void settle(void)
{
	assert_true(net_settle(&net, 100000));
}

static uint64_t withheld(void)
{
	return cm_counters(there->cm)->withheld;
}

/* The consumer accepts each REQ and destroys the connection when the CM gives up. */
static void cm_accept_forged_req_sends_at_most_its_bytes(void **state)
{
	(void)state;
	serve_many();
	for (uint32_t i = 0; i < SPOOFED; i++) {
		receive_forged(i);
		accept_request();
	}
	settle();
	assert_in_range(sent_count * MAD_BYTES, 1, SPOOFED * MAD_BYTES);
	expect_event(&passive, SPOOFED, CM_EVENT_REP_ERROR);
	assert_true(withheld() > SPOOFED);
}

/* Each repetition permits one MAD, whatever the consumer does. */
static void cm_accept_repeated_forged_req_sends_at_most_its_bytes(void **state)
{
	unsigned received = 0;

	(void)state;
	serve_many();
	for (uint32_t i = 0; i < 20; i++) {
		for (uint32_t again = 0; again <= i % 4; again++, received++)
			receive_forged(i);
		accept_request();
		for (uint32_t again = 0; again <= i % 3; again++, received++)
			receive_forged(i);
		if (i % 2) {
			cm_destroy(passive.conn, net.now_ns);
			receive_forged(i);
			received++;
		}
		assert_in_range(sent_count, 1, received);
	}
	settle();
	assert_in_range(sent_count, 1, received);
}

static void cm_reject_forged_req_sends_its_bytes(void **state)
{
	(void)state;
	receive_forged(0);
	assert_int_equal(cm_reject(passive.conn, CM_REJ_CONSUMER, NULL, 0, net.now_ns), 0);
	settle();
	assert_int_equal(sent_count, 1);
	assert_int_equal(sent[0], CM_MSG_REJ);
	is_refusing = true;
	refuse_reason = CM_REJ_NO_RESOURCES;
	receive_forged(1);
	assert_int_equal(sent_count, 2);
	cm_unlisten(there->cm, NET_SERVICE);
	receive_forged(2);
	assert_int_equal(sent_count, 3);
	settle();
	assert_int_equal(sent_count, 3);
}

/* Other messages that any host can send: each has at most one response. */
static void cm_receive_forged_message_has_one_response(void **state)
{
	static const enum cm_msg_type types[] = {
		CM_MSG_MRA,  CM_MSG_REJ, CM_MSG_REP, CM_MSG_RTU,      CM_MSG_DREQ,
		CM_MSG_DREP, CM_MSG_LAP, CM_MSG_APR, CM_MSG_SIDR_REP,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct cm_msg msg = {.type = types[i], .tid = 9};

		sent_count = 0;
		if (types[i] != CM_MSG_SIDR_REP)
			msg.rtu = (struct cm_rtu){.local_comm_id = 5, .remote_comm_id = 6};
		receive_by_hand(there, &msg, SPOOFED_GID);
		settle();
		assert_in_range(sent_count, 0, 1);
	}
}

static void cm_accept_first_contact_sends_challenge_then_rep(void **state)
{
	static const enum cm_msg_type want[] = {CM_MSG_REQ, CM_MSG_SIDR_REQ, CM_MSG_SIDR_REP,
						CM_MSG_REP, CM_MSG_RTU};

	(void)state;
	request();
	accept_request();
	assert_int_equal(last_sent.sidr_req.service_id, CM_SERVICE_NONE);
	deliver();
	expect_event(&active, 1, CM_EVENT_REP);
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
	expect_sent(5, want);
}

/* The next connection of the address begins without a challenge, and its REP is repeated. */
static void cm_accept_known_address_repeats_rep(void **state)
{
	const struct cm_msg req = forged_req(1);
	uint64_t before;

	(void)state;
	establish_both();
	before = withheld();
	serve_many();
	receive_by_hand(there, &req, here->gid[15]);
	sent_count = 0;
	lose();
	accept_request();
	settle();
	/* The REP, its repetitions and the REJ (timeout). */
	assert_int_equal(sent_count, 2 + CM_MAX_RETRIES);
	for (unsigned i = 0; i <= CM_MAX_RETRIES; i++)
		assert_int_equal(sent[i], CM_MSG_REP);
	assert_int_equal(withheld(), before);
}

/*
 * Forged requests in the name of a host that has connected before are limited until that host sends
 * something again.
 */
static void cm_accept_forged_req_of_known_address_is_limited(void **state)
{
	const unsigned excess_max = 64;

	(void)state;
	establish_both();
	sent_count = 0;
	serve_many();
	lose();
	for (uint32_t i = 0; i < SPOOFED; i++) {
		const struct cm_msg req = forged_req(i);

		receive_by_hand(there, &req, here->gid[15]);
		accept_request();
	}
	settle();
	assert_in_range(sent_count, SPOOFED, SPOOFED + excess_max);
}

/* A lost challenge is sent again for the repeated REQ. */
static void cm_accept_lost_challenge_is_repeated(void **state)
{
	(void)state;
	request();
	lose();
	accept_request();
	assert_int_equal(last_sent.type, CM_MSG_SIDR_REQ);
	net.loss_percent = 0;
	while (active.events == 0)
		net_advance(&net, net_next(&net));
	expect_event(&active, 1, CM_EVENT_REP);
	assert_int_equal(cm_counters(there->cm)->address_challenges, 2);
	/* The REQ is repeated after 17 ms. */
	assert_in_range(net.now_ns, CLOCK_NS_PER_S, CLOCK_NS_PER_S + 20 * CLOCK_NS_PER_MS);
}

/*
 * The CM of the peer answers no challenge: the REQ that Linux repeats after 4.3 s is answered with
 * the REP.
 */
static void cm_accept_peer_without_sidr_gets_rep_later(void **state)
{
	(void)state;
	receive_forged(0);
	accept_request();
	net_advance(&net, net.now_ns + 2 * CLOCK_NS_PER_S);
	receive_forged(0);
	assert_int_equal(last_sent.type, CM_MSG_SIDR_REQ);
	net_advance(&net, net.now_ns + 1 * CLOCK_NS_PER_S);
	assert_int_equal(sent_count, 2);
	net.now_ns += CLOCK_NS_PER_S + 300 * CLOCK_NS_PER_MS;
	receive_forged(0);
	assert_int_equal(sent_count, 3);
	assert_int_equal(last_sent.type, CM_MSG_REP);
}

/* A lost RTU is detected by a repeated REP, also at the first contact. */
static void cm_accept_first_contact_lost_rtu_is_retransmitted(void **state)
{
	(void)state;
	request();
	accept_request();
	deliver();
	lose();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	net.loss_percent = 0;
	net_advance(&net, net_next(&net));
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
}

/*
 * The consumer thinks for longer than the sender of the REQ waits: the repeated REQ is challenged,
 * then an MRA follows.
 */
static void cm_receive_slow_listener_challenges_then_sends_mra(void **state)
{
	(void)state;
	request();
	while (sent_count < 6) {
		net_advance(&net, net_next(&net));
		deliver();
	}
	expect_state(&active, CM_STATE_MRA_REQ_RCVD);
	assert_int_equal(sent[2], CM_MSG_SIDR_REQ);
	assert_int_equal(sent[3], CM_MSG_SIDR_REP);
	assert_int_equal(sent[5], CM_MSG_MRA);
	accept_request();
	assert_int_equal(last_sent.type, CM_MSG_REP);
}

/* A SIDR_REP validates the address only with the transaction and request ID, from the address. */
static void cm_receive_wrong_sidr_rep_validates_no_address(void **state)
{
	struct cm_msg reply = {.type = CM_MSG_SIDR_REP};
	struct cm_msg challenge;

	(void)state;
	receive_forged(0);
	accept_request();
	challenge = last_sent;
	assert_int_equal(challenge.type, CM_MSG_SIDR_REQ);
	reply.tid = challenge.tid + 2;
	reply.sidr_rep.request_id = challenge.sidr_req.request_id;
	receive_by_hand(there, &reply, SPOOFED_GID);
	reply.tid = challenge.tid;
	receive_by_hand(there, &reply, SPOOFED_GID + 1);
	reply.sidr_rep.request_id++;
	receive_by_hand(there, &reply, SPOOFED_GID);
	assert_int_equal(sent_count, 1);
	reply.sidr_rep.request_id--;
	receive_by_hand(there, &reply, SPOOFED_GID);
	assert_int_equal(sent_count, 2);
	assert_int_equal(last_sent.type, CM_MSG_REP);
}

/* The network may repeat the response to the challenge. */
static void cm_receive_late_response_to_challenge_changes_nothing(void **state)
{
	struct cm_msg reply;

	(void)state;
	request();
	accept_request();
	net_advance(&net, net_next(&net));
	reply = last_sent;
	assert_int_equal(reply.type, CM_MSG_SIDR_REP);
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	sent_count = 0;
	receive_by_hand(there, &reply, here->gid[15]);
	deliver();
	expect_state(&passive, CM_STATE_ESTABLISHED);
	assert_int_equal(passive.events, 1);
	assert_int_equal(sent_count, 0);
}

/* After ten minutes without a message the address is challenged again. */
static void cm_accept_address_of_long_ago_is_challenged(void **state)
{
	(void)state;
	establish_both();
	active.conn = net_connect(here, &active, ACTIVE_QPN + 1);
	deliver();
	net.now_ns += 601 * CLOCK_NS_PER_S;
	accept_request();
	assert_int_equal(last_sent.type, CM_MSG_SIDR_REQ);
}

static void cm_destroy_unvalidated_sends_dreq_after_response(void **state)
{
	struct cm_msg reply = {.type = CM_MSG_SIDR_REP};

	(void)state;
	receive_forged(0);
	accept_request();
	reply.tid = last_sent.tid;
	reply.sidr_rep.request_id = last_sent.sidr_req.request_id;
	cm_destroy(passive.conn, net.now_ns);
	assert_int_equal(sent_count, 1);
	receive_by_hand(there, &reply, SPOOFED_GID);
	assert_int_equal(sent_count, 2);
	assert_int_equal(last_sent.type, CM_MSG_DREQ);
	settle();
	assert_int_equal(cm_conn_count(there->cm), 0);
}

static void cm_accept_same_host_is_not_challenged(void **state)
{
	(void)state;
	net.is_local = true;
	request();
	accept_request();
	assert_int_equal(last_sent.type, CM_MSG_REP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open_unvalidated, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cm_accept_forged_req_sends_at_most_its_bytes),
		TEST(cm_accept_repeated_forged_req_sends_at_most_its_bytes),
		TEST(cm_reject_forged_req_sends_its_bytes),
		TEST(cm_receive_forged_message_has_one_response),
		TEST(cm_accept_first_contact_sends_challenge_then_rep),
		TEST(cm_accept_known_address_repeats_rep),
		TEST(cm_accept_forged_req_of_known_address_is_limited),
		TEST(cm_accept_lost_challenge_is_repeated),
		TEST(cm_accept_peer_without_sidr_gets_rep_later),
		TEST(cm_accept_first_contact_lost_rtu_is_retransmitted),
		TEST(cm_receive_slow_listener_challenges_then_sends_mra),
		TEST(cm_receive_wrong_sidr_rep_validates_no_address),
		TEST(cm_receive_late_response_to_challenge_changes_nothing),
		TEST(cm_accept_address_of_long_ago_is_challenged),
		TEST(cm_destroy_unvalidated_sends_dreq_after_response),
		TEST(cm_accept_same_host_is_not_challenged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
