/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting and rejecting, one aspect at a time: the messages sent, the events reported, and their
 * times.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/be.h"
#include "base/clock.h"
#include "base/timer.h"
#include "ends.h"

static void cm_connect_then_disconnect_reaches_closed(void **state)
{
	static const enum cm_msg_type want[] = {CM_MSG_REQ, CM_MSG_REP, CM_MSG_RTU, CM_MSG_DREQ,
						CM_MSG_DREP};

	(void)state;
	request();
	expect_state(&active, CM_STATE_REQ_SENT);
	expect_state(&passive, CM_STATE_REQ_RCVD);
	accept_request();
	deliver();
	expect_event(&active, 1, CM_EVENT_REP);
	assert_int_equal(active.msg.rep.local_qpn, PASSIVE_QPN);
	assert_int_equal(active.msg.rep.responder_resources, 3);
	assert_int_equal(active.msg.rep.starting_psn, cm_conn_psn(passive.conn));
	assert_memory_equal(active.msg.rep.private_data, "hello", 6);
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
	assert_int_equal(cm_conn_remote_id(active.conn), cm_conn_local_id(passive.conn));
	assert_int_equal(cm_conn_remote_id(passive.conn), cm_conn_local_id(active.conn));

	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	expect_event(&passive, 2, CM_EVENT_DREQ);
	expect_state(&active, CM_STATE_DREQ_SENT);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	deliver();
	expect_event(&active, 2, CM_EVENT_DREP);
	expect_state(&active, CM_STATE_TIMEWAIT);
	expect_state(&passive, CM_STATE_TIMEWAIT);
	expect_sent(5, want);
	assert_true(net_settle(&net, 10));
	expect_event(&active, 3, CM_EVENT_TIMEWAIT_EXIT);
	expect_event(&passive, 3, CM_EVENT_TIMEWAIT_EXIT);
	/* A second disconnect succeeds and has no effect. */
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	assert_int_equal(sent_count, 5);
	cm_destroy(active.conn, net.now_ns);
	cm_destroy(passive.conn, net.now_ns);
	assert_int_equal(cm_conn_count(here->cm) + cm_conn_count(there->cm), 0);
}

static void cm_connect_without_listener_is_rejected(void **state)
{
	(void)state;
	cm_unlisten(there->cm, NET_SERVICE);
	request();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	expect_state(&active, CM_STATE_CLOSED);
	assert_int_equal(cm_conn_count(there->cm), 0);
}

static void cm_listen_twice_needs_two_unlistens(void **state)
{
	(void)state;
	assert_int_equal(cm_listen(there->cm, NET_SERVICE), 0);
	cm_unlisten(there->cm, NET_SERVICE);
	request();
	expect_state(&passive, CM_STATE_REQ_RCVD);
	cm_unlisten(there->cm, NET_SERVICE);
	cm_unlisten(there->cm, NET_SERVICE);
	cm_unlisten(there->cm, 12345);
}

static void cm_connect_listener_rejects_or_drops_request(void **state)
{
	(void)state;
	is_refusing = true;
	request();
	assert_int_equal(active.events, 0);
	assert_int_equal(cm_conn_count(there->cm), 0);
	refuse_reason = CM_REJ_INVALID_MTU;
	/* The REQ is retransmitted. */
	net_advance(&net, net_next(&net));
	deliver();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_INVALID_MTU);
}

static void cm_reject_request_sends_rej_with_private_data(void **state)
{
	uint8_t why[CM_REJ_PRIVATE_BYTES + 1];

	(void)state;
	memset(why, 'w', sizeof(why));
	request();
	assert_int_equal(cm_reject(passive.conn, CM_REJ_CONSUMER, why, sizeof(why), net.now_ns),
			 -EINVAL);
	assert_int_equal(cm_reject(passive.conn, CM_REJ_CONSUMER, why, sizeof(why) - 1, net.now_ns),
			 0);
	deliver();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_CONSUMER);
	assert_int_equal(active.msg.rej.about, CM_ABOUT_REQ);
	assert_memory_equal(active.msg.rej.private_data, why, sizeof(why) - 1);
}

