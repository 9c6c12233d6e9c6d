/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting and refusing, one thing at a time: what is sent, what is told, and when. */
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

static void connect_and_disconnect(void **state)
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
	/* Disconnecting once more is not wrong and does nothing. */
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	assert_int_equal(sent_count, 5);
	cm_destroy(active.conn, net.now_ns);
	cm_destroy(passive.conn, net.now_ns);
	assert_int_equal(cm_conn_count(here->cm) + cm_conn_count(there->cm), 0);
}

static void nobody_listens(void **state)
{
	(void)state;
	cm_unlisten(there->cm, NET_SERVICE);
	request();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	expect_state(&active, CM_STATE_CLOSED);
	assert_int_equal(cm_conn_count(there->cm), 0);
}

static void listening_is_counted(void **state)
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

static void the_listener_refuses_or_says_nothing(void **state)
{
	(void)state;
	is_refusing = true;
	request();
	assert_int_equal(active.events, 0);
	assert_int_equal(cm_conn_count(there->cm), 0);
	refuse_reason = CM_REJ_INVALID_MTU;
	/* The REQ comes again. */
	net_advance(&net, net_next(&net));
	deliver();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_INVALID_MTU);
}

static void consumer_rejects(void **state)
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

static void consumer_rejects_a_reply(void **state)
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

static void unanswered_requests_are_repeated(void **state)
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

/* Few repetitions are no reason to give the peer less time than it was promised for one answer. */
static void the_last_wait_is_a_whole_one(void **state)
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
		/* Now only that is left. */
		assert_int_equal(net_next(&net), net.now_ns + RESPONSE_NS);
		net_advance(&net, net_next(&net));
		expect_event(&active, req.max_cm_retries + 1u, CM_EVENT_REQ_ERROR);
		assert_true(net.now_ns >= start_ns + RESPONSE_NS);
		cm_destroy(active.conn, net.now_ns);
	}
}

/* Whatever the timeouts in the messages are worth: both sides of a connection give up in time. */
static void patience_ends_before_the_retries_do(void **state)
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
	assert_in_range(net.now_ns - start_ns, CM_PATIENCE_NS, CM_PATIENCE_NS + CLOCK_NS_PER_MS);
}

static void patience_is_as_long_as_asked_for(void **state)
{
	uint64_t start_ns;

	(void)state;
	establish_both();
	lose();
	start_ns = net.now_ns;
	cm_conn_set_patience(active.conn, 500 * CLOCK_NS_PER_MS);
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

static void a_path_that_refuses_ends_it_at_once(void **state)
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

static void a_consumer_that_thinks_gets_time(void **state)
{
	(void)state;
	request();
	net_advance(&net, net_next(&net));
	deliver();
	/* The repeated REQ was answered with an MRA: nothing is sent for its service time. */
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

static void an_active_consumer_may_think_too(void **state)
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
 * After an MRA the passive side does not repeat its REP for as long as it was asked to; if then the RTU is lost, it
 * would not hear for more than a minute that it is connected.
 */
static void a_lost_rtu_after_an_mra_is_sent_again_soon(void **state)
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

/* Whoever answers each repetition may think for as long as it likes. */
static void an_active_consumer_may_think_for_long(void **state)
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

static void a_lost_reply_is_repeated_for_a_repeated_request(void **state)
{
	(void)state;
	request();
	lose();
	accept_request();
	net.loss_percent = 0;
	/* Both repeat at about the same time; one of them is enough. */
	for (int i = 0; i < 4 && active.events == 0; i++) {
		net_advance(&net, net_next(&net));
		deliver();
	}
	expect_event(&active, 1, CM_EVENT_REP);
}

/* There an active side that says nothing for a while has much to do, and is not to be given more. */
static void a_reply_within_one_machine_is_not_repeated_soon(void **state)
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

static void a_lost_rtu_is_sent_again(void **state)
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

static void a_reply_to_nobody_gives_up(void **state)
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

static void data_may_come_before_the_rtu(void **state)
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

/* Before there is a reply to refuse, refusing is withdrawing. */
static void an_active_consumer_may_reject_early(void **state)
{
	(void)state;
	request();
	assert_int_equal(cm_reject(active.conn, CM_REJ_CONSUMER, NULL, 0, net.now_ns), 0);
	deliver();
	expect_event(&passive, 1, CM_EVENT_REJ);
	assert_int_equal(passive.msg.rej.reason, CM_REJ_TIMEOUT);
	expect_state(&active, CM_STATE_CLOSED);
}

static void whoever_leaves_withdraws_its_request(void **state)
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

static void calls_out_of_turn_are_refused(void **state)
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

/* 0 names nobody: neither a request nor a reply may call itself so. */
static void communication_id_0_is_nobodys(void **state)
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

/* QPs 0 and 1 say that a side has no QP of its own; any number of connections may. */
static void no_qp_is_never_stale(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		active.conn = net_connect(here, &active, 0);
		deliver();
		expect_state(&passive, CM_STATE_REQ_RCVD);
	}
	assert_int_equal(cm_conn_count(there->cm), 3);
}

static void a_path_that_breaks_later_ends_the_retries(void **state)
{
	struct cm_msg again;

	(void)state;
	request();
	again = last_sent;
	accept_request();
	net.is_cut = true;
	/* The peer's repeated REQ makes us repeat the REP, which cannot go out any more. */
	net.loss_percent = 0;
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(cm_counters(there->cm)->unsent, 1);
	while (passive.events == 0)
		net_advance(&net, net_next(&net));
	expect_event(&passive, 1, CM_EVENT_REP_ERROR);
}

static void a_repetition_that_cannot_go_out_ends_it(void **state)
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
		TEST(connect_and_disconnect),
		TEST(nobody_listens),
		TEST(listening_is_counted),
		TEST(the_listener_refuses_or_says_nothing),
		TEST(consumer_rejects),
		TEST(consumer_rejects_a_reply),
		TEST(unanswered_requests_are_repeated),
		TEST(the_last_wait_is_a_whole_one),
		TEST(patience_ends_before_the_retries_do),
		TEST(patience_is_as_long_as_asked_for),
		TEST(a_path_that_refuses_ends_it_at_once),
		TEST(a_consumer_that_thinks_gets_time),
		TEST(an_active_consumer_may_think_too),
		TEST(a_lost_rtu_after_an_mra_is_sent_again_soon),
		TEST(an_active_consumer_may_think_for_long),
		TEST(a_lost_reply_is_repeated_for_a_repeated_request),
		TEST(a_reply_within_one_machine_is_not_repeated_soon),
		TEST(a_lost_rtu_is_sent_again),
		TEST(a_reply_to_nobody_gives_up),
		TEST(data_may_come_before_the_rtu),
		TEST(an_active_consumer_may_reject_early),
		TEST(whoever_leaves_withdraws_its_request),
		TEST(calls_out_of_turn_are_refused),
		TEST(communication_id_0_is_nobodys),
		TEST(no_qp_is_never_stale),
		TEST(a_path_that_breaks_later_ends_the_retries),
		TEST(a_repetition_that_cannot_go_out_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
