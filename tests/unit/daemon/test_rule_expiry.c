/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of fault rules that no client can meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/rule_expiry.h"

#define USERS (RULES_KEPT_USERS_MAX + 2)

static uv_loop_t loop;
static struct rule_expiry expiry;
static struct rule_lease leases[USERS];
static struct rule_lease *ended[USERS];
static int ended_count;

static void on_expire(struct rule_expiry *of, struct rule_lease *lease)
{
	assert_ptr_equal(of, &expiry);
	ended[ended_count++] = lease;
}

static void open_expiry(uint64_t kept_ms)
{
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(rule_expiry_open(&expiry, &loop, kept_ms, on_expire), 0);
	for (int i = 0; i < USERS; i++) {
		leases[i] = (struct rule_lease){.since_ms = 0};
		list_init(&leases[i].node);
	}
	ended_count = 0;
}

static int close_expiry(void **state)
{
	(void)state;
	rule_expiry_close(&expiry);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void rule_expiry_unused_rules_end_after_their_time(void **state)
{
	(void)state;
	open_expiry(1);
	rule_expiry_set_used(&expiry, &leases[0], false);
	rule_expiry_set_used(&expiry, &leases[1], false);
	/* The loop ends with its last timer. */
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(ended_count, 2);
	assert_ptr_equal(ended[0], &leases[0]);
	assert_false(list_is_linked(&leases[1].node));
}

static void rule_expiry_rules_used_again_do_not_end(void **state)
{
	(void)state;
	open_expiry(1);
	rule_expiry_set_used(&expiry, &leases[0], false);
	rule_expiry_set_used(&expiry, &leases[0], true);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(ended_count, 0);
}

static void rule_expiry_too_many_users_end_the_longest_unused(void **state)
{
	(void)state;
	open_expiry(RULES_KEPT_MS);
	leases[0].is_exempt = true;
	for (int i = 0; i < USERS; i++)
		rule_expiry_set_used(&expiry, &leases[i], false);
	assert_int_equal(ended_count, 1);
	assert_ptr_equal(ended[0], &leases[1]);
	assert_int_equal(expiry.count, RULES_KEPT_USERS_MAX);
}

#define CASE(function) cmocka_unit_test_teardown(function, close_expiry)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rule_expiry_unused_rules_end_after_their_time),
		CASE(rule_expiry_rules_used_again_do_not_end),
		CASE(rule_expiry_too_many_users_end_the_longest_unused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
