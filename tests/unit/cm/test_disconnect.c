/* SPDX-License-Identifier: BSD-2-Clause */
/* Disconnecting, timewait, and messages of unknown and restarted peers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cm/tag.h"
#include "ends.h"

static void cm_disconnect_timewait_lasts_twice_packet_lifetime(void **state)
{
	uint64_t start_ns;

	(void)state;
	establish_both();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	start_ns = net.now_ns;
	assert_int_equal(cm_disconnect(passive.conn, start_ns), 0);
	net_advance(&net, start_ns + TIMEWAIT_NS - 1);
	expect_state(&passive, CM_STATE_TIMEWAIT);
	net_advance(&net, start_ns + TIMEWAIT_NS);
	expect_state(&passive, CM_STATE_CLOSED);
}

static void cm_destroy_established_sends_dreq(void **state)
{
	(void)state;
	establish_both();
	cm_destroy(active.conn, net.now_ns);
	assert_int_equal(cm_conn_count(here->cm), 1);
	deliver();
	expect_event(&passive, 2, CM_EVENT_DREQ);
	cm_destroy(passive.conn, net.now_ns);
	assert_true(net_settle(&net, 10));
	assert_int_equal(cm_conn_count(here->cm) + cm_conn_count(there->cm), 0);
	assert_int_equal(active.events, 1);
	assert_int_equal(passive.events, 2);
}

/* A repeated DREQ is dropped: the DREP states that the consumer has disconnected, too. */
static void cm_receive_dreq_again_waits_for_consumer(void **state)
{
	(void)state;
	establish_both();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&active, CM_STATE_DREQ_SENT);
	for (int i = 0; i < 3; i++) {
		net_advance(&net, net_next(&net));
		deliver();
		expect_state(&active, CM_STATE_DREQ_SENT);
	}
	assert_int_equal(cm_counters(there->cm)->received[CM_MSG_DREQ], 4);
	assert_int_equal(cm_counters(there->cm)->sent[CM_MSG_DREP], 0);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
	assert_int_equal(passive.events, 2);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	deliver();
	expect_event(&active, 2, CM_EVENT_DREP);
}

/* The consumer never disconnects: the peer gives up. */
static void cm_disconnect_sleeping_consumer_times_out(void **state)
{
	(void)state;
	establish_both();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	while (active.events == 1) {
		net_advance(&net, net_next(&net));
		deliver();
	}
	expect_event(&active, 2, CM_EVENT_DREQ_ERROR);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
}

/* No DREQ is lost there. */
static void cm_disconnect_same_host_dreq_is_repeated_late(void **state)
{
	uint64_t start_ns;

	(void)state;
	net.is_local = true;
	establish_both();
	start_ns = net.now_ns;
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&passive, CM_STATE_DREQ_RCVD);
	assert_int_equal(net_next(&net), start_ns + RESPONSE_NS);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	deliver();
	expect_event(&active, 2, CM_EVENT_DREP);
}

/* A peer that received neither the RTU nor the DREQ repeats its REP. */
static void cm_receive_rep_after_dreq_repeats_dreq(void **state)
{
	const enum cm_msg_type expected[] = {CM_MSG_DREQ};
	struct cm_msg rep;

	(void)state;
	request();
	accept_request();
	rep = last_sent;
	assert_int_equal(rep.type, CM_MSG_REP);
	deliver();
	lose();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	net.loss_percent = 0;
	sent_count = 0;
	receive_by_hand(here, &rep, there->gid[15]);
	expect_sent(1, expected);
	deliver();
	expect_event(&passive, 1, CM_EVENT_DREQ);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
}

static void cm_disconnect_both_sides_at_once_reach_timewait(void **state)
{
	(void)state;
	establish_both();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	deliver();
	expect_event(&active, 2, CM_EVENT_DREP);
	expect_event(&passive, 2, CM_EVENT_DREP);
	expect_state(&active, CM_STATE_TIMEWAIT);
	expect_state(&passive, CM_STATE_TIMEWAIT);
}

static void cm_disconnect_no_drep_reaches_timewait(void **state)
{
	(void)state;
	establish_both();
	lose();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	while (active.events == 1)
		net_advance(&net, net_next(&net));
	expect_event(&active, 2, CM_EVENT_DREQ_ERROR);
	expect_state(&active, CM_STATE_TIMEWAIT);
}

/*
 * The peer connects its QP again: the request is rejected as stale, and the old connection is
 * challenged.
 */
