/* SPDX-License-Identifier: BSD-2-Clause */
/* One thing at a time: what is sent, what is told, and when, between two communication managers. */
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
#include "net.h"

#define LOG_MAX	    256
#define ACTIVE_QPN  0x10
#define PASSIVE_QPN 0x20
#define MRA_NS	    (4096ull << 24)
#define RESPONSE_NS (4096ull << 16) /* net_connect()'s response timeout */
#define TIMEWAIT_NS (4096ull << 10)

/* One of the two ends of the connection under test. */
struct end {
	struct cm_conn *conn;
	unsigned events;
	enum cm_event_type last;
	struct cm_msg msg; /* the last event's */
};

static struct net net;
static struct net_node *here, *there;
static struct end active, passive;
static uint16_t refuse_reason;
static bool is_refusing;
static enum cm_msg_type sent[LOG_MAX];
static struct cm_msg last_sent;
static unsigned sent_count;

static void *on_request(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			uint16_t *reason)
{
	assert_ptr_equal(node, there);
	assert_int_equal(req->service_id, NET_SERVICE);
	if (is_refusing) {
		*reason = refuse_reason;
		return NULL;
	}
	passive.conn = conn;
	return &passive;
}

static void on_event(struct net_node *node, struct cm_conn *conn, void *owner,
		     enum cm_event_type type, const struct cm_msg *msg)
{
	struct end *end = owner;

	(void)node;
	assert_ptr_equal(end->conn, conn);
	end->events++;
	end->last = type;
	if (msg)
		end->msg = *msg;
}

static void on_wire(struct net_node *from, const struct cm_msg *msg)
{
	(void)from;
	assert_true(sent_count < LOG_MAX);
	last_sent = *msg;
	sent[sent_count++] = msg->type;
}

static int setup(void **state)
{
	(void)state;
	net_open(&net, 7);
	net.on_request = on_request;
	net.on_event = on_event;
	net.on_wire = on_wire;
	here = &net.nodes[0];
	there = &net.nodes[1];
	memset(&active, 0, sizeof(active));
	memset(&passive, 0, sizeof(passive));
	is_refusing = false;
	refuse_reason = 0;
	sent_count = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	net_close(&net);
	return 0;
}

/* Everything on the wire arrives, no timer runs out. */
static void deliver(void)
{
	while (net.in_flight > 0)
		net_advance(&net, net.now_ns + 1);
}

/* From here on nothing arrives. */
static void lose(void)
{
	net.loss_percent = 100;
}

static void expect_sent(unsigned count, const enum cm_msg_type *types)
{
	assert_int_equal(sent_count, count);
	for (unsigned i = 0; i < count; i++)
		assert_string_equal(cm_msg_name(sent[i]), cm_msg_name(types[i]));
}

static void expect_state(const struct end *end, enum cm_state state)
{
	assert_string_equal(cm_state_name(cm_conn_state(end->conn)), cm_state_name(state));
}

static void expect_event(const struct end *end, unsigned count, enum cm_event_type type)
{
	assert_int_equal(end->events, count);
	assert_string_equal(cm_event_name(end->last), cm_event_name(type));
}

static void request(void)
{
	active.conn = net_connect(here, &active, ACTIVE_QPN);
	deliver();
}

static void accept_request(void)
{
	struct cm_rep rep;

	net_rep(&rep, there, PASSIVE_QPN);
	rep.responder_resources = 3;
	memcpy(rep.private_data, "hello", 5);
	assert_int_equal(cm_accept(passive.conn, &rep, net.now_ns), 0);
}