static void cm_reject_reply_sends_rej(void **state)
{
	(void)state;
	request();
	accept_request();
	deliver();
	assert_int_equal(cm_reject(active.conn, CM_REJ_CONSUMER, NULL, 0, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_REJ);
	assert_int_equal(passive.msg.rej.about, CM_ABOUT_REP);
	expect_state(&passive, CM_STATE_CLOSED);
}

static void cm_connect_no_response_retransmits_req(void **state)
{
	uint64_t wait_ns = RESPONSE_NS / 16, last_ns;

	(void)state;
	lose();
	request();
	last_ns = net.now_ns;
	for (unsigned i = 1; i <= 15; i++) {
		assert_int_equal(sent_count, i);
		assert_int_equal(net_next(&net), last_ns + wait_ns);
		last_ns = net_next(&net);
		net_advance(&net, last_ns);
		if (wait_ns < RESPONSE_NS)
			wait_ns *= 2;
	}
	assert_int_equal(sent_count, 16);
	assert_int_equal(active.events, 0);
	net.loss_percent = 0;
	net_advance(&net, net_next(&net));
	expect_event(&active, 1, CM_EVENT_REQ_ERROR);
	assert_int_equal(sent[16], CM_MSG_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_TIMEOUT);
	assert_int_equal(be_load64(last_sent.rej.ari), here->guid);
	expect_state(&active, CM_STATE_CLOSED);
	assert_int_equal(cm_next_deadline(here->cm), TIMER_NEVER_NS);
}

/* A small number of retries does not shorten the time that the peer has for a response. */
static void cm_connect_few_retries_keep_response_timeout(void **state)
{
	struct cm_req req = {
		.service_id = NET_SERVICE,
		.local_ca_guid = here->guid,
		.remote_cm_response_timeout = 16,
	};
	struct cm_path path;
	uint64_t start_ns;

	(void)state;
	lose();
	net_path(here, &path);
	for (req.max_cm_retries = 0; req.max_cm_retries <= 2; req.max_cm_retries++) {
		sent_count = 0;
		start_ns = net.now_ns;
		active.conn = cm_conn_new(here->cm, &active);
		assert_int_equal(cm_connect(active.conn, &path, &req, net.now_ns), 0);
		while (sent_count <= req.max_cm_retries)
			net_advance(&net, net_next(&net));
		/* Only that timer remains. */
		assert_int_equal(net_next(&net), net.now_ns + RESPONSE_NS);
		net_advance(&net, net_next(&net));
		expect_event(&active, req.max_cm_retries + 1u, CM_EVENT_REQ_ERROR);
		assert_true(net.now_ns >= start_ns + RESPONSE_NS);
		cm_destroy(active.conn, net.now_ns);
	}
}

/* Whatever the timeouts in the messages: both sides give up within the CM timeout. */
static void cm_connect_cm_timeout_ends_retries(void **state)
{
	struct cm_conn *conn = cm_conn_new(here->cm, &active);
	struct cm_req req = {
		.service_id = NET_SERVICE,
		.local_ca_guid = here->guid,
		.remote_cm_response_timeout = 31,
		.local_cm_response_timeout = 31,
		.max_cm_retries = CM_MAX_RETRIES,
	};
	uint64_t start_ns = net.now_ns;
	struct cm_path path;

	(void)state;
	active.conn = conn;
	net_path(here, &path);
	assert_int_equal(cm_connect(conn, &path, &req, net.now_ns), 0);
	deliver();
	lose();
	accept_request();
	while (active.events == 0 || passive.events == 0)
		net_advance(&net, net_next(&net));
	expect_event(&active, 1, CM_EVENT_REQ_ERROR);
	expect_event(&passive, 1, CM_EVENT_REP_ERROR);
	assert_int_equal(cm_conn_error(active.conn), -ETIMEDOUT);
	assert_in_range(net.now_ns - start_ns, CM_TIMEOUT_NS, CM_TIMEOUT_NS + CLOCK_NS_PER_MS);
}

static void cm_conn_set_timeout_ends_request_after_timeout(void **state)
{
	uint64_t start_ns;

	(void)state;
	establish_both();
	lose();
	start_ns = net.now_ns;
	cm_conn_set_timeout(active.conn, 500 * CLOCK_NS_PER_MS);
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	while (active.last != CM_EVENT_DREQ_ERROR)
		net_advance(&net, net_next(&net));
	assert_true(net.now_ns - start_ns == 500 * CLOCK_NS_PER_MS);
	for (uint64_t s = 1; s <= 300; s++) {
		uint64_t wait_ns = 4096ull << 14, sum_ns = 0;
		uint8_t timeout = cm_response_timeout(s * CLOCK_NS_PER_S);

		for (int i = 0; i <= CM_MAX_RETRIES;
		     i++, wait_ns *= wait_ns < 4096ull << timeout ? 2 : 1)
			sum_ns += wait_ns;
		assert_in_range(timeout, 18, 24);
		assert_true(sum_ns >= s * CLOCK_NS_PER_S);
	}
}

static void cm_connect_send_error_fails_at_once(void **state)
{
	(void)state;
	net.is_cut = true;
	active.conn = net_connect(here, &active, ACTIVE_QPN);
	assert_int_equal(active.events, 0);
	assert_int_equal(net_next(&net), net.now_ns);
	net_advance(&net, net.now_ns);
	expect_event(&active, 1, CM_EVENT_REQ_ERROR);
	assert_true(cm_counters(here->cm)->unsent > 0);
}

static void cm_receive_slow_listener_sends_mra(void **state)
{
	(void)state;
	request();
	net_advance(&net, net_next(&net));
	deliver();
	/*
	 * The retransmitted REQ was answered with an MRA: nothing is sent during its service
	 * timeout.
	 */
	expect_state(&active, CM_STATE_MRA_REQ_RCVD);
	expect_state(&passive, CM_STATE_MRA_REQ_SENT);
	assert_int_equal(sent_count, 3);
	assert_int_equal(last_sent.mra.service_timeout, 24);
	assert_int_equal(last_sent.mra.about, CM_ABOUT_REQ);
	assert_true(net_next(&net) - net.now_ns > MRA_NS - CLOCK_NS_PER_S);
	net_advance(&net, net_next(&net));
	expect_state(&active, CM_STATE_REQ_SENT);
	deliver();
	expect_state(&active, CM_STATE_MRA_REQ_RCVD);
	accept_request();
	deliver();
	expect_event(&active, 1, CM_EVENT_REP);
}

static void cm_receive_slow_active_side_sends_mra(void **state)
{
	(void)state;
	request();
	accept_request();
	deliver();
	net_advance(&net, net_next(&net));
	deliver();
	expect_state(&active, CM_STATE_MRA_REP_SENT);
	expect_state(&passive, CM_STATE_MRA_REP_RCVD);
	assert_int_equal(active.events, 1);
	assert_int_equal(last_sent.mra.about, CM_ABOUT_REP);
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
}

/*
 * After an MRA the passive side does not retransmit its REP for the requested service timeout. If
 * the RTU is then lost, the passive side would not be established for more than a minute.
 */
static void cm_establish_lost_rtu_after_mra_is_retransmitted_soon(void **state)
{
	uint64_t start_ns;

	(void)state;
	request();
	accept_request();
	deliver();
	net_advance(&net, net_next(&net));
	deliver();
	expect_state(&passive, CM_STATE_MRA_REP_RCVD);
	lose();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	net.loss_percent = 0;
	start_ns = net.now_ns;
	net_advance(&net, net_next(&net));
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
	assert_true(net.now_ns - start_ns < 5 * CLOCK_NS_PER_S);
}

/* A consumer whose CM answers each retransmission may take any time. */
static void cm_receive_active_side_may_delay_rtu_indefinitely(void **state)
{
	(void)state;
	request();
	accept_request();
	deliver();
	for (int i = 0; i < 100; i++) {
		net_advance(&net, net_next(&net));
		deliver();
	}
	assert_int_equal(passive.events, 0);
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_RTU);
}

