/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolving a service to a datagram QP, one aspect at a time: the messages sent, the events
 * reported, and their times.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/timer.h"
#include "cm/sidr.h"
#include "net.h"

#define LOG_MAX	   256
#define QPN	   0x1234
#define QKEY	   0x01234567
#define KEPT_NS	   (10 * CLOCK_NS_PER_S)
#define KEPT_COUNT 4096
#define QUESTIONS  1000

/* The events of the requesting side. */
struct asker {
	unsigned responses;
	unsigned errors;
	int error;
	struct cm_sidr_rep rep;
};

static struct net net;
static struct net_node *here, *there;
static struct asker asker;
static struct cm_sidr *asked; /* the resolution of the responding side */
static unsigned requests;
static struct cm_sidr_req request;
static bool is_refusing;
static uint8_t refuse_status;
static struct cm_msg sent[LOG_MAX];
static unsigned sent_count;

static void *on_sidr_request(struct net_node *node, struct cm_sidr *sidr,
			     const struct cm_sidr_req *req, uint8_t *status)
{
	assert_ptr_equal(node, there);
	requests++;
	request = *req;
	if (is_refusing) {
		*status = refuse_status;
		return NULL;
	}
	asked = sidr;
	return &asked;
}

static void on_sidr_event(struct net_node *node, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep)
{
	assert_ptr_equal(node, here);
	assert_ptr_equal(owner, &asker);
	assert_int_equal(cm_sidr_state_of(sidr), CM_SIDR_STATE_CLOSED);
	if (rep) {
		asker.responses++;
		asker.rep = *rep;
	} else {
		asker.errors++;
		asker.error = cm_sidr_error(sidr);
	}
}

static void on_wire(struct net_node *from, const struct cm_msg *msg)
{
	(void)from;
	if (sent_count < LOG_MAX)
		sent[sent_count] = *msg;
	sent_count++;
}

static int setup(void **state)
{
	(void)state;
	net_open(&net, 11);
	net.on_sidr_request = on_sidr_request;
	net.on_sidr_event = on_sidr_event;
	net.on_wire = on_wire;
	here = &net.nodes[0];
	there = &net.nodes[1];
	memset(&asker, 0, sizeof(asker));
	asked = NULL;
	requests = 0;
	is_refusing = false;
	refuse_status = 0;
	sent_count = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	net_close(&net);
	return 0;
}

static void deliver(void)
{
	while (net.in_flight > 0)
		net_advance(&net, net.now_ns + 1);
}

static void response(uint8_t status)
{
	struct cm_sidr_rep rep = {.status = status, .qpn = QPN, .qkey = QKEY};

	memcpy(rep.private_data, "me", 2);
	assert_int_equal(cm_sidr_reply(asked, &rep, net.now_ns), 0);
}

static void receive(struct net_node *node, const struct cm_msg *msg, uint8_t gid_end)
{
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	cm_msg_build(msg, mad);
	net_path(node, &path);
	path.dgid[15] = gid_end;
	cm_receive(node->cm, &path, mad, MAD_BYTES, net.now_ns);
}

static uint64_t strays(const struct net_node *node)
{
	return cm_counters(node->cm)->strays;
}

static void cm_sidr_resolve_listener_accepts_returns_qpn(void **state)
{
	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	assert_int_equal(requests, 1);
	assert_int_equal(request.service_id, NET_SERVICE);
	assert_memory_equal(request.private_data, "who", 4);
	response(CM_SIDR_VALID);
	deliver();
	assert_int_equal(asker.responses, 1);
	assert_int_equal(asker.rep.status, CM_SIDR_VALID);
	assert_int_equal(asker.rep.qpn, QPN);
	assert_int_equal(asker.rep.qkey, QKEY);
	assert_int_equal(asker.rep.service_id, NET_SERVICE);
	assert_memory_equal(asker.rep.private_data, "me", 3);
	assert_int_equal(sent_count, 2);
	assert_int_equal(sent[0].type, CM_MSG_SIDR_REQ);
	assert_int_equal(sent[0].sidr_req.pkey, MAD_PKEY);
	assert_int_equal(sent[1].type, CM_MSG_SIDR_REP);
	assert_int_equal(sent[1].sidr_rep.request_id, sent[0].sidr_req.request_id);
	assert_true(sent[1].tid == sent[0].tid);
	/* Only the response is stored, for a limited time. */
	assert_int_equal(cm_sidr_count(here->cm), 0);
	assert_int_equal(cm_sidr_count(there->cm), 1);
	assert_true(net_settle(&net, 4));
	assert_int_equal(cm_sidr_count(there->cm), 0);
}