static void establish_both(void)
{
	request();
	accept_request();
	deliver();
	assert_int_equal(cm_establish(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&active, CM_STATE_ESTABLISHED);
	expect_state(&passive, CM_STATE_ESTABLISHED);
}

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

static void timewait_lasts_as_the_path_says(void **state)
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

static void whoever_leaves_disconnects(void **state)
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

static void a_sleeping_consumer_does_not_hold_up_its_peer(void **state)
{
	(void)state;
	establish_both();
	assert_int_equal(cm_disconnect(active.conn, net.now_ns), 0);
	deliver();
	expect_state(&active, CM_STATE_DREQ_SENT);
	net_advance(&net, net_next(&net));
	deliver();
	expect_event(&active, 2, CM_EVENT_DREP);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
	assert_int_equal(passive.events, 2);
}

static void both_disconnect_at_once(void **state)
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

static void an_unanswered_dreq_ends_all_the_same(void **state)
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

static void receive_by_hand(struct net_node *node, const struct cm_msg *msg, uint8_t gid_end)
{
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	cm_msg_build(msg, mad);
	net_path(node, &path);
	path.dgid[15] = gid_end;
	cm_receive(node->cm, &path, mad, MAD_BYTES, net.now_ns);
}

/* The peer lost its memory and connects its QP again: refused as stale, and the old connection taken down. */
static void a_qp_in_a_connection_is_stale(void **state)
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
	expect_state(&passive, CM_STATE_DREQ_SENT);
	/* Another host that calls itself by the same GUID is another host. */
	receive_by_hand(there, &msg, 77);
	assert_int_equal(sent_count, 2);
	assert_int_equal(cm_conn_state(passive.conn), CM_STATE_REQ_RCVD);
}

/* Until timewait is over the QP must not connect again, then it may. */
static void a_qp_in_timewait_is_stale(void **state)
{
	(void)state;
	establish_both();
	cm_destroy(active.conn, net.now_ns);
	deliver();
	cm_destroy(passive.conn, net.now_ns);
	deliver();
	active.events = 0;
	request();
	expect_event(&active, 1, CM_EVENT_REJ);
	assert_int_equal(active.msg.rej.reason, CM_REJ_STALE_CONN);
	cm_destroy(active.conn, net.now_ns);
	assert_true(net_settle(&net, 10));
	request();
	expect_state(&passive, CM_STATE_REQ_RCVD);
}

static void strangers_change_nothing(void **state)
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

	/* From another address it is about no connection of ours: a DREP, and nothing else. */
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
	/* Everything right, from the right address. */
	receive_by_hand(there, &dreq, here->gid[15]);
	expect_state(&passive, CM_STATE_DREQ_RCVD);
}

static void what_is_unknown_is_answered(void **state)
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

static void alternate_paths_are_not_offered(void **state)
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

static void noise_is_counted(void **state)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct cm_path path;

	(void)state;
	net_path(there, &path);
	cm_receive(there->cm, &path, mad, MAD_BYTES, net.now_ns);
	cm_receive(there->cm, &path, mad, 3, net.now_ns);
	assert_int_equal(cm_counters(there->cm)->malformed, 2);
	assert_int_equal(sent_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect_and_disconnect),
		TEST(timewait_lasts_as_the_path_says),
		TEST(nobody_listens),
		TEST(listening_is_counted),
		TEST(the_listener_refuses_or_says_nothing),
		TEST(consumer_rejects),
		TEST(consumer_rejects_a_reply),
		TEST(unanswered_requests_are_repeated),
		TEST(a_path_that_refuses_ends_it_at_once),
		TEST(a_consumer_that_thinks_gets_time),
		TEST(an_active_consumer_may_think_too),
		TEST(a_lost_reply_is_repeated_for_a_repeated_request),
		TEST(a_lost_rtu_is_sent_again),
		TEST(a_reply_to_nobody_gives_up),
		TEST(data_may_come_before_the_rtu),
		TEST(whoever_leaves_withdraws_its_request),
		TEST(whoever_leaves_disconnects),
		TEST(a_sleeping_consumer_does_not_hold_up_its_peer),
		TEST(both_disconnect_at_once),
		TEST(an_unanswered_dreq_ends_all_the_same),
		TEST(a_qp_in_a_connection_is_stale),
		TEST(a_qp_in_timewait_is_stale),
		TEST(strangers_change_nothing),
		TEST(what_is_unknown_is_answered),
		TEST(alternate_paths_are_not_offered),
		TEST(calls_out_of_turn_are_refused),
		TEST(noise_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
