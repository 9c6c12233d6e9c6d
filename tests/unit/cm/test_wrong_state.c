/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every message in every state, with valid IDs and from the peer's host: the reply, the consumer's
 * event and the following state. Unexpected messages are counted and have no other effect.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cm/sidr.h"
#include "ends.h"

#define TEXT_MAX 64

/* The messages, in the order of the table's columns. */
static const struct {
	enum cm_msg_type type;
	enum cm_about about; /* message that an MRA refers to */
} messages[] = {
	{CM_MSG_REQ, 0},
	{CM_MSG_MRA, CM_ABOUT_REQ},
	{CM_MSG_MRA, CM_ABOUT_REP},
	{CM_MSG_REJ, 0},
	{CM_MSG_REP, 0},
	{CM_MSG_RTU, 0},
	{CM_MSG_DREQ, 0},
	{CM_MSG_DREP, 0},
	{CM_MSG_LAP, 0},
	{CM_MSG_APR, 0},
	{CM_MSG_SIDR_REP, 0},
};
#define MESSAGES (sizeof(messages) / sizeof(messages[0]))

/*
 * ">X" is a reply, "!x" an event, "=x" a new state, "." a stray. A REQ that matches no connection
 * is a new request (">" and "!" are then for that request). Without a matching connection a REP is
 * rejected and a DREQ is answered.
 */
#define NEW "new"
static const char *const wanted[CM_STATE_COUNT][MESSAGES] = {
	/*
	 * REQ, MRA REQ, MRA REP, REJ, REP,
	 * RTU, DREQ, DREP, LAP, APR, SIDR_REP
	 */
	/* clang-format off */
	[CM_STATE_IDLE] = {        NEW,        ".",                 ".",                 ".",              ">REJ",
				   ".",                 ">DREP",             ".",             ".",    ".", "."},
	[CM_STATE_REQ_SENT] = {    NEW,        "=mra_req_rcvd",     ".",                 "!rej=closed",    "!rep=rep_rcvd",
				   ".",                 ".",                 ".",             ".",    ".", "."},
	[CM_STATE_MRA_REQ_RCVD] = {NEW,        "",                  ".",                 "!rej=closed",    "!rep=rep_rcvd",
				   ".",                 ".",                 ".",             ".",    ".", "."},
	[CM_STATE_REQ_RCVD] = {    ">MRA=mra_req_sent", ".",        ".",                 "!rej=closed",    ".",
				   ".",                 ".",                 ".",             ".",    ".", "."},
	[CM_STATE_MRA_REQ_SENT] = {">MRA",     ".",                 ".",                 "!rej=closed",    ".",
				   ".",                 ".",                 ".",             ".",    ".", "."},
	[CM_STATE_REP_SENT] = {    ">REP",     ".",                 "=mra_rep_rcvd",     "!rej=closed",    ".",
				   "!rtu=established",  "!dreq=dreq_rcvd",   ".",             ".",    ".", "."},
	[CM_STATE_MRA_REP_RCVD] = {".",        ".",                 "",                  "!rej=closed",    ".",
				   "!rtu=established",  "!dreq=dreq_rcvd",   ".",             ".",    ".", "."},
	[CM_STATE_REP_RCVD] = {    NEW,        ".",                 ".",                 "!rej=closed",    ">MRA=mra_rep_sent",
				   ".",                 "!dreq=dreq_rcvd",   ".",             ".",    ".", "."},
	[CM_STATE_MRA_REP_SENT] = {NEW,        ".",                 ".",                 "!rej=closed",    ">MRA",
				   ".",                 "!dreq=dreq_rcvd",   ".",             ".",    ".", "."},
	[CM_STATE_ESTABLISHED] = { ".",        ".",                 ".",                 "!lost=timewait", ">RTU",
				   ".",                 "!dreq=dreq_rcvd",   ".",             ">APR", ".", "."},
	[CM_STATE_DREQ_SENT] = {   ">REJ",     ".",                 ".",                 "!lost=timewait", ">DREQ",
				   ".",                 ">DREP!drep=timewait", "!drep=timewait", ".", ".", "."},
	[CM_STATE_DREQ_RCVD] = {   ".",        ".",                 ".",                 ".",              ".",
				   ".",                 ".",                 ".",             ".",    ".", "."},
	[CM_STATE_TIMEWAIT] = {    ">REJ",     ".",                 ".",                 ".",              ".",
				   ".",                 ">DREP",             ".",             ".",    ".", "."},
	[CM_STATE_CLOSED] = {      NEW,        ".",                 ".",                 ".",              ">REJ",
				   ".",                 ">DREP",             ".",             ".",    ".", "."},
	/* clang-format on */
};