static void cm_receive_duplicate_req_retransmits_rep(void **state)
{
	(void)state;
	request();
	lose();
	accept_request();
	net.loss_percent = 0;
	/* Both sides retransmit at about the same time; one of the messages is sufficient. */
	for (int i = 0; i < 4 && active.events == 0; i++) {
		net_advance(&net, net_next(&net));
		deliver();
	}
	expect_event(&active, 1, CM_EVENT_REP);
}

/* On the same host an active side without a reply is busy, and more messages would not help. */
static void cm_accept_same_host_rep_is_retransmitted_late(void **state)
{
	uint64_t start_ns;

	(void)state;
	net.is_local = true;
	request();
	accept_request();
	start_ns = net.now_ns;
	deliver();
	expect_event(&active, 1, CM_EVENT_REP);
	assert_int_equal(net_next(&net), start_ns + RESPONSE_NS);
	net_advance(&net, net_next(&net));
	deliver();
	assert_int_equal(active.events, 1);
	assert_int_equal(last_sent.mra.about, CM_ABOUT_REP);
}

static void cm_establish_lost_rtu_is_retransmitted(void **state)
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
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

static void cm_accept_no_rtu_times_out(void **state)
{
	(void)state;
	request();
	lose();
	accept_request();
	while (passive.events == 0)
		net_advance(&net, net_next(&net));
	expect_event(&passive, 1, CM_EVENT_REP_ERROR);
	expect_state(&passive, CM_STATE_CLOSED);
}