static void cm_receive_req_with_connected_qpn_is_rejected_and_challenged(void **state)
{
	struct cm_msg msg = {
		.type = CM_MSG_REQ,
		.req =
			{
				.local_comm_id = 0x777,
				.local_ca_guid = here->guid,
				.local_qpn = ACTIVE_QPN,
				.service_id = NET_SERVICE,
			},
	};

	(void)state;
	establish_both();
	sent_count = 0;
	receive_by_hand(there, &msg, here->gid[15]);
	assert_int_equal(sent_count, 2);
	assert_int_equal(sent[0], CM_MSG_REJ);
	assert_int_equal(sent[1], CM_MSG_DREQ);
	assert_int_equal(cm_counters(there->cm)->challenges, 1);
	expect_state(&passive, CM_STATE_ESTABLISHED);
	/* Another host with the same GUID is a different host. */
	receive_by_hand(there, &msg, 77);
	assert_int_equal(sent_count, 2);
	assert_int_equal(cm_conn_state(passive.conn), CM_STATE_REQ_RCVD);
}

/*
 * QPs in timewait are the peer's responsibility: as with Linux, its next REQ with the QPN is a new
 * request.
 */
static void cm_receive_req_with_qpn_in_timewait_is_accepted(void **state)
{
	struct end first;

	(void)state;
	establish_both();
	cm_destroy(active.conn, net.now_ns);
	deliver();
	expect_state(&passive, CM_STATE_DREQ_RCVD);
	active.events = 0;
	request();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_STALE_CONN);
	cm_destroy(active.conn, net.now_ns);
	assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	deliver();
	expect_state(&passive, CM_STATE_TIMEWAIT);
	first = passive;
	request();
	expect_state(&passive, CM_STATE_REQ_RCVD);
	expect_state(&first, CM_STATE_TIMEWAIT);
}

static void cm_receive_message_of_other_host_changes_nothing(void **state)
{
	struct cm_msg dreq = {.type = CM_MSG_DREQ};
	struct cm_msg rej = {.type = CM_MSG_REJ};
	uint64_t strays;

	(void)state;
	establish_both();
	dreq.dreq.local_comm_id = cm_conn_local_id(active.conn);
	dreq.dreq.remote_comm_id = cm_conn_local_id(passive.conn);
	dreq.dreq.remote_qpn = PASSIVE_QPN;
	rej.rej.local_comm_id = cm_conn_local_id(active.conn);
	rej.rej.remote_comm_id = cm_conn_local_id(passive.conn);
	rej.rej.reason = CM_REJ_STALE_CONN;

	/* From another address it refers to no connection: only a DREP is sent. */
	sent_count = 0;
	receive_by_hand(there, &dreq, 77);
	assert_int_equal(sent_count, 1);
	assert_int_equal(sent[0], CM_MSG_DREP);
	expect_state(&passive, CM_STATE_ESTABLISHED);
	/* A wrong QPN, then a wrong communication ID. */
	strays = cm_counters(there->cm)->strays;
	dreq.dreq.remote_qpn++;
	receive_by_hand(there, &dreq, here->gid[15]);
	dreq.dreq.remote_qpn--;
	rej.rej.local_comm_id++;
	receive_by_hand(there, &rej, here->gid[15]);
	assert_int_equal(cm_counters(there->cm)->strays, strays + 2);
	expect_state(&passive, CM_STATE_ESTABLISHED);
	/* A valid DREQ from the right address. */
	receive_by_hand(there, &dreq, here->gid[15]);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
}

static void cm_receive_unknown_connection_gets_response(void **state)
{
	struct cm_msg dreq = {.type = CM_MSG_DREQ,
			      .dreq = {.local_comm_id = 3, .remote_comm_id = 4}};
	struct cm_msg rep = {.type = CM_MSG_REP, .rep = {.local_comm_id = 3, .remote_comm_id = 4}};
	struct cm_msg rtu = {.type = CM_MSG_RTU, .rtu = {.local_comm_id = 3, .remote_comm_id = 4}};

	(void)state;
	receive_by_hand(there, &dreq, here->gid[15]);
	assert_int_equal(last_sent.type, CM_MSG_DREP);
	assert_int_equal(last_sent.drep.remote_comm_id, 3);
	assert_int_equal(last_sent.drep.local_comm_id, 4);
	receive_by_hand(there, &rep, here->gid[15]);
	assert_int_equal(last_sent.type, CM_MSG_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_INVALID_COMM_ID);
	assert_int_equal(last_sent.rej.remote_comm_id, 3);
	receive_by_hand(there, &rtu, here->gid[15]);
	assert_int_equal(sent_count, 2);
	assert_int_equal(cm_counters(there->cm)->strays, 1);
}

static void cm_receive_unmatched_message_is_counted(void **state)
{
	static const enum cm_msg_type types[] = {CM_MSG_LAP, CM_MSG_APR, CM_MSG_SIDR_REP,
						 CM_MSG_MRA, CM_MSG_REJ, CM_MSG_DREP};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct cm_msg msg = {.type = types[i]};

		receive_by_hand(there, &msg, here->gid[15]);
		assert_int_equal(cm_counters(there->cm)->strays, i + 1);
	}
	assert_int_equal(sent_count, 0);
}