static void cm_sidr_answer_rejection_returns_status(void **state)
{
	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	response(CM_SIDR_REJECTED);
	deliver();
	assert_int_equal(asker.responses, 1);
	assert_int_equal(asker.rep.status, CM_SIDR_REJECTED);
	assert_memory_equal(asker.rep.private_data, "me", 3);
}

static void cm_sidr_resolve_without_listener_is_rejected(void **state)
{
	(void)state;
	cm_unlisten(there->cm, NET_SERVICE);
	(void)net_resolve(here, &asker);
	deliver();
	assert_int_equal(requests, 0);
	assert_int_equal(asker.rep.status, CM_SIDR_UNSUPPORTED);
	assert_int_equal(cm_sidr_count(there->cm), 0);
}

static void cm_sidr_resolve_listener_rejects_or_drops_request(void **state)
{
	(void)state;
	is_refusing = true;
	(void)net_resolve(here, &asker);
	deliver();
	assert_int_equal(requests, 1);
	assert_int_equal(sent_count, 1);
	assert_int_equal(cm_sidr_count(there->cm), 0);
	assert_int_equal(cm_counters(there->cm)->turned_away, 1);
	refuse_status = CM_SIDR_NO_QP;
	net_advance(&net, net_next(&net));
	deliver();
	assert_int_equal(requests, 2);
	assert_int_equal(asker.rep.status, CM_SIDR_NO_QP);
}

/* By member: the values of the padding are not defined. */
static void assert_same_request(const struct cm_sidr_req *a, const struct cm_sidr_req *b)
{
	assert_int_equal(a->request_id, b->request_id);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->service_id, b->service_id);
	assert_memory_equal(a->private_data, b->private_data, sizeof(a->private_data));
}

static void cm_sidr_resolve_no_response_fails_after_cm_timeout(void **state)
{
	uint64_t start_ns = net.now_ns;

	(void)state;
	net.loss_percent = 100;
	(void)net_resolve(here, &asker);
	assert_true(net_settle(&net, 100));
	assert_int_equal(asker.errors, 1);
	assert_int_equal(asker.error, -ETIMEDOUT);
	assert_int_equal(asker.responses, 0);
	assert_true(net.now_ns - start_ns == CM_TIMEOUT_NS);
	assert_true(CM_TIMEOUT_NS < 10 * CLOCK_NS_PER_S);
	assert_int_equal(cm_counters(here->cm)->resent, sent_count - 1);
	assert_in_range(sent_count, 8, 1 + CM_MAX_RETRIES);
	for (unsigned i = 1; i < sent_count; i++)
		assert_same_request(&sent[i].sidr_req, &sent[0].sidr_req);
	assert_int_equal(cm_sidr_count(here->cm), 0);
}

static void cm_sidr_resolve_given_timeout_ends_request(void **state)
{
	static const uint64_t seconds[] = {1, 2, 20, 60, 300};

	(void)state;
	net.loss_percent = 100;
	for (unsigned i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		struct cm_sidr *sidr = cm_sidr_new(here->cm, &asker);
		struct cm_sidr_req req = {.service_id = NET_SERVICE};
		uint64_t start_ns = net.now_ns;
		struct cm_path path;

		assert_non_null(sidr);
		sent_count = 0;
		net_path(here, &path);
		assert_int_equal(cm_sidr_resolve(sidr, &path, &req, seconds[i] * CLOCK_NS_PER_S,
						 net.now_ns),
				 0);
		assert_true(net_settle(&net, 100));
		assert_int_equal(asker.errors, i + 1);
		assert_true(net.now_ns - start_ns == seconds[i] * CLOCK_NS_PER_S);
		assert_in_range(sent_count, 8, 1 + CM_MAX_RETRIES);
	}
}

static void cm_receive_duplicate_sidr_req_retransmits_sidr_rep(void **state)
{
	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	net.loss_percent = 100;
	response(CM_SIDR_VALID);
	net.loss_percent = 0;
	net_advance(&net, net_next(&net));
	deliver();
	assert_int_equal(requests, 1);
	assert_int_equal(asker.responses, 1);
	assert_int_equal(asker.rep.qpn, QPN);
	assert_int_equal(cm_counters(there->cm)->resent, 1);
	/* A second copy has no effect. */
	receive(here, &sent[1], there->gid[15]);
	assert_int_equal(asker.responses, 1);
	assert_int_equal(strays(here), 1);
}