static void cm_notify_before_rtu_establishes(void **state)
{
	(void)state;
	request();
	accept_request();
	assert_int_equal(cm_notify(passive.conn, net.now_ns), 0);
	expect_event(&passive, 1, CM_EVENT_RTU);
	assert_int_equal(cm_notify(passive.conn, net.now_ns), -EISCONN);
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	assert_int_equal(passive.events, 1);
}

/* Before a REP was received, rejecting cancels the request. */
static void cm_reject_before_rep_cancels_request(void **state)
{
	(void)state;
	request();
	assert_int_equal(cm_reject(active.conn, CM_REJ_CONSUMER, NULL, 0, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_REJ);
	assert_int_equal(passive.msg.rej.reason, CM_REJ_TIMEOUT);
	expect_state(&active, CM_STATE_CLOSED);
}

static void cm_destroy_before_rep_cancels_request(void **state)
{
	(void)state;
	request();
	cm_destroy(active.conn, net.now_ns);
	assert_int_equal(cm_conn_count(here->cm), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_REJ);
	assert_int_equal(passive.msg.rej.reason, CM_REJ_TIMEOUT);
	expect_state(&passive, CM_STATE_CLOSED);
}

static void cm_conn_call_in_wrong_state_fails(void **state)
{
	struct cm_rep rep;

	(void)state;
	request();
	net_rep(&rep, here, 1);
	assert_int_equal(cm_accept(active.conn, &rep, net.now_ns), -EINVAL);
	assert_int_equal(cm_establish(active.conn, net.now_ns), -EINVAL);
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), -EINVAL);
	assert_int_equal(cm_notify(active.conn, net.now_ns), -EINVAL);
	assert_int_equal(cm_establish(passive.conn, net.now_ns), -EINVAL);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), -EINVAL);
	expect_state(&active, CM_STATE_REQ_SENT);
	expect_state(&passive, CM_STATE_REQ_RCVD);
	accept_request();
	assert_int_equal(cm_accept(passive.conn, &rep, net.now_ns), -EINVAL);
}