static uint64_t tid_of_req;
static void (*log_sent)(struct net_node *from, const struct cm_msg *msg);

static void on_wire(struct net_node *from, const struct cm_msg *msg)
{
	if (msg->type == CM_MSG_REQ)
		tid_of_req = msg->tid;
	log_sent(from, msg);
}

static int open_ends(void **state)
{
	int ret = ends_open(state);

	log_sent = net.on_wire;
	net.on_wire = on_wire;
	tid_of_req = 0;
	return ret;
}

/* The end of the connection that is moved to the state. */
static struct end *under_test;

static struct net_node *node_of(const struct end *end)
{
	return end == &active ? here : there;
}

static struct cm_conn *peer_of(const struct end *end)
{
	return end == &active ? passive.conn : active.conn;
}

static void fill(struct cm_msg *msg, enum cm_msg_type type, enum cm_about about)
{
	struct cm_conn *peer = peer_of(under_test);
	bool is_active = under_test == &active;

	memset(msg, 0, sizeof(*msg));
	msg->type = type;
	msg->tid = tid_of_req;
	/*
	 * Every message of a connection begins with both communication IDs, the sender's before the
	 * recipient's.
	 */
	msg->rtu.local_comm_id = peer ? cm_conn_local_id(peer) : 4711;
	if (type != CM_MSG_REQ)
		msg->rtu.remote_comm_id = cm_conn_local_id(under_test->conn);
	if (type == CM_MSG_REQ) {
		msg->req.local_ca_guid = net_other(node_of(under_test))->guid;
		msg->req.service_id = NET_SERVICE;
	} else if (type == CM_MSG_MRA) {
		msg->mra.about = (uint8_t)about;
		msg->mra.service_timeout = 10;
	} else if (type == CM_MSG_REP) {
		msg->rep.local_ca_guid = net_other(node_of(under_test))->guid;
		msg->rep.local_qpn = PASSIVE_QPN;
	} else if (type == CM_MSG_DREQ) {
		msg->dreq.remote_qpn = is_active ? ACTIVE_QPN :
				       cm_conn_state(passive.conn) >= CM_STATE_REP_SENT ?
						   PASSIVE_QPN :
						   0;
	} else if (type == CM_MSG_SIDR_REP) {
		msg->sidr_rep.request_id = cm_conn_local_id(under_test->conn);
	}
}

static void hand(enum cm_msg_type type, enum cm_about about)
{
	struct net_node *node = node_of(under_test);
	struct cm_msg msg;

	fill(&msg, type, about);
	receive_by_hand(node, &msg, net_other(node)->gid[15]);
}

static void enter_passive(enum cm_state state)
{
	under_test = &passive;
	request();
	if (state == CM_STATE_REQ_RCVD)
		return;
	if (state == CM_STATE_MRA_REQ_SENT) {
		hand(CM_MSG_REQ, 0);
		return;
	}
	lose();
	accept_request();
	if (state == CM_STATE_MRA_REP_RCVD)
		hand(CM_MSG_MRA, CM_ABOUT_REP);
	if (state == CM_STATE_REP_SENT || state == CM_STATE_MRA_REP_RCVD)
		return;
	hand(CM_MSG_RTU, 0);
	if (state == CM_STATE_DREQ_SENT)
		assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
	if (state == CM_STATE_DREQ_RCVD || state == CM_STATE_TIMEWAIT)
		hand(CM_MSG_DREQ, 0);
	if (state == CM_STATE_TIMEWAIT)
		assert_int_equal(cm_disconnect(passive.conn, net.now_ns), 0);
}