static void cm_receive_duplicate_sidr_req_is_reported_once(void **state)
{
	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	for (int i = 0; i < 5; i++)
		net_advance(&net, net_next(&net));
	deliver();
	assert_int_equal(requests, 1);
	assert_true(strays(there) >= 2);
	response(CM_SIDR_VALID);
	deliver();
	assert_int_equal(asker.responses, 1);
}

/*
 * If responses were not stored, as in Linux, a retransmission that crosses its response would cause
 * a second event.
 */
static void cm_receive_late_duplicate_sidr_req_is_reported_once(void **state)
{
	(void)state;
	net.delay_max_ns = 20 * CLOCK_NS_PER_MS;
	(void)net_resolve(here, &asker);
	deliver();
	net_advance(&net, net.now_ns + 400 * CLOCK_NS_PER_MS);
	response(CM_SIDR_VALID);
	net_advance(&net, net.now_ns + net.delay_max_ns);
	assert_int_equal(asker.responses, 1);
	assert_int_equal(cm_counters(here->cm)->resent, 0);
	assert_int_equal(sent_count, 2);
}

/*
 * A fifth of all MADs is lost in each direction: 36 of 100 attempts fail, but only one resolution
 * in a million.
 */
static void cm_sidr_resolve_losses_are_retried(void **state)
{
	(void)state;
	net.loss_percent = 20;
	for (unsigned i = 0; i < QUESTIONS; i++) {
		(void)net_resolve(here, &asker);
		while (asker.responses == i && !asker.errors) {
			net_advance(&net, net_next(&net));
			if (asked)
				response(CM_SIDR_VALID);
			asked = NULL;
		}
	}
	assert_int_equal(asker.responses, QUESTIONS);
	assert_int_equal(requests, QUESTIONS);
	assert_true(cm_counters(here->cm)->resent > QUESTIONS / 4);
}

static void cm_receive_sidr_req_after_stored_response_expired_is_reported(void **state)
{
	struct cm_msg first;

	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	response(CM_SIDR_VALID);
	deliver();
	first = sent[0];
	net_advance(&net, net.now_ns + KEPT_NS - CLOCK_NS_PER_S);
	receive(there, &first, here->gid[15]);
	assert_int_equal(requests, 1);
	net_advance(&net, net.now_ns + CLOCK_NS_PER_S);
	receive(there, &first, here->gid[15]);
	assert_int_equal(requests, 2);
	/* A request ID in a new transaction is a new request, and so is one from another host. */
	first.tid++;
	receive(there, &first, here->gid[15]);
	receive(there, &first, 77);
	assert_int_equal(requests, 4);
	assert_int_equal(cm_sidr_count(there->cm), 3);
}

static void cm_sidr_answer_stored_responses_are_limited(void **state)
{
	struct cm_msg msg = {.type = CM_MSG_SIDR_REQ, .sidr_req = {.service_id = NET_SERVICE}};

	(void)state;
	for (unsigned i = 0; i < 2 * KEPT_COUNT; i++) {
		msg.tid = i;
		msg.sidr_req.request_id = i;
		receive(there, &msg, here->gid[15]);
		assert_int_equal(requests, i + 1);
		response(CM_SIDR_VALID);
	}
	assert_int_equal(cm_sidr_count(there->cm), KEPT_COUNT);
	/* The oldest responses were removed: the last one is still stored, the first is not. */
	receive(there, &msg, here->gid[15]);
	assert_int_equal(requests, 2 * KEPT_COUNT);
	msg.tid = 0;
	msg.sidr_req.request_id = 0;
	receive(there, &msg, here->gid[15]);
	assert_int_equal(requests, 2 * KEPT_COUNT + 1);
}

static void cm_sidr_destroy_incoming_request_sends_rejection(void **state)
{
	(void)state;
	(void)net_resolve(here, &asker);
	deliver();
	cm_sidr_destroy(asked, net.now_ns);
	deliver();
	assert_int_equal(asker.rep.status, CM_SIDR_REJECTED);
	assert_int_equal(asker.responses, 1);
}

