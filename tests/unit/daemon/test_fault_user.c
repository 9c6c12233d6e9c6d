/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of several users for the points of the daemon. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/fault_user.h"

#define ALICE 1000
#define BOB   1001

static struct fault_counter counters[2][FAULT_RULES_MAX];

static void set(uid_t uid, const char *text)
{
	assert_int_equal(fault_user_set(uid, text, counters[uid - ALICE]), 0);
}

static bool is_due(uid_t uid)
{
	struct fault fault;

	return fault_user_due(uid, FAULT_CONNECTION, NULL, &fault);
}

static int remove_all(void **state)
{
	char why[64];

	(void)state;
	fault_user_remove_all();
	return fault_configure(NULL, why, sizeof(why));
}

static void fault_user_due_other_users_rule_does_not_fire(void **state)
{
	(void)state;
	set(ALICE, "connection:disconnect");
	assert_true(is_due(ALICE));
	assert_false(is_due(BOB));
	assert_false(is_due(FAULT_NO_USER));
	assert_int_equal(counters[0][0].firings, 1);
	assert_int_equal(counters[1][0].passes, 0);
}

static void fault_user_due_rule_of_daemon_fires_for_all_users(void **state)
{
	char why[64];

	(void)state;
	set(ALICE, "process:kill");
	assert_int_equal(fault_configure("connection:disconnect", why, sizeof(why)), 0);
	assert_true(is_due(ALICE));
	assert_true(is_due(BOB));
	assert_true(is_due(FAULT_NO_USER));
}

static void fault_user_set_replaces_rules_of_this_user_only(void **state)
{
	unsigned int cursor = 0;
	uid_t uid;

	(void)state;
	set(ALICE, "connection:disconnect");
	set(BOB, "connection:disconnect");
	set(ALICE, "process:kill");
	assert_false(is_due(ALICE));
	assert_true(is_due(BOB));
	assert_true(fault_user_has_point(FAULT_PROCESS));
	set(ALICE, "");
	assert_false(fault_user_has_point(FAULT_PROCESS));
	assert_true(fault_user_next(&cursor, &uid));
	assert_int_equal(uid, BOB);
	assert_false(fault_user_next(&cursor, &uid));
}

static void fault_user_set_last_rules_removed_switches_faults_off(void **state)
{
	(void)state;
	assert_false(probe_is_on(PROBE_FAULT));
	set(ALICE, "connection:disconnect");
	assert_true(probe_is_on(PROBE_FAULT));
	set(ALICE, "# no rules");
	assert_false(probe_is_on(PROBE_FAULT));
}

static void fault_user_set_invalid_rules_keep_former_rules(void **state)
{
	(void)state;
	set(ALICE, "connection:disconnect");
	assert_int_equal(fault_user_set(ALICE, "gibberish", counters[0]), -EINVAL);
	assert_true(is_due(ALICE));
}

#define CASE(function) cmocka_unit_test_teardown(function, remove_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fault_user_due_other_users_rule_does_not_fire),
		CASE(fault_user_due_rule_of_daemon_fires_for_all_users),
		CASE(fault_user_set_replaces_rules_of_this_user_only),
		CASE(fault_user_set_last_rules_removed_switches_faults_off),
		CASE(fault_user_set_invalid_rules_keep_former_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