static void enter_active(enum cm_state state)
{
	under_test = &active;
	if (state == CM_STATE_IDLE) {
		active.conn = cm_conn_new(here->cm, &active);
		return;
	}
	if (state == CM_STATE_REQ_SENT || state == CM_STATE_MRA_REQ_RCVD)
		lose();
	request();
	if (state == CM_STATE_MRA_REQ_RCVD)
		hand(CM_MSG_MRA, CM_ABOUT_REQ);
	if (state == CM_STATE_CLOSED)
		hand(CM_MSG_REJ, 0);
	if (state == CM_STATE_REP_RCVD || state == CM_STATE_MRA_REP_SENT) {
		accept_request();
		deliver();
	}
	if (state == CM_STATE_MRA_REP_SENT)
		hand(CM_MSG_REP, 0);
}

static void enter(enum cm_state state)
{
	switch (state) {
	case CM_STATE_REQ_RCVD:
	case CM_STATE_MRA_REQ_SENT:
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
	case CM_STATE_ESTABLISHED:
	case CM_STATE_DREQ_SENT:
	case CM_STATE_DREQ_RCVD:
	case CM_STATE_TIMEWAIT:
		enter_passive(state);
		break;
	default:
		enter_active(state);
	}
	expect_state(under_test, state);
	net.loss_percent = 100;
}

/* Describes the effects of a message in the notation of the table. */
static void describe(char text[TEXT_MAX], enum cm_state before, unsigned sent_before,
		     unsigned events_before, uint64_t strays_before)
{
	enum cm_state after = cm_conn_state(under_test->conn);
	bool is_stray = cm_counters(node_of(under_test)->cm)->strays != strays_before;
	bool has_answer = sent_count != sent_before;
	bool has_event = under_test->events != events_before;

	snprintf(text, TEXT_MAX, "%s%s%s%s%s%s%s", is_stray ? "." : "", has_answer ? ">" : "",
		 has_answer ? cm_msg_name(last_sent.type) : "", has_event ? "!" : "",
		 has_event ? cm_event_name(under_test->last) : "", after != before ? "=" : "",
		 after != before ? cm_state_name(after) : "");
}

static void *on_request_here(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			     uint16_t *reason)
{
	(void)node;
	(void)conn;
	(void)req;
	*reason = CM_REJ_NO_RESOURCES;
	return NULL;
}

/*
 * A REQ that does not belong to this connection does not change it; the REQ is rejected, because
 * the backlog is full.
 */
static void check_new(enum cm_state state)
{
	size_t count = cm_conn_count(node_of(under_test)->cm);
	unsigned events = under_test->events;

	net.on_request = on_request_here;
	hand(CM_MSG_REQ, 0);
	assert_int_equal(last_sent.type, CM_MSG_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_NO_RESOURCES);
	expect_state(under_test, state);
	assert_int_equal(under_test->events, events);
	assert_int_equal(cm_conn_count(node_of(under_test)->cm), count);
}

static void check_pair(enum cm_state state, unsigned message)
{
	const char *want = wanted[state][message];
	unsigned sent_before = sent_count, events_before;
	uint64_t strays_before;
	char got[TEXT_MAX];

	enter(state);
	sent_before = sent_count;
	events_before = under_test->events;
	strays_before = cm_counters(node_of(under_test)->cm)->strays;
	if (!strcmp(want, NEW)) {
		check_new(state);
		return;
	}
	hand(messages[message].type, messages[message].about);
	describe(got, state, sent_before, events_before, strays_before);
	if (strcmp(got, want) != 0)
		print_error("%s, %s: \"%s\", not \"%s\"\n", cm_state_name(state),
			    cm_msg_name(messages[message].type), got, want);
	assert_string_equal(got, want);
}

