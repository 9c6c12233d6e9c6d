/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)
#define START_NS  (100 * SECOND_NS)

enum { CAUSE_RULES, CAUSE_MESSAGES };

static const char *const causes[] = {"rules", "messages"};
static struct log_limit limit;

static int log_limit_setup(void **state)
{
	(void)state;
	return log_limit_init(&limit, causes, 0x5eed);
}

static int log_limit_teardown(void **state)
{
	(void)state;
	log_limit_fini(&limit);
	return 0;
}

static unsigned int taken(unsigned int count, unsigned int cause, uint32_t uid, uint64_t now_ns)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < count; i++)
		n += log_limit_take(&limit, cause, LOG_LEVEL_WARN, uid, now_ns);
	return n;
}

/* Runs the limiter at its next deadline; returns that time and what it logged. */
static uint64_t run_next(char *out, size_t out_bytes)
{
	uint64_t next_ns = log_limit_next(&limit);
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t got;

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	log_limit_run(&limit, next_ns);
	dup2(saved, STDERR_FILENO);
	close(saved);
	got = read(ends[0], out, out_bytes - 1);
	out[got > 0 ? got : 0] = '\0';
	close(ends[0]);
	return next_ns;
}

static void log_limit_take_permits_burst_then_one_line_in_refill_time(void **state)
{
	(void)state;
	assert_int_equal(taken(1000, CAUSE_RULES, 1000, START_NS), LOG_LIMIT_BURST);
	assert_int_equal(taken(10, CAUSE_RULES, 1000, START_NS + LOG_LIMIT_REFILL_NS - 1), 0);
	assert_int_equal(taken(10, CAUSE_RULES, 1000, START_NS + LOG_LIMIT_REFILL_NS), 1);
	assert_int_equal(taken(10, CAUSE_RULES, 1000, START_NS + 4 * LOG_LIMIT_REFILL_NS), 3);
	/* A full bucket does not fill further. */
	assert_int_equal(taken(1000, CAUSE_RULES, 1000, START_NS + 1000 * LOG_LIMIT_REFILL_NS),
			 LOG_LIMIT_BURST);
}

static void log_limit_take_limits_each_user_and_cause(void **state)
{
	(void)state;
	assert_int_equal(taken(100, CAUSE_RULES, 1000, START_NS), LOG_LIMIT_BURST);
	assert_int_equal(taken(100, CAUSE_RULES, 1001, START_NS), LOG_LIMIT_BURST);
	assert_int_equal(taken(100, CAUSE_MESSAGES, 1000, START_NS), LOG_LIMIT_BURST);
	assert_int_equal(taken(100, CAUSE_RULES, 1000, START_NS), 0);
}

static void log_limit_run_reports_lines_that_were_left_out(void **state)
{
	char out[1024];

	(void)state;
	log_set_level(LOG_LEVEL_WARN);
	(void)taken(1000, CAUSE_RULES, 1000, START_NS);
	assert_int_equal(run_next(out, sizeof(out)), START_NS + LOG_LIMIT_REPORT_NS);
	assert_non_null(strstr(
		out, "warn: uid 1000: rules: 990 more messages within 60 s are not logged\n"));
	/* A period without a line ends the bucket, and no report follows. */
	assert_int_equal(run_next(out, sizeof(out)), START_NS + 2 * LOG_LIMIT_REPORT_NS);
	assert_string_equal(out, "");
	assert_int_equal(log_limit_next(&limit), TIMER_NEVER_NS);
}

static void log_limit_run_reports_nothing_below_the_limit(void **state)
{
	char out[1024];

	(void)state;
	(void)taken(LOG_LIMIT_BURST, CAUSE_RULES, 1000, START_NS);
	(void)run_next(out, sizeof(out));
	assert_string_equal(out, "");
}

/* An attacker with many uids gets a bounded number of lines, and other users share one bucket. */
static void log_limit_take_bounds_the_number_of_users(void **state)
{
	unsigned int n = 0;
	char out[65536];

	(void)state;
	log_set_level(LOG_LEVEL_WARN);
	for (uint32_t uid = 0; uid < 20000; uid++)
		n += taken(20, CAUSE_RULES, uid, START_NS);
	assert_int_equal(n, (LOG_LIMIT_BUCKETS + 1) * LOG_LIMIT_BURST);
	(void)run_next(out, sizeof(out));
	assert_non_null(strstr(out, "other users: rules: "));
}

static void log_limit_fini_reports_the_rest(void **state)
{
	char out[1024] = "";
	int saved = dup(STDERR_FILENO), ends[2];

	log_set_level(LOG_LEVEL_WARN);
	(void)taken(12, CAUSE_MESSAGES, 7, START_NS);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	log_limit_fini(&limit);
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_true(read(ends[0], out, sizeof(out) - 1) > 0);
	close(ends[0]);
	assert_non_null(strstr(out, "uid 7: messages: 2 more messages"));
	assert_int_equal(log_limit_setup(state), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, log_limit_setup, log_limit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(log_limit_take_permits_burst_then_one_line_in_refill_time),
		TEST(log_limit_take_limits_each_user_and_cause),
		TEST(log_limit_run_reports_lines_that_were_left_out),
		TEST(log_limit_run_reports_nothing_below_the_limit),
		TEST(log_limit_take_bounds_the_number_of_users),
		TEST(log_limit_fini_reports_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
