/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A restarted host has lost its connections, and may use the same numbers again. The transaction ID
 * of the REQ distinguishes the two runs of the host.
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

/* The REQ that the active side sent. */
static struct cm_msg request_sent;

static void request_unanswered(void)
{
	lose();
	request();
	assert_int_equal(last_sent.type, CM_MSG_REQ);
	request_sent = last_sent;
	sent_count = 0;
}

static struct cm_msg response(enum cm_msg_type type, uint64_t tid)
{
	struct cm_msg msg = {.type = type, .tid = tid};

	/* All these messages begin with both communication IDs. */
	msg.rtu.local_comm_id = 0x777;
	msg.rtu.remote_comm_id = request_sent.req.local_comm_id;
	return msg;
}

static void cm_receive_rep_of_former_connection_is_dropped(void **state)
{
	struct cm_msg rej, mra, rep;
	uint64_t strays;

	(void)state;
	request_unanswered();
	strays = cm_counters(here->cm)->strays;
	rej = response(CM_MSG_REJ, request_sent.tid + 1);
	rej.rej.reason = CM_REJ_CONSUMER;
	receive_by_hand(here, &rej, there->gid[15]);
	mra = response(CM_MSG_MRA, request_sent.tid + 1);
	receive_by_hand(here, &mra, there->gid[15]);
	assert_int_equal(cm_counters(here->cm)->strays, strays + 2);
	/* The sender of this REP waits for an RTU that is never sent. */
	rep = response(CM_MSG_REP, request_sent.tid + 1);
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

static void cm_receive_rtu_of_former_connection_is_dropped(void **state)
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

/*
 * A REQ with the communication ID of an established connection: the sender has lost that
 * connection.
 */
static void cm_receive_req_with_established_communication_id_is_stale(void **state)
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
	/* A late duplicate of the same REQ. */
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(sent_count, 0);
	/*
	 * Another REQ, also for another QP: the peer is challenged, and still has the connection.
	 */
	again.tid++;
	again.req.local_qpn = ACTIVE_QPN + 1;
	receive_by_hand(there, &again, here->gid[15]);
	assert_int_equal(sent_count, 2);
	assert_int_equal(sent[0], CM_MSG_REJ);
	assert_int_equal(sent[1], CM_MSG_DREQ);
	deliver();
	expect_state(&passive, CM_STATE_ESTABLISHED);
	expect_state(&active, CM_STATE_ESTABLISHED);
	assert_int_equal(sent_count, 2);
}

/*
 * Delivers a REQ from the active side's host for this QP; returns the last message sent as a
 * result.
 */
static struct cm_msg a_request_again(uint32_t qpn)
{
	const struct cm_msg req = {
		.type = CM_MSG_REQ,
		.tid = 0x123456789,
		.req =
			{
				.local_comm_id = 0x777,
				.local_ca_guid = here->guid,
				.local_qpn = qpn,
				.service_id = NET_SERVICE,
			},
	};

	receive_by_hand(there, &req, here->gid[15]);
	return last_sent;
}

/* Any process on the peer's host can send a REQ with the QPN of another process. */
static void cm_receive_req_with_foreign_qpn_ends_nothing(void **state)
{
	(void)state;
	establish_both();
	sent_count = 0;
	for (int i = 0; i < 3; i++)
		(void)a_request_again(ACTIVE_QPN);
	assert_int_equal(sent_count, 4);
	assert_int_equal(sent[0], CM_MSG_REJ);
	assert_int_equal(sent[1], CM_MSG_DREQ);
	assert_int_equal(sent[2], CM_MSG_REJ);
	assert_int_equal(sent[3], CM_MSG_REJ);
	assert_int_equal(cm_counters(there->cm)->challenges, 1);
	deliver();
	expect_state(&passive, CM_STATE_ESTABLISHED);
	expect_state(&active, CM_STATE_ESTABLISHED);
	assert_int_equal(passive.events, 1);
	assert_int_equal(active.events, 1);
	/* Much later the next REQ causes another challenge. */
	net.now_ns += 2000000000;
	(void)a_request_again(ACTIVE_QPN);
	assert_int_equal(cm_counters(there->cm)->challenges, 2);
}

static void cm_receive_challenge_of_lost_connection_ends_it(void **state)
{
	struct cm_msg challenge, drep = {.type = CM_MSG_DREP};

	(void)state;
	establish_both();
	net_restart(here);
	challenge = a_request_again(ACTIVE_QPN);
	assert_int_equal(challenge.type, CM_MSG_DREQ);
	/* A DREP without the challenge's transaction ID has no effect. */
	drep.drep.local_comm_id = challenge.dreq.remote_comm_id;
	drep.drep.remote_comm_id = challenge.dreq.local_comm_id;
	receive_by_hand(there, &drep, here->gid[15]);
	drep.tid = challenge.tid + 2;
	receive_by_hand(there, &drep, here->gid[15]);
	expect_state(&passive, CM_STATE_ESTABLISHED);
	deliver();
	expect_event(&passive, 2, CM_EVENT_LOST);
	expect_state(&passive, CM_STATE_TIMEWAIT);
}

/*
 * The communication ID belongs to one connection and the QPN to another: the sender has lost both.
 */
static void cm_receive_req_may_make_two_connections_stale(void **state)
{
	struct end first;
	struct cm_msg again;

	(void)state;
	establish_both();
	first = passive;
	active.conn = net_connect(here, &active, ACTIVE_QPN + 1);
	again = last_sent;
	deliver();
	/* From another QP than the first, whose request would be stale here. */
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
	/* Both connections are challenged. */
	assert_int_equal(cm_counters(there->cm)->challenges, 2);
	expect_state(&first, CM_STATE_ESTABLISHED);
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

/*
 * The communication ID of a connection that is being established: its reply would match no
 * connection, so the new request has to wait.
 */
static void cm_receive_req_with_connecting_communication_id_is_stale(void **state)
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

/*
 * A REJ that cancels a request contains the sender's communication ID; it must match that request.
 */
static void cm_receive_rej_of_former_request_is_dropped(void **state)
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

/* The REP is rejected, and the peer is challenged about the connection that used the QP. */
static void cm_receive_rep_with_connected_qpn_is_rejected_and_challenged(void **state)
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
	expect_state(&active, CM_STATE_ESTABLISHED);
	assert_int_equal(cm_counters(here->cm)->challenges, 1);
	assert_int_equal(sent_count, 4);
	assert_int_equal(sent[2], CM_MSG_REJ);
	assert_int_equal(sent[3], CM_MSG_DREQ);
	/* The REP is retransmitted: the new connection is still wanted, with another QP. */
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
		TEST(cm_receive_rep_of_former_connection_is_dropped),
		TEST(cm_receive_rtu_of_former_connection_is_dropped),
		TEST(cm_receive_req_with_established_communication_id_is_stale),
		TEST(cm_receive_req_may_make_two_connections_stale),
		TEST(cm_receive_req_with_connecting_communication_id_is_stale),
		TEST(cm_receive_rej_of_former_request_is_dropped),
		TEST(cm_receive_rep_with_connected_qpn_is_rejected_and_challenged),
		TEST(cm_receive_req_with_foreign_qpn_ends_nothing),
		TEST(cm_receive_challenge_of_lost_connection_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