static void cm_receive_every_message_in_every_state_follows_table(void **state)
{
	for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
		for (unsigned m = 0; m < MESSAGES; m++) {
			open_ends(state);
			check_pair((enum cm_state)s, m);
			ends_close(state);
		}
	}
}

/* The same messages from another host, or with another ID, match no connection. */
static void cm_receive_every_message_of_other_host_changes_nothing(void **state)
{
	for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
		for (unsigned m = 1; m < MESSAGES; m++) {
			struct cm_msg msg;
			unsigned events;

			open_ends(state);
			enter((enum cm_state)s);
			events = under_test->events;
			fill(&msg, messages[m].type, messages[m].about);
			receive_by_hand(node_of(under_test), &msg, 77);
			msg.rtu.remote_comm_id ^= 0x100;
			receive_by_hand(node_of(under_test), &msg,
					net_other(node_of(under_test))->gid[15]);
			expect_state(under_test, (enum cm_state)s);
			assert_int_equal(under_test->events, events);
			ends_close(state);
		}
	}
}

static void tell_unreachable(uint64_t tid, uint8_t gid_end, size_t len, enum cm_msg_type type)
{
	struct cm_msg msg = {.type = type, .tid = tid};
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	msg.req.local_comm_id = cm_conn_local_id(under_test->conn);
	cm_msg_build(&msg, mad);
	net_path(node_of(under_test), &path);
	path.dgid[15] = gid_end;
	cm_unreachable(node_of(under_test)->cm, &path, mad, len, -EHOSTUNREACH, net.now_ns);
}

static void cm_unreachable_other_state_than_req_sent_is_dropped(void **state)
{
	for (unsigned s = 0; s < CM_STATE_COUNT; s++) {
		bool is_believed = s == CM_STATE_REQ_SENT;
		unsigned events;

		open_ends(state);
		enter((enum cm_state)s);
		events = under_test->events;
		sent_count = 0;
		tell_unreachable(tid_of_req, net_other(node_of(under_test))->gid[15], MAD_BYTES,
				 CM_MSG_REQ);
		expect_state(under_test, is_believed ? CM_STATE_CLOSED : (enum cm_state)s);
		assert_int_equal(under_test->events, events + is_believed);
		assert_int_equal(sent_count, 0);
		assert_int_equal(cm_counters(node_of(under_test)->cm)->unreachable, is_believed);
		ends_close(state);
	}
}

static void cm_unreachable_unknown_request_is_dropped(void **state)
{
	uint8_t peer;

	(void)state;
	enter(CM_STATE_REQ_SENT);
	peer = there->gid[15];
	tell_unreachable(tid_of_req + 1, peer, MAD_BYTES, CM_MSG_REQ);
	tell_unreachable(tid_of_req, 77, MAD_BYTES, CM_MSG_REQ);
	tell_unreachable(tid_of_req, peer, MAD_BYTES, CM_MSG_REP);
	tell_unreachable(tid_of_req, peer, MAD_BYTES, CM_MSG_SIDR_REQ);
	/* As many bytes as the oldest routers quote. */
	tell_unreachable(tid_of_req, peer, 0, CM_MSG_REQ);
	tell_unreachable(tid_of_req, peer, MAD_HDR_BYTES + 3, CM_MSG_REQ);
	assert_int_equal(cm_counters(here->cm)->strays, 6);
	expect_state(&active, CM_STATE_REQ_SENT);
	tell_unreachable(tid_of_req, peer, MAD_HDR_BYTES + 4, CM_MSG_REQ);
	expect_event(&active, 1, CM_EVENT_REQ_ERROR);
	assert_int_equal(cm_conn_error(active.conn), -EHOSTUNREACH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ends, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_receive_every_message_in_every_state_follows_table),
		cmocka_unit_test(cm_receive_every_message_of_other_host_changes_nothing),
		cmocka_unit_test(cm_unreachable_other_state_than_req_sent_is_dropped),
		TEST(cm_unreachable_unknown_request_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