static void cm_sidr_destroy_own_request_reports_no_event(void **state)
{
	struct cm_sidr *sidr = net_resolve(here, &asker);

	(void)state;
	deliver();
	cm_sidr_destroy(sidr, net.now_ns);
	response(CM_SIDR_VALID);
	deliver();
	assert_int_equal(asker.responses + asker.errors, 0);
	assert_int_equal(strays(here), 1);
	cm_sidr_destroy(cm_sidr_new(here->cm, &asker), net.now_ns);
	assert_int_equal(cm_sidr_count(here->cm), 0);
}

static void cm_sidr_resolve_send_error_fails_at_once(void **state)
{
	(void)state;
	net.is_cut = true;
	(void)net_resolve(here, &asker);
	assert_int_equal(asker.errors, 0);
	assert_true(net_next(&net) == net.now_ns);
	net_advance(&net, net.now_ns);
	assert_int_equal(asker.errors, 1);
	assert_int_equal(cm_counters(here->cm)->unsent, 1);
}

static void cm_receive_sidr_rep_of_other_host_changes_nothing(void **state)
{
	struct cm_sidr *sidr = net_resolve(here, &asker);
	struct cm_msg rep = {.type = CM_MSG_SIDR_REP};

	(void)state;
	rep.tid = sent[0].tid;
	rep.sidr_rep.request_id = sent[0].sidr_req.request_id;
	receive(here, &rep, 99);
	rep.tid++;
	receive(here, &rep, there->gid[15]);
	rep.tid--;
	rep.sidr_rep.request_id++;
	receive(here, &rep, there->gid[15]);
	assert_int_equal(strays(here), 3);
	assert_int_equal(cm_sidr_state_of(sidr), CM_SIDR_STATE_REQ_SENT);
	rep.sidr_rep.request_id--;
	receive(here, &rep, there->gid[15]);
	assert_int_equal(asker.responses, 1);
}

/* Asserts that a message in a state that does not expect it is only counted. */
static void expect_stray(struct net_node *node, const struct cm_msg *msg)
{
	uint64_t before = strays(node);
	unsigned sent_before = sent_count, requests_before = requests;

	receive(node, msg, net_other(node)->gid[15]);
	assert_int_equal(strays(node), before + 1);
	assert_int_equal(sent_count, sent_before);
	assert_int_equal(requests, requests_before);
}

static void cm_receive_every_message_in_every_sidr_state_follows_table(void **state)
{
	static const enum cm_msg_type others[] = {CM_MSG_MRA,  CM_MSG_REJ, CM_MSG_RTU,
						  CM_MSG_DREP, CM_MSG_LAP, CM_MSG_APR};
	struct cm_sidr *sidr;
	struct cm_msg req, rep;

	(void)state;
	/* Requested, not answered: on either side a response in the wrong direction is dropped. */
	sidr = net_resolve(here, &asker);
	req = sent[0];
	rep = (struct cm_msg){.type = CM_MSG_SIDR_REP, .tid = req.tid};
	rep.sidr_rep.request_id = req.sidr_req.request_id;
	deliver();
	assert_int_equal(cm_sidr_state_of(sidr), CM_SIDR_STATE_REQ_SENT);
	assert_int_equal(cm_sidr_state_of(asked), CM_SIDR_STATE_REQ_RCVD);
	expect_stray(there, &rep);
	expect_stray(there, &req);
	/* Messages of connections never match a resolution, whatever ID they contain. */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct cm_msg other = {.type = others[i], .tid = req.tid};

		other.rtu.local_comm_id = req.sidr_req.request_id;
		other.rtu.remote_comm_id = req.sidr_req.request_id;
		expect_stray(there, &other);
		expect_stray(here, &other);
	}
	assert_int_equal(cm_sidr_state_of(sidr), CM_SIDR_STATE_REQ_SENT);
	assert_int_equal(cm_sidr_state_of(asked), CM_SIDR_STATE_REQ_RCVD);

	/*
	 * Answered: the retransmitted request causes the same response; other messages have no
	 * effect.
	 */
	response(CM_SIDR_VALID);
	expect_stray(there, &rep);
	receive(there, &req, here->gid[15]);
	assert_int_equal(sent[sent_count - 1].type, CM_MSG_SIDR_REP);
	assert_int_equal(cm_counters(there->cm)->resent, 1);
	assert_int_equal(cm_sidr_state_of(asked), CM_SIDR_STATE_RESPONDED);
	deliver();
	assert_int_equal(asker.responses, 1);
	/*
	 * Complete: two responses arrived, and the second was counted as a stray, as a third would
	 * be.
	 */
	assert_int_equal(strays(here), sizeof(others) / sizeof(others[0]) + 1);
	expect_stray(here, &rep);
}