static void cm_receive_lap_gets_apr_with_rejection(void **state)
{
	struct cm_msg lap = {.type = CM_MSG_LAP, .tid = 9};

	(void)state;
	establish_both();
	lap.lap.local_comm_id = cm_conn_local_id(active.conn);
	lap.lap.remote_comm_id = cm_conn_local_id(passive.conn);
	receive_by_hand(there, &lap, here->gid[15]);
	assert_int_equal(last_sent.type, CM_MSG_APR);
	assert_int_equal(last_sent.apr.status, CM_APR_UNSUPPORTED);
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

static void cm_receive_malformed_mad_is_counted(void **state)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct cm_path path;

	(void)state;
	net_path(there, &path);
	cm_receive(there->cm, &path, mad, MAD_BYTES, net.now_ns);
	cm_receive(there->cm, &path, mad, 3, net.now_ns);
	assert_int_equal(cm_counters(there->cm)->malformed[CM_FAULT_BASE_VERSION], 1);
	assert_int_equal(cm_counters(there->cm)->malformed[CM_FAULT_LENGTH], 1);
	assert_int_equal(sent_count, 0);
}

/* Establishes a connection whose active side belongs to this user, and destroys that side. */
static void end_connection_of(uint32_t uid)
{
	const struct cm_tag tag = {.uid = uid, .pid = 4711};

	active = passive = (struct end){0};
	sent_count = 0;
	establish_both();
	cm_conn_set_tag(active.conn, &tag);
	cm_destroy(active.conn, net.now_ns);
	deliver();
	cm_destroy(passive.conn, net.now_ns);
	deliver();
}

/* No time passes: all connections are in timewait. */
static void cm_destroy_limits_connections_of_user_in_timewait(void **state)
{
	(void)state;
	end_connection_of(1001);
	for (unsigned i = 0; i < CM_OWNERLESS_PER_USER; i++)
		end_connection_of(1000);
	assert_int_equal(cm_conn_count(here->cm), CM_OWNERLESS_PER_USER + 1);
	end_connection_of(1000);
	end_connection_of(1000);
	assert_int_equal(cm_conn_count(here->cm), CM_OWNERLESS_PER_USER + 1);
	assert_int_equal(cm_counters(here->cm)->shortened, 2);
	/* Neither another user nor root is limited by them. */
	end_connection_of(1001);
	end_connection_of(0);
	assert_int_equal(cm_conn_count(here->cm), CM_OWNERLESS_PER_USER + 3);
	net_advance(&net, net.now_ns + TIMEWAIT_NS);
	assert_int_equal(cm_conn_count(here->cm), 0);
}

/* The peer receives no DREQ of one connection, which is the oldest one of the user. */
static void cm_destroy_ends_connection_that_waits_for_drep(void **state)
{
	const struct cm_tag tag = {.uid = 1000, .pid = 4711};
	struct cm_rep rep;

	(void)state;
	/* Other queue pairs than those of end_connection_of(), whose requests would be stale. */
	active.conn = net_connect(here, &active, ACTIVE_QPN + 1);
	deliver();
	net_rep(&rep, there, PASSIVE_QPN + 1);
	assert_int_equal(cm_accept(passive.conn, &rep, net.now_ns), 0);
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	cm_conn_set_tag(active.conn, &tag);
	lose();
	cm_destroy(active.conn, net.now_ns);
	expect_state(&active, CM_STATE_DREQ_SENT);
	cm_destroy(passive.conn, net.now_ns);
	net.loss_percent = 0;
	for (unsigned i = 0; i < CM_OWNERLESS_PER_USER; i++)
		end_connection_of(1000);
	assert_int_equal(cm_conn_count(here->cm), CM_OWNERLESS_PER_USER);
	assert_int_equal(cm_counters(here->cm)->shortened, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cm_disconnect_timewait_lasts_twice_packet_lifetime),
		TEST(cm_destroy_established_sends_dreq),
		TEST(cm_receive_dreq_again_waits_for_consumer),
		TEST(cm_disconnect_sleeping_consumer_times_out),
		TEST(cm_disconnect_same_host_dreq_is_repeated_late),
		TEST(cm_receive_rep_after_dreq_repeats_dreq),
		TEST(cm_disconnect_both_sides_at_once_reach_timewait),
		TEST(cm_disconnect_no_drep_reaches_timewait),
		TEST(cm_receive_req_with_connected_qpn_is_rejected_and_challenged),
		TEST(cm_receive_req_with_qpn_in_timewait_is_accepted),
		TEST(cm_receive_message_of_other_host_changes_nothing),
		TEST(cm_receive_unknown_connection_gets_response),
		TEST(cm_receive_unmatched_message_is_counted),
		TEST(cm_receive_lap_gets_apr_with_rejection),
		TEST(cm_receive_malformed_mad_is_counted),
		TEST(cm_destroy_limits_connections_of_user_in_timewait),
		TEST(cm_destroy_ends_connection_that_waits_for_drep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
