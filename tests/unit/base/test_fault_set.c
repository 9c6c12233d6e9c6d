/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The rules of fault_apply_text(): replacement, subjects, counts and delays. */

#define WHY_BYTES 128
#define PASSES	  1000

/* Every call of apply() uses a later generation. */
static uint64_t generation;

static void apply(const char *rules)
{
	char why[WHY_BYTES] = "";

	if (fault_apply_text(rules, ++generation, why, sizeof(why)))
		fail_msg("%s: %s", rules, why);
}

static bool fires(const struct fault_subject *subject)
{
	struct fault fault;

	return fault_due(FAULT_PACKET_SEND, subject, &fault);
}

static void fault_apply_text_replaces_rules(void **state)
{
	struct fault fault;

	(void)state;
	apply("packet.send:drop");
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DROP);
	apply("packet.send:duplicate");
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DUPLICATE);
	apply("");
	assert_false(probe_is_on(PROBE_FAULT));
}

static void fault_apply_text_earlier_generation_has_no_effect(void **state)
{
	char why[WHY_BYTES];

	(void)state;
	apply("packet.send:drop");
	assert_int_equal(fault_apply_text("", generation - 1, why, sizeof(why)), 0);
	assert_int_equal(fault_apply_text("", generation, why, sizeof(why)), 0);
	assert_true(fires(NULL));
	apply("");
}

static void fault_apply_text_invalid_rule_keeps_rules(void **state)
{
	char why[WHY_BYTES];

	(void)state;
	apply("packet.send:drop");
	assert_int_equal(fault_apply_text("nonsense", generation + 1, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "'nonsense': unknown fault point"));
	assert_true(fires(NULL));
	apply("");
}

static void fault_apply_text_rules_of_environment_apply_first(void **state)
{
	struct fault fault;
	char why[WHY_BYTES];

	(void)state;
	assert_int_equal(fault_configure("packet.send:drop:times=1", why, sizeof(why)), 0);
	apply("packet.send:duplicate");
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DROP);
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DUPLICATE);
	apply("");
	assert_true(probe_is_on(PROBE_FAULT));
	assert_int_equal(fault_configure(NULL, why, sizeof(why)), 0);
	assert_false(probe_is_on(PROBE_FAULT));
}

static void fault_rule_subject_matches_each_condition(void **state)
{
	static const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7};
	const struct fault_subject subject = {
		.device = "mlx5_0",
		.netdev = "eth0",
		.peer = peer,
		.qpn = 0x1a,
		.qp_type = 2,
		.op = FAULT_OP_WRITE,
	};
	static const char *const matching[] = {"dev=mlx5_0",	 "dev=eth0",
					       "qp=26",		 "qp=0x1a",
					       "type=RC",	 "type=UD,RC",
					       "op=WRITE",	 "op=SEND,WRITE",
					       "peer=192.0.2.7", "peer=[::ffff:192.0.2.7]"};
	static const char *const other[] = {"dev=mlx5_1", "qp=27",	    "type=UC",
					    "op=READ",	  "peer=192.0.2.8", "peer=[fe80::1]"};
	char rules[WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(matching) / sizeof(matching[0]); i++) {
		snprintf(rules, sizeof(rules), "packet.send:drop:%s", matching[i]);
		apply(rules);
		if (!fires(&subject))
			fail_msg("%s", rules);
		/* A condition on an unknown member is not met. */
		assert_false(fires(NULL));
	}
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		snprintf(rules, sizeof(rules), "packet.send:drop:%s", other[i]);
		apply(rules);
		if (fires(&subject))
			fail_msg("%s", rules);
	}
	apply("");
}

static void fault_rule_pid_fires_in_that_process(void **state)
{
	const struct fault_subject other = {.pid = 1, .program = "init"};
	char rules[WHY_BYTES];

	(void)state;
	snprintf(rules, sizeof(rules), "packet.send:drop:pid=%d", (int)getpid());
	apply(rules);
	assert_true(fires(NULL));
	assert_false(fires(&other));
	apply("packet.send:drop:prog=init");
	assert_false(fires(NULL));
	assert_true(fires(&other));
	apply("");
}

static void fault_rule_from_and_until_limit_time(void **state)
{
	struct fault_subject subject = {.now_ns = 1};

	(void)state;
	/* start: the time 1 us. */
	apply("start=1000;packet.send:drop:from=10us:until=20us");
	subject.now_ns = 1;
	assert_false(fires(&subject));
	subject.now_ns = 10999;
	assert_false(fires(&subject));
	subject.now_ns = 11000;
	assert_true(fires(&subject));
	subject.now_ns = 21000;
	assert_false(fires(&subject));
	apply("");
}