/* 0 is an invalid communication ID, for requests and replies. */
static void cm_receive_communication_id_0_is_dropped(void **state)
{
	struct cm_msg req = {.type = CM_MSG_REQ, .req = {.service_id = NET_SERVICE}};
	struct cm_msg rep = {.type = CM_MSG_REP, .rep = {.local_qpn = PASSIVE_QPN}};

	(void)state;
	receive_by_hand(there, &req, here->gid[15]);
	assert_int_equal(cm_counters(there->cm)->strays, 1);
	lose();
	request();
	rep.tid = last_sent.tid;
	rep.rep.remote_comm_id = cm_conn_local_id(active.conn);
	receive_by_hand(here, &rep, there->gid[15]);
	assert_int_equal(cm_counters(here->cm)->strays, 1);
	expect_state(&active, CM_STATE_REQ_SENT);
}

/* QPNs 0 and 1 mean that a side has no QP of its own; several connections may use them. */
static void cm_receive_req_with_qpn_0_or_1_is_not_stale(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		active.conn = net_connect(here, &active, 0);
		deliver();
		expect_state(&passive, CM_STATE_REQ_RCVD);
	}
	assert_int_equal(cm_conn_count(there->cm), 3);
}

static void cm_connect_send_error_of_retry_ends_retries(void **state)
{
	struct cm_msg again;

	(void)state;
	request();
	again = last_sent;
	accept_request();
	net.is_cut = true;
	/*
	 * The retransmitted REQ of the peer would cause a retransmission of the REP, which cannot
	 * be sent any more.
	 */
	net.loss_percent = 0;
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(cm_counters(there->cm)->unsent, 1);
	while (passive.events == 0)
		net_advance(&net, net_next(&net));
	expect_event(&passive, 1, CM_EVENT_REP_ERROR);
}

static void cm_accept_send_error_of_retry_ends_connection(void **state)
{
	(void)state;
	lose();
	request();
	net.is_cut = true;
	net_advance(&net, net_next(&net));
	assert_int_equal(active.events, 0);
	net_advance(&net, net_next(&net));
	expect_event(&active, 1, CM_EVENT_REQ_ERROR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cm_connect_then_disconnect_reaches_closed),
		TEST(cm_connect_without_listener_is_rejected),
		TEST(cm_listen_twice_needs_two_unlistens),
		TEST(cm_connect_listener_rejects_or_drops_request),
		TEST(cm_reject_request_sends_rej_with_private_data),
		TEST(cm_reject_reply_sends_rej),
		TEST(cm_connect_no_response_retransmits_req),
		TEST(cm_connect_few_retries_keep_response_timeout),
		TEST(cm_connect_cm_timeout_ends_retries),
		TEST(cm_conn_set_timeout_ends_request_after_timeout),
		TEST(cm_connect_send_error_fails_at_once),
		TEST(cm_receive_slow_listener_sends_mra),
		TEST(cm_receive_slow_active_side_sends_mra),
		TEST(cm_establish_lost_rtu_after_mra_is_retransmitted_soon),
		TEST(cm_receive_active_side_may_delay_rtu_indefinitely),
		TEST(cm_receive_duplicate_req_retransmits_rep),
		TEST(cm_accept_same_host_rep_is_retransmitted_late),
		TEST(cm_establish_lost_rtu_is_retransmitted),
		TEST(cm_accept_no_rtu_times_out),
		TEST(cm_notify_before_rtu_establishes),
		TEST(cm_reject_before_rep_cancels_request),
		TEST(cm_destroy_before_rep_cancels_request),
		TEST(cm_conn_call_in_wrong_state_fails),
		TEST(cm_receive_communication_id_0_is_dropped),
		TEST(cm_receive_req_with_qpn_0_or_1_is_not_stale),
		TEST(cm_connect_send_error_of_retry_ends_retries),
		TEST(cm_accept_send_error_of_retry_ends_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
