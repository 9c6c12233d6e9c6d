/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Round-trip times: RFC 6298's estimator, the minimum filter, and samples of retransmitted packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "roce/rtt.h"

#define MS CLOCK_NS_PER_MS
#define S  CLOCK_NS_PER_S

static void rtt_rto_ns_is_srtt_plus_four_rttvar(void **state)
{
	struct rtt rtt = {0};

	(void)state;
	assert_int_equal(rtt_rto_ns(&rtt, 0), 20 * MS);
	/* RFC 6298 §2.2: RTTVAR is half of the first sample. */
	rtt_add_sample(&rtt, S, 8 * MS);
	assert_int_equal(rtt.srtt_ns, 8 * MS);
	assert_int_equal(rtt.rttvar_ns, 4 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 24 * MS);
	/* §2.3: 3/4 RTTVAR + 1/4 |SRTT - R|, then 7/8 SRTT + 1/8 R. */
	rtt_add_sample(&rtt, S, 16 * MS);
	assert_int_equal(rtt.rttvar_ns, 5 * MS);
	assert_int_equal(rtt.srtt_ns, 9 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 29 * MS);
	/* §5.5 */
	assert_int_equal(rtt_rto_ns(&rtt, 3), 8 * 29 * MS);
}

static void rtt_rto_ns_has_minimum(void **state)
{
	struct rtt rtt = {0};

	(void)state;
	for (int i = 0; i < 100; i++)
		rtt_add_sample(&rtt, S, 0);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 2 * MS);
	assert_true(rtt.srtt_ns > 0);
}

/*
 * The minimum is valid for its period and the next one: then a longer round-trip time of the path
 * is used.
 */
static void rtt_min_ns_expires_after_two_periods(void **state)
{
	struct rtt rtt = {0};
	uint64_t now_ns = S;

	(void)state;
	assert_int_equal(rtt_min_ns(&rtt), 0);
	rtt_add_sample(&rtt, now_ns, 2 * MS);
	rtt_add_sample(&rtt, now_ns, MS);
	rtt_add_sample(&rtt, now_ns, 3 * MS);
	assert_int_equal(rtt_min_ns(&rtt), MS);
	rtt_add_sample(&rtt, now_ns + 10 * S, 5 * MS);
	assert_int_equal(rtt_min_ns(&rtt), MS);
	rtt_add_sample(&rtt, now_ns + 20 * S, 7 * MS);
	assert_int_equal(rtt_min_ns(&rtt), 5 * MS);
	/* A round trip below the clock's resolution counts as 1 ns. */
	rtt_add_sample(&rtt, now_ns + 20 * S, 0);
	assert_int_equal(rtt_min_ns(&rtt), 1);
}

static void rtt_add_ambiguous_sample_changes_recent_only(void **state)
{
	struct rtt rtt = {0};
	uint64_t srtt_ns, rttvar_ns;

	(void)state;
	rtt_add_sample(&rtt, S, 4 * MS);
	srtt_ns = rtt.srtt_ns;
	rttvar_ns = rtt.rttvar_ns;
	assert_int_equal(rtt_add_ambiguous_sample(&rtt, 8 * MS), 8 * MS);
	assert_int_equal(rtt.recent_ns, 6 * MS);
	/* Shorter than the minimum: the ACK was for the first copy. */
	assert_int_equal(rtt_add_ambiguous_sample(&rtt, 4 * MS - 1), 0);
	assert_int_equal(rtt.recent_ns, 6 * MS);
	assert_int_equal(rtt.srtt_ns, srtt_ns);
	assert_int_equal(rtt.rttvar_ns, rttvar_ns);
	assert_int_equal(rtt_min_ns(&rtt), 4 * MS);
}

static void rtt_add_upper_bound_changes_rto_only(void **state)
{
	struct rtt rtt = {0};

	(void)state;
	for (int i = 0; i < 100; i++)
		rtt_add_sample(&rtt, S, MS);
	assert_true(rtt_rto_ns(&rtt, 0) < 3 * MS);
	/* A lost packet gives one bound, a longer path gives the next one also. */
	rtt_add_upper_bound(&rtt, 40 * MS);
	assert_true(rtt_rto_ns(&rtt, 0) < 3 * MS);
	rtt_add_upper_bound(&rtt, 40 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 120 * MS);
	assert_int_equal(rtt_srtt_ns(&rtt), 40 * MS);
	assert_int_equal(rtt_min_ns(&rtt), MS);
	assert_int_equal(rtt.recent_ns, MS);
	/* The next sample is as the first one. */
	rtt_add_sample(&rtt, S, 4 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 12 * MS);
	rtt_add_upper_bound(&rtt, 40 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 12 * MS);
}

/*
 * Each bound may contain the backoff of lost copies, or an outage: the shortest one contains least
 * of them.
 */
static void rtt_add_upper_bound_minimum_counts(void **state)
{
	struct rtt rtt = {0};

	(void)state;
	rtt_add_upper_bound(&rtt, 60 * S);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 20 * MS);
	assert_int_equal(rtt_srtt_ns(&rtt), 0);
	rtt_add_upper_bound(&rtt, 185 * MS);
	assert_int_equal(rtt_srtt_ns(&rtt), 185 * MS);
	rtt_add_upper_bound(&rtt, 30 * MS);
	rtt_add_upper_bound(&rtt, 122 * MS);
	assert_int_equal(rtt_srtt_ns(&rtt), 30 * MS);
	assert_int_equal(rtt_rto_ns(&rtt, 0), 90 * MS);
	/* The outages of all bounds count for at most 1 s. */
	rtt = (struct rtt){0};
	rtt_add_upper_bound(&rtt, 60 * S);
	rtt_add_upper_bound(&rtt, 60 * S);
	assert_int_equal(rtt_srtt_ns(&rtt), S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rtt_rto_ns_is_srtt_plus_four_rttvar),
		cmocka_unit_test(rtt_rto_ns_has_minimum),
		cmocka_unit_test(rtt_min_ns_expires_after_two_periods),
		cmocka_unit_test(rtt_add_ambiguous_sample_changes_recent_only),
		cmocka_unit_test(rtt_add_upper_bound_changes_rto_only),
		cmocka_unit_test(rtt_add_upper_bound_minimum_counts),
	};

	return cmocka_run_group_tests_name("roce-rtt", tests, NULL, NULL);
}