static bool fires_at(enum fault_point point)
{
	struct fault fault;

	return fault_due(point, NULL, &fault);
}

static void fault_rule_dir_selects_points_of_one_direction(void **state)
{
	(void)state;
	apply("packet:drop;mad:drop");
	for (enum fault_point point = FAULT_PACKET_SEND; point <= FAULT_MAD_RECEIVE; point++)
		assert_true(fires_at(point));
	assert_true(fault_has_point(FAULT_MAD_RECEIVE));
	apply("packet:drop:dir=sent;mad:drop:dir=received");
	assert_true(fires_at(FAULT_PACKET_SEND));
	assert_false(fires_at(FAULT_PACKET_RECEIVE));
	assert_false(fires_at(FAULT_MAD_SEND));
	assert_true(fires_at(FAULT_MAD_RECEIVE));
	assert_false(fault_has_point(FAULT_MAD_SEND));
	apply("message:drop");
	assert_true(fires_at(FAULT_MESSAGE));
	assert_false(fires_at(FAULT_MESSAGE_RECEIVE));
	apply("message:drop:dir=received");
	assert_false(fires_at(FAULT_MESSAGE));
	assert_true(fires_at(FAULT_MESSAGE_RECEIVE));
	apply("");
}

/* Both directions count the passes of one rule. */
static void fault_rule_of_both_directions_counts_all_passes(void **state)
{
	(void)state;
	apply("packet:drop:nth=2");
	assert_false(fires_at(FAULT_PACKET_SEND));
	assert_true(fires_at(FAULT_PACKET_RECEIVE));
	assert_false(fires_at(FAULT_PACKET_SEND));
	apply("");
}

static bool call_fails(const char *name)
{
	errno = 0;
	return fault_call_fails(name) && errno == EIO;
}

static void fault_rule_name_selects_call_and_its_extended_form(void **state)
{
	(void)state;
	apply("call:fail=EIO:name=ibv_create_cq");
	assert_true(call_fails("ibv_create_cq"));
	assert_true(call_fails("ibv_create_cq_ex"));
	assert_false(call_fails("ibv_create_qp"));
	assert_int_equal(fault_call("ibv_create_cq"), -EIO);
	apply("call:fail=EIO:name=ibv_create_cq_ex");
	assert_false(call_fails("ibv_create_cq"));
	assert_true(call_fails("ibv_create_cq_ex"));
	apply("");
	assert_false(call_fails("ibv_create_cq_ex"));
}

static uint64_t firings_of(uint32_t qpn)
{
	const struct fault_subject subject = {.qpn = qpn};
	uint64_t fired = 0;

	for (unsigned int i = 0; i < 64; i++) {
		if (fires(&subject))
			fired |= UINT64_C(1) << i;
	}
	return fired;
}

static void fault_rule_other_qps_do_not_change_firings_of_qp(void **state)
{
	const struct fault_subject own = {.qpn = 5}, other = {.qpn = 6};
	uint64_t alone, fired = 0;

	(void)state;
	apply("seed=9;packet.send:drop:p=0.25");
	alone = firings_of(5);
	assert_int_not_equal(alone, 0);
	apply("seed=9;packet.send:drop:p=0.25");
	for (unsigned int i = 0; i < 64; i++) {
		for (unsigned int n = 0; n < i % 3; n++)
			(void)fires(&other);
		if (fires(&own))
			fired |= UINT64_C(1) << i;
	}
	assert_int_equal(fired, alone);
	apply("");
}

static void fault_rule_more_qps_than_counted_fires(void **state)
{
	unsigned int fired = 0;

	(void)state;
	apply("packet.send:drop:p=0.5");
	for (uint32_t qpn = 1; qpn <= 10000; qpn++) {
		const struct fault_subject subject = {.qpn = qpn};

		fired += fires(&subject);
	}
	assert_true(fired > 0);
	apply("");
}

