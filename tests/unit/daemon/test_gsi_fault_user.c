/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of one user for MADs: they apply to the messages of the user's connections and listeners,
 * and to no others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "cma_desk.h"
#include "daemon/fault_user.h"

#define USER_UID 1000 /* of the client `user` */

static struct fault_counter counters[FAULT_RULES_MAX];

static void set_user_rules(const char *text)
{
	for (int i = 0; i < FAULT_RULES_MAX; i++) {
		counters[i].passes = 0;
		counters[i].firings = 0;
	}
	assert_int_equal(fault_user_set(USER_UID, text, counters), 0);
}

static void set_daemon_rules(const char *text)
{
	char why[128] = "";

	if (fault_configure(text, why, sizeof(why)))
		fail_msg("%s", why);
}

static int close_without_rules(void **state)
{
	fault_user_remove_all();
	set_daemon_rules(NULL);
	return desk_close(state);
}

static void connect_from(struct desk_client *client)
{
	struct ipc_cm_param param;
	uint32_t active = desk_resolved(client, "10.0.0.1", DESK_PORT);

	desk_param(&param, 0x8002 + (client == &root), "ask");
	assert_int_equal(desk_connect(client, active, &param), 0);
	desk_run();
}

static void mad_send_rule_of_user_drops_own_req_only(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	set_user_rules("mad.send:drop:op=REQ");
	desk_listener(&root, "10.0.0.1");
	connect_from(&user);
	desk_expect_none(root.fd);
	assert_true(counters[0].firings >= 1);
	connect_from(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void mad_receive_rule_of_user_does_not_reach_other_listener(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	set_user_rules("mad.receive:drop:op=REQ;mad.receive:reject=28");
	desk_listener(&root, "10.0.0.1");
	connect_from(&user);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(counters[0].passes, 0);
}

static void mad_receive_rule_of_user_applies_to_own_listener(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	set_user_rules("mad.receive:reject=28");
	desk_listener(&user, "10.0.0.1");
	connect_from(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	desk_expect_none(user.fd);
}

/* The DREQ of a destroyed id still belongs to its process. */
static void mad_send_rule_of_user_applies_after_id_is_destroyed(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	set_user_rules("mad.send:drop:op=DREQ");
	desk_connection(&user, &root, &active, &passive, &listener);
	assert_int_equal(desk_destroy(&user, active, NULL), 0);
	desk_run();
	desk_expect_none(root.fd);
	set_user_rules("");
	desk_wait_event(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
}

/*
 * A bit of an ID or QPN could otherwise be inverted so that the message is about another
 * connection.
 */
static void mad_corrupt_rule_of_user_makes_malformed_mads_only(void **state)
{
	static const char *const rules[] = {
		"seed=1;mad.send:corrupt:op=REQ", "seed=2;mad.send:corrupt:op=REQ",
		"seed=3;mad.send:corrupt:op=REQ", "seed=4;mad.send:corrupt:op=REQ",
		"seed=5;mad.send:corrupt:op=REQ", "seed=6;mad.send:corrupt:op=REQ",
	};

	(void)state;
	desk_listener(&root, "10.0.0.1");
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		set_user_rules(rules[i]);
		connect_from(&user);
		assert_true(counters[0].firings >= 1);
		desk_expect_none(root.fd);
		desk_expect_none(user.fd);
	}
}

static void mad_conditions_of_process_and_device_select_messages(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	/* The clients have the pids 1000 + uid. */
	set_daemon_rules(
		"mad.send:drop:op=REQ:pid=2000:dev=eth0;mad.send:drop:dev=lo;mad:drop:prog=none");
	desk_listener(&root, "10.0.0.1");
	connect_from(&user);
	desk_expect_none(root.fd);
	connect_from(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, desk_open, close_without_rules)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(mad_send_rule_of_user_drops_own_req_only),
		CASE(mad_receive_rule_of_user_does_not_reach_other_listener),
		CASE(mad_receive_rule_of_user_applies_to_own_listener),
		CASE(mad_send_rule_of_user_applies_after_id_is_destroyed),
		CASE(mad_corrupt_rule_of_user_makes_malformed_mads_only),
		CASE(mad_conditions_of_process_and_device_select_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
