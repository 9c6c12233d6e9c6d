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
#define MANY  1000

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
	(void)state;
	set(ALICE, "connection:disconnect");
	set(BOB, "connection:disconnect");
	set(ALICE, "process:kill");
	assert_false(is_due(ALICE));
	assert_true(is_due(BOB));
	assert_int_equal(fault_user_points(ALICE), 1u << FAULT_PROCESS);
	set(ALICE, "");
	assert_int_equal(fault_user_points(ALICE), 0);
	assert_int_equal(fault_user_points(BOB), 1u << FAULT_CONNECTION);
}

static uid_t periodic[MANY];
static int periodic_count;

static void add_periodic(void *ctx, uid_t uid, uint32_t points)
{
	assert_null(ctx);
	assert_int_equal(points, 1u << FAULT_PROCESS);
	periodic[periodic_count++] = uid;
}

/* The users whose rules concern periodic points are found without looking at the others. */
static void fault_user_each_periodic_omits_users_with_other_rules(void **state)
{
	(void)state;
	periodic_count = 0;
	for (uid_t uid = ALICE; uid < ALICE + MANY; uid++)
		assert_int_equal(fault_user_set(uid,
						uid % 100 ? "call:fail=ENOMEM" : "process:kill",
						counters[0]),
				 0);
	fault_user_each_periodic(add_periodic, NULL);
	assert_int_equal(periodic_count, MANY / 100);
	for (int i = 0; i < periodic_count; i++)
		assert_int_equal(periodic[i] % 100, 0);
	assert_int_equal(fault_user_set(ALICE, "call:fail=ENOMEM", counters[0]), 0);
	periodic_count = 0;
	fault_user_each_periodic(add_periodic, NULL);
	assert_int_equal(periodic_count, MANY / 100 - 1);
	fault_user_remove(ALICE + 100);
	assert_int_equal(fault_user_points(ALICE + 100), 0);
}

static void fault_failed_counts_a_failure_and_no_firing(void **state)
{
	struct fault fault;

	(void)state;
	set(ALICE, "connection:disconnect");
	counters[0][0] = (struct fault_counter){.passes = 0};
	assert_true(fault_user_due(ALICE, FAULT_CONNECTION, NULL, &fault));
	assert_int_equal(counters[0][0].firings, 1);
	fault_failed(&fault, -EPERM);
	assert_int_equal(counters[0][0].passes, 1);
	assert_int_equal(counters[0][0].firings, 0);
	assert_int_equal(counters[0][0].failures, 1);
	assert_int_equal(counters[0][0].error, EPERM);
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
		CASE(fault_user_each_periodic_omits_users_with_other_rules),
		CASE(fault_failed_counts_a_failure_and_no_firing),
		CASE(fault_user_set_last_rules_removed_switches_faults_off),
		CASE(fault_user_set_invalid_rules_keep_former_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