static void fault_counters_return_passes_and_firings(void **state)
{
	static struct fault_counter shared[FAULT_RULES_MAX];
	struct fault_count counts[FAULT_RULES_MAX];
	uint64_t found;

	(void)state;
	fault_share_counters(shared);
	apply("packet.send:drop:every=2;packet.receive:drop");
	for (unsigned int i = 0; i < 10; i++)
		(void)fires(NULL);
	assert_int_equal(fault_counters(counts, &found), 2);
	assert_int_equal(found, generation);
	assert_int_equal(counts[0].passes, 10);
	assert_int_equal(counts[0].firings, 5);
	assert_int_equal(counts[1].passes, 0);
	assert_int_equal(shared[0].passes, 10);
	assert_int_equal(shared[0].firings, 5);
	fault_share_counters(NULL);
	apply("");
}

static void fault_rule_rate_delays_by_transmission_time(void **state)
{
	const struct fault_subject subject = {.bytes = 1000, .now_ns = 5000};
	struct fault fault;

	(void)state;
	apply("packet.send:rate=1M");
	assert_true(fault_due(FAULT_PACKET_SEND, &subject, &fault));
	assert_int_equal(fault.action, FAULT_DELAY);
	assert_int_equal(fault.delay_ns, 1000001);
	assert_true(fault_due(FAULT_PACKET_SEND, &subject, &fault));
	assert_int_equal(fault.delay_ns, 2000002);
	apply("");
}

/* Returns the mean of PASSES delays and checks their range. */
static uint64_t mean_delay(const char *rules, uint64_t least_ns, uint64_t most_ns)
{
	struct fault fault;
	uint64_t sum = 0;

	apply(rules);
	for (unsigned int i = 0; i < PASSES; i++) {
		assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
		assert_in_range(fault.delay_ns, least_ns, most_ns);
		sum += fault.delay_ns;
	}
	apply("");
	return sum / PASSES;
}

static void fault_rule_delay_distributions_have_mean_and_range(void **state)
{
	uint64_t mean;

	(void)state;
	mean = mean_delay("packet.send:delay=10ms~2ms", 8000000, 12000000);
	assert_in_range(mean, 9800000, 10200000);
	mean = mean_delay("packet.send:delay=10ms~2ms,normal", 0, 22000000);
	assert_in_range(mean, 9700000, 10300000);
	mean = mean_delay("packet.send:delay=10ms~2ms,pareto", 10000000, 210000000);
	assert_in_range(mean, 11000000, 14000000);
	assert_int_equal(mean_delay("packet.send:delay=10ms", 10000000, 10000000), 10000000);
}

static void *pass_points(void *arg)
{
	atomic_bool *is_over = arg;
	const struct fault_subject subject = {.qpn = 1};
	struct fault fault;

	while (!atomic_load(is_over)) {
		if (fault_due(FAULT_PACKET_SEND, &subject, &fault) && fault.action != FAULT_DROP &&
		    fault.action != FAULT_DUPLICATE)
			return (void *)1;
	}
	return NULL;
}

static void fault_apply_text_while_threads_pass_points_is_safe(void **state)
{
	atomic_bool is_over = false;
	pthread_t threads[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_points, &is_over), 0);
	for (unsigned int i = 0; i < 2000; i++)
		apply(i % 3 == 0 ? "packet.send:drop:p=0.5" :
		      i % 3 == 1 ? "packet.receive:corrupt;packet.send:duplicate:from=1us" :
				   "");
	atomic_store(&is_over, true);
	for (size_t i = 0; i < 3; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	apply("");
	assert_false(probe_is_on(PROBE_FAULT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_apply_text_replaces_rules),
		cmocka_unit_test(fault_apply_text_earlier_generation_has_no_effect),
		cmocka_unit_test(fault_apply_text_invalid_rule_keeps_rules),
		cmocka_unit_test(fault_apply_text_rules_of_environment_apply_first),
		cmocka_unit_test(fault_rule_subject_matches_each_condition),
		cmocka_unit_test(fault_rule_pid_fires_in_that_process),
		cmocka_unit_test(fault_rule_from_and_until_limit_time),
		cmocka_unit_test(fault_rule_dir_selects_points_of_one_direction),
		cmocka_unit_test(fault_rule_of_both_directions_counts_all_passes),
		cmocka_unit_test(fault_rule_name_selects_call_and_its_extended_form),
		cmocka_unit_test(fault_rule_other_qps_do_not_change_firings_of_qp),
		cmocka_unit_test(fault_rule_more_qps_than_counted_fires),
		cmocka_unit_test(fault_counters_return_passes_and_firings),
		cmocka_unit_test(fault_rule_rate_delays_by_transmission_time),
		cmocka_unit_test(fault_rule_delay_distributions_have_mean_and_range),
		cmocka_unit_test(fault_apply_text_while_threads_pass_points_is_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
