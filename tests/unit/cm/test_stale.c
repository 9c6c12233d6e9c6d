/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host that died and came back has forgotten its connections, and may use the numbers again that it used before. The
 * transaction ID of the REQ tells one life from the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ends.h"

static void accept_from(uint32_t qpn)
{
	struct cm_rep rep;

	net_rep(&rep, there, qpn);
	assert_int_equal(cm_accept(passive.conn, &rep, net.now_ns), 0);
}

/* The request of the active side, as it went out. */
static struct cm_msg request_sent;

static void request_unanswered(void)
{
	lose();
	request();
	assert_int_equal(last_sent.type, CM_MSG_REQ);
	request_sent = last_sent;
	sent_count = 0;
}

static struct cm_msg answer(enum cm_msg_type type, uint64_t tid)
{
	struct cm_msg msg = {.type = type, .tid = tid};

	/* Both IDs come first in all of them. */
	msg.rtu.local_comm_id = 0x777;
	msg.rtu.remote_comm_id = request_sent.req.local_comm_id;
	return msg;
}

static void answers_to_an_earlier_life_mean_nothing(void **state)
{
	struct cm_msg rej, mra, rep;
	uint64_t strays;

	(void)state;
	request_unanswered();
	strays = cm_counters(here->cm)->strays;
	rej = answer(CM_MSG_REJ, request_sent.tid + 1);
	rej.rej.reason = CM_REJ_CONSUMER;
	receive_by_hand(here, &rej, there->gid[15]);
	mra = answer(CM_MSG_MRA, request_sent.tid + 1);
	receive_by_hand(here, &mra, there->gid[15]);
	assert_int_equal(cm_counters(here->cm)->strays, strays + 2);
	/* Whoever sent this REP waits for an RTU that will not come. */
	rep = answer(CM_MSG_REP, request_sent.tid + 1);
	rep.rep.local_qpn = PASSIVE_QPN;
	receive_by_hand(here, &rep, there->gid[15]);
	assert_int_equal(sent_count, 1);
	assert_int_equal(last_sent.rej.reason, CM_REJ_INVALID_COMM_ID);
	expect_state(&active, CM_STATE_REQ_SENT);
	assert_int_equal(active.events, 0);
	rep.tid = request_sent.tid;
	receive_by_hand(here, &rep, there->gid[15]);
	expect_event(&active, 1, CM_EVENT_REP);
}

static void an_rtu_of_an_earlier_life_means_nothing(void **state)
{
	struct cm_msg rtu = {.type = CM_MSG_RTU};

	(void)state;
	request();
	accept_request();
	rtu.tid = last_sent.tid + 1;
	rtu.rtu.local_comm_id = cm_conn_local_id(active.conn);
	rtu.rtu.remote_comm_id = cm_conn_local_id(passive.conn);
	receive_by_hand(there, &rtu, here->gid[15]);
	expect_state(&passive, CM_STATE_REP_SENT);
	rtu.tid--;
	receive_by_hand(there, &rtu, here->gid[15]);
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

/* Under the number of one that is established: the sender has forgotten that. */
static void a_request_under_a_used_number_is_stale(void **state)
{
	struct cm_msg again;

	(void)state;
	request();
	again = last_sent;
	assert_int_equal(again.type, CM_MSG_REQ);
	accept_request();
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&passive, CM_STATE_ESTABLISHED);
	sent_count = 0;
	/* The very same again comes late. */
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(sent_count, 0);
	/* Another one, also of another QP. */
	again.tid++;
	again.req.local_qpn = ACTIVE_QPN + 1;
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(sent_count, 2);
	assert_int_equal(sent[0], CM_MSG_REJ);
	assert_int_equal(sent[1], CM_MSG_DREQ);
	expect_state(&passive, CM_STATE_DREQ_SENT);
}

/* Its number is that of one connection, its QP that of another: the sender has forgotten both. */
static void a_request_may_show_two_to_be_stale(void **state)
{
	struct end first;
	struct cm_msg again;

	(void)state;
	establish_both();
	first = passive;
	active.conn = net_connect(here, &active, ACTIVE_QPN + 1);
	again = last_sent;
	deliver();
	/* From another QP than the first, or that would be stale here. */
	accept_from(PASSIVE_QPN + 1);
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&passive, CM_STATE_ESTABLISHED);
	again.tid++;
	again.req.local_qpn = ACTIVE_QPN;
	sent_count = 0;
	lose();
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(sent_count, 3);
	assert_int_equal(sent[0], CM_MSG_REJ);
	assert_int_equal(sent[1], CM_MSG_DREQ);
	assert_int_equal(sent[2], CM_MSG_DREQ);
	expect_state(&first, CM_STATE_DREQ_SENT);
	expect_state(&passive, CM_STATE_DREQ_SENT);
}

/* Under the number of one that is in work: its reply will find nobody, so the new one has to wait. */
static void a_request_under_a_number_in_work_is_stale(void **state)
{
	struct cm_msg again;

	(void)state;
	request();
	again = last_sent;
	again.tid++;
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(last_sent.type, CM_MSG_REJ);
	assert_int_equal(last_sent.tid, again.tid);
	assert_int_equal(last_sent.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(last_sent.rej.remote_comm_id, again.req.local_comm_id);
	expect_state(&passive, CM_STATE_REQ_RCVD);
	assert_int_equal(passive.events, 0);
	assert_int_equal(cm_conn_count(there->cm), 1);
}

/* A withdrawal names its request by the sender's number; it must be that very request. */
static void a_withdrawal_of_an_earlier_life_means_nothing(void **state)
{
	struct cm_msg rej;

	(void)state;
	request();
	net.loss_percent = 100;
	cm_destroy(active.conn, net.now_ns);
	rej = last_sent;
	assert_int_equal(rej.type, CM_MSG_REJ);
	rej.tid++;
	receive_by_hand(there, &rej, here->gid[15]);
	assert_int_equal(passive.events, 0);
	rej.tid--;
	receive_by_hand(there, &rej, here->gid[15]);
	expect_event(&passive, 1, CM_EVENT_REJ);
}

/* The peer has another connection for its QP: what we still have of it is over. */
static void a_reply_from_a_used_qp_ends_what_used_it(void **state)
{
	struct end second = {0};
	struct cm_msg reply;

	(void)state;
	establish_both();
	sent_count = 0;
	second.conn = net_connect(here, &second, ACTIVE_QPN + 1);
	deliver();
	accept_request();
	reply = last_sent;
	lose();
	deliver();
	assert_int_equal(second.events, 0);
	expect_state(&active, CM_STATE_DREQ_SENT);
	assert_int_equal(sent_count, 4);
	assert_int_equal(sent[2], CM_MSG_REJ);
	assert_int_equal(sent[3], CM_MSG_DREQ);
	/* The reply again: the connection it refused is still wanted, by another QP. */
	receive_by_hand(here, &reply, there->gid[15]);
	assert_int_equal(last_sent.type, CM_MSG_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_STALE_CONN);
	assert_int_equal(last_sent.rej.about, CM_ABOUT_REP);
	expect_state(&second, CM_STATE_REQ_SENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_to_an_earlier_life_mean_nothing),
		TEST(an_rtu_of_an_earlier_life_means_nothing),
		TEST(a_request_under_a_used_number_is_stale),
		TEST(a_request_may_show_two_to_be_stale),
		TEST(a_request_under_a_number_in_work_is_stale),
		TEST(a_withdrawal_of_an_earlier_life_means_nothing),
		TEST(a_reply_from_a_used_qp_ends_what_used_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