static void tell_unreachable(const struct cm_msg *quoted, uint8_t gid_end)
{
	uint8_t mad[MAD_BYTES];
	struct cm_path path;

	cm_msg_build(quoted, mad);
	net_path(here, &path);
	path.dgid[15] = gid_end;
	cm_unreachable(here->cm, &path, mad, MAD_BYTES, -ECONNREFUSED, net.now_ns);
}

static void cm_unreachable_sidr_req_fails_with_econnrefused(void **state)
{
	struct cm_sidr *sidr = net_resolve(here, &asker);
	struct cm_msg quoted = sent[0];

	(void)state;
	quoted.tid++;
	tell_unreachable(&quoted, there->gid[15]);
	quoted.tid--;
	tell_unreachable(&quoted, 77);
	quoted.sidr_req.request_id++;
	tell_unreachable(&quoted, there->gid[15]);
	assert_int_equal(strays(here), 3);
	assert_int_equal(cm_sidr_state_of(sidr), CM_SIDR_STATE_REQ_SENT);
	quoted.sidr_req.request_id--;
	tell_unreachable(&quoted, there->gid[15]);
	assert_int_equal(asker.errors, 1);
	assert_int_equal(asker.error, -ECONNREFUSED);
	assert_int_equal(cm_counters(here->cm)->unreachable, 1);
	assert_int_equal(cm_sidr_count(here->cm), 0);
	/* The resolution is complete, so the error refers to none. */
	tell_unreachable(&quoted, there->gid[15]);
	assert_int_equal(strays(here), 4);
}

static void cm_sidr_call_in_wrong_state_fails(void **state)
{
	struct cm_sidr *sidr = net_resolve(here, &asker);
	struct cm_sidr_req req = {0};
	struct cm_sidr_rep rep = {0};
	struct cm_path path;

	(void)state;
	net_path(here, &path);
	assert_int_equal(cm_sidr_resolve(sidr, &path, &req, CM_TIMEOUT_NS, net.now_ns), -EINVAL);
	assert_int_equal(cm_sidr_reply(sidr, &rep, net.now_ns), -EINVAL);
	deliver();
	assert_int_equal(cm_sidr_resolve(asked, &path, &req, CM_TIMEOUT_NS, net.now_ns), -EINVAL);
	response(CM_SIDR_VALID);
	assert_int_equal(cm_sidr_reply(asked, &rep, net.now_ns), -EINVAL);
	sidr = cm_sidr_new(here->cm, &asker);
	assert_int_equal(cm_sidr_reply(sidr, &rep, net.now_ns), -EINVAL);
	cm_sidr_destroy(sidr, net.now_ns);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cm_sidr_resolve_listener_accepts_returns_qpn),
		TEST(cm_sidr_answer_rejection_returns_status),
		TEST(cm_sidr_resolve_without_listener_is_rejected),
		TEST(cm_sidr_resolve_listener_rejects_or_drops_request),
		TEST(cm_sidr_resolve_no_response_fails_after_cm_timeout),
		TEST(cm_sidr_resolve_given_timeout_ends_request),
		TEST(cm_receive_duplicate_sidr_req_retransmits_sidr_rep),
		TEST(cm_receive_duplicate_sidr_req_is_reported_once),
		TEST(cm_receive_late_duplicate_sidr_req_is_reported_once),
		TEST(cm_sidr_resolve_losses_are_retried),
		TEST(cm_receive_sidr_req_after_stored_response_expired_is_reported),
		TEST(cm_sidr_answer_stored_responses_are_limited),
		TEST(cm_sidr_destroy_incoming_request_sends_rejection),
		TEST(cm_sidr_destroy_own_request_reports_no_event),
		TEST(cm_sidr_resolve_send_error_fails_at_once),
		TEST(cm_receive_sidr_rep_of_other_host_changes_nothing),
		TEST(cm_receive_every_message_in_every_sidr_state_follows_table),
		TEST(cm_unreachable_sidr_req_fails_with_econnrefused),
		TEST(cm_sidr_call_in_wrong_state_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
