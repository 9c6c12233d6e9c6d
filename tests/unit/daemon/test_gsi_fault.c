/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules for MADs and connections of two clients of one daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fault.h"
#include "cma_desk.h"

#define WHY_BYTES 128
#define DELAY_NS  (50 * CLOCK_NS_PER_MS)

static void configure(const char *rules)
{
	char why[WHY_BYTES] = "";

	if (fault_configure(rules, why, sizeof(why)))
		fail_msg("%s", why);
}

static int close_without_rules(void **state)
{
	configure(NULL);
	return desk_close(state);
}

/* Root listens and the user connects. Returns the user's id. */
static uint32_t connect_to_root(void)
{
	struct ipc_cm_param param;
	uint32_t active;

	desk_listener(&root, "10.0.0.1");
	active = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "ask");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	return active;
}

static void expect_late_request(const char *rules)
{
	struct ipc_cm_event event;
	uint64_t start_ns;

	configure(rules);
	start_ns = clock_now_ns();
	connect_to_root();
	desk_wait_event(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_true(clock_now_ns() - start_ns >= DELAY_NS);
}

static void mad_send_delay_delivers_req_later(void **state)
{
	(void)state;
	expect_late_request("mad.send:delay=50ms:op=REQ");
}

static void mad_receive_delay_delivers_req_later(void **state)
{
	(void)state;
	expect_late_request("mad.receive:delay=50ms:op=REQ");
}

static void mad_delay_rules_removed_delivers_delayed_req(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	configure("mad.send:delay=50ms:op=REQ");
	connect_to_root();
	configure(NULL);
	desk_run();
	desk_wait_event(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/*
 * The response is late, and the repetitions of the REQ before it do not create a second connection.
 */
static void mad_delay_rep_establishes_one_connection(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	configure("mad.send:delay=200ms:op=REP");
	connect_to_root();
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	desk_param(&param, 0x8003, "");
	assert_int_equal(desk_accept(&root, event.id, 0, &param), 0);
	desk_expect_none(user.fd);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	desk_expect_none(root.fd);
}

/*
 * The daemon ends while a MAD is delayed: the leak checker of the sanitized build verifies that it
 * is freed.
 */
static void mad_delay_daemon_ends_frees_delayed_mad(void **state)
{
	(void)state;
	configure("mad.send:delay=3600s:op=REQ");
	connect_to_root();
	desk_expect_none(root.fd);
}

static void expect_rejected(const char *rule, int reason)
{
	struct ipc_cm_event event;

	configure(rule);
	connect_to_root();
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, reason);
	desk_expect_none(root.fd);
}

static void mad_send_reject_reports_reason_to_active_side(void **state)
{
	(void)state;
	expect_rejected("mad.send:reject=INVALID_MTU", 26);
}

static void mad_receive_reject_reports_reason_to_active_side(void **state)
{
	(void)state;
	expect_rejected("mad.receive:reject=28", 28);
}

static void mad_reject_nth_request_rejects_this_request_only(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t second;

	(void)state;
	configure("mad.receive:reject=NO_RESOURCES:nth=2");
	connect_to_root();
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	second = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, 0x8004, "");
	assert_int_equal(desk_connect(&user, second, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 3);
	assert_int_equal(event.id, second);
	desk_expect_none(root.fd);
}

/* All ids of both clients pass the point. */
static void pass_connections(void)
{
	cma_fault_connections(user.client, cma_client_ids(user.client));
	cma_fault_connections(root.client, cma_client_ids(root.client));
}

/* The ids pass in several calls, each of them once. */
static void cma_fault_connections_next_call_continues(void **state)
{
	uint32_t active, passive, listener;
	static struct fault_counter counters[FAULT_RULES_MAX];
	char why[64];

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	(void)desk_resolved(&user, "10.0.0.1", DESK_PORT);
	assert_int_equal(cma_client_ids(user.client), 2);
	fault_share_counters(counters);
	assert_int_equal(fault_apply_text("connection:disconnect:nth=1000", 1, why, sizeof(why)),
			 0);
	/* The other id has no connection. */
	for (uint64_t i = 1; i <= 4; i++) {
		cma_fault_connections(user.client, 1);
		cma_fault_connections(user.client, 1);
		assert_int_equal(counters[0].passes, i);
	}
	assert_int_equal(fault_apply_text("", 2, why, sizeof(why)), 0);
	fault_share_counters(NULL);
}

static void cma_fault_connections_matching_rule_ends_connection_once(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive, listener;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	configure("connection:disconnect:pid=1;connection:disconnect:peer=10.0.0.2");
	pass_connections();
	desk_run();
	desk_expect_none(user.fd);
	configure("connection:disconnect:pid=2000");
	pass_connections();
	pass_connections();
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, passive);
	/* The peer confirms: a DREP ends the connection of the rule. */
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, active);
	pass_connections();
	desk_run();
	desk_expect_none(user.fd);
	desk_expect_none(root.fd);
}

/* A REQ or REP without a response is no connection yet. */
static void cma_fault_connections_in_setup_are_not_ended(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	configure("connection:disconnect;mad.send:drop:op=REP");
	connect_to_root();
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	pass_connections();
	desk_param(&param, 0x8003, "");
	assert_int_equal(desk_accept(&root, event.id, 0, &param), 0);
	pass_connections();
	desk_run();
	desk_expect_none(root.fd);
	desk_expect_none(user.fd);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, desk_open, close_without_rules)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(mad_send_delay_delivers_req_later),
		CASE(mad_receive_delay_delivers_req_later),
		CASE(mad_delay_rules_removed_delivers_delayed_req),
		CASE(mad_delay_rep_establishes_one_connection),
		CASE(mad_delay_daemon_ends_frees_delayed_mad),
		CASE(mad_send_reject_reports_reason_to_active_side),
		CASE(mad_receive_reject_reports_reason_to_active_side),
		CASE(mad_reject_nth_request_rejects_this_request_only),
		CASE(cma_fault_connections_next_call_continues),
		CASE(cma_fault_connections_matching_rule_ends_connection_once),
		CASE(cma_fault_connections_in_setup_are_not_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
