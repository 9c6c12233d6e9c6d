/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault_fired.h"

#define WHY_BYTES 128

static void configure(const char *rules)
{
	char why[WHY_BYTES] = "";

	if (fault_configure(rules, why, sizeof(why)))
		fail_msg("%s: %s", rules, why);
}

/* Returns a bit mask of the first 64 passes at which the point fires. */
static uint64_t passes_fired(enum fault_point point)
{
	struct fault fault;
	uint64_t fired = 0;

	for (unsigned int i = 0; i < 64; i++) {
		if (fault_due(point, NULL, &fault))
			fired |= UINT64_C(1) << i;
	}
	return fired;
}

static void fault_configure_no_rules_switches_faults_off(void **state)
{
	struct fault fault;

	(void)state;
	configure("packet.send:drop");
	assert_true(probe_is_on(PROBE_FAULT));
	configure(NULL);
	assert_false(probe_is_on(PROBE_FAULT));
	assert_false(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	configure("seed=5");
	assert_false(probe_is_on(PROBE_FAULT));
}

static void fault_rule_other_point_does_not_fire(void **state)
{
	struct fault fault;

	(void)state;
	configure("packet.send:drop");
	assert_false(fault_due(FAULT_PACKET_RECEIVE, NULL, &fault));
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DROP);
}

static void fault_rule_nth_and_times_limit_firings(void **state)
{
	(void)state;
	configure("ipc.call:fail=ENOMEM:nth=3");
	assert_int_equal(passes_fired(FAULT_IPC_CALL), 1u << 2);
	configure("fifo.send:fail:times=2");
	assert_int_equal(passes_fired(FAULT_FIFO_SEND), 3);
}

static void fault_rule_every_fires_on_multiples(void **state)
{
	(void)state;
	configure("wr.post:fail=ENOMEM:every=16");
	assert_int_equal(passes_fired(FAULT_WR_POST), UINT64_C(0x8000800080008000));
	configure("wr.post:fail=ENOMEM:every=16:times=1");
	assert_int_equal(passes_fired(FAULT_WR_POST), 0x8000);
}

static void fault_rule_prog_fires_in_program_of_that_name(void **state)
{
	char rules[WHY_BYTES];

	(void)state;
	configure("wr.post:fail=ENOMEM:prog=rping");
	assert_int_equal(passes_fired(FAULT_WR_POST), 0);
	snprintf(rules, sizeof(rules), "wr.post:fail=ENOMEM:prog=%s",
		 program_invocation_short_name);
	configure(rules);
	assert_int_equal(passes_fired(FAULT_WR_POST), UINT64_MAX);
}

static void fault_configure_lines_and_comments_are_clauses(void **state)
{
	(void)state;
	configure("# two rules; the third is a comment\n"
		  "  wr.post:fail=ENOMEM:nth=1 ; qp.modify:fail=EINVAL:nth=1\t# first pass only\r\n"
		  "#ipc.call:fail=EIO\n\n;;\n");
	assert_int_equal(passes_fired(FAULT_WR_POST), 1);
	assert_int_equal(passes_fired(FAULT_QP_MODIFY), 1);
	assert_int_equal(passes_fired(FAULT_IPC_CALL), 0);
}

static void fault_rule_firing_returns_values_of_rule(void **state)
{
	struct fault fault;

	(void)state;
	configure("ipc.call:fail=ENOMEM;ipc.call:delay=20ms");
	assert_int_equal(fault_code(FAULT_IPC_CALL), ENOMEM);
	configure("wr.execute:fail=RNR_RETRY_EXC_ERR");
	assert_int_equal(fault_code(FAULT_WR_EXECUTE), 13);
	configure("packet.receive:delay=20ms");
	assert_true(fault_due(FAULT_PACKET_RECEIVE, NULL, &fault));
	assert_int_equal(fault.delay_ns, 20000000);
}

static void fault_rule_reject_applies_to_req_only(void **state)
{
	struct fault_subject subject = {.op = FAULT_OP_CM + 3};
	struct fault fault;

	(void)state;
	configure("mad.send:reject=INVALID_MTU;mad.receive:reject=1000:op=REQ");
	assert_false(fault_due(FAULT_MAD_SEND, &subject, &fault));
	subject.op = FAULT_OP_CM;
	assert_true(fault_due(FAULT_MAD_SEND, &subject, &fault));
	assert_int_equal(fault.action, FAULT_REJECT);
	assert_int_equal(fault.code, 26);
	assert_true(fault_due(FAULT_MAD_RECEIVE, &subject, &fault));
	assert_int_equal(fault.code, 1000);
}

static void fault_rule_two_of_one_point_first_fires(void **state)
{
	struct fault fault;

	(void)state;
	configure("packet.send:drop:nth=2;packet.send:duplicate");
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DUPLICATE);
	assert_true(fault_due(FAULT_PACKET_SEND, NULL, &fault));
	assert_int_equal(fault.action, FAULT_DROP);
}

static void fault_rule_same_seed_fires_on_same_passes(void **state)
{
	uint64_t first, other;

	(void)state;
	configure("seed=7;packet.send:drop:p=0.25");
	first = passes_fired(FAULT_PACKET_SEND);
	configure("seed=7;packet.send:drop:p=0.25");
	assert_int_equal(passes_fired(FAULT_PACKET_SEND), first);
	configure("seed=8;packet.send:drop:p=0.25");
	other = passes_fired(FAULT_PACKET_SEND);
	assert_int_not_equal(other, first);
}

static void fault_rule_other_rules_present_fires_on_same_passes(void **state)
{
	struct fault fault;
	uint64_t alone, fired = 0;

	(void)state;
	configure("seed=7;packet.send:drop:p=0.25");
	alone = passes_fired(FAULT_PACKET_SEND);
	configure("seed=7;packet.send:drop:p=0.25;packet.receive:drop:p=0.5");
	for (unsigned int i = 0; i < 64; i++) {
		(void)fault_due(FAULT_PACKET_RECEIVE, NULL, &fault);
		if (fault_due(FAULT_PACKET_SEND, NULL, &fault))
			fired |= UINT64_C(1) << i;
	}
	assert_int_equal(fired, alone);
}

static void fault_rule_probability_is_met_on_average(void **state)
{
	struct fault fault;
	unsigned int fired = 0;

	(void)state;
	configure("packet.send:drop:p=0.25");
	for (unsigned int i = 0; i < 40000; i++)
		fired += fault_due(FAULT_PACKET_SEND, NULL, &fault);
	assert_in_range(fired, 9000, 11000);
	configure("packet.send:drop:p=0");
	assert_int_equal(passes_fired(FAULT_PACKET_SEND), 0);
	configure("packet.send:drop:p=1.0");
	assert_int_equal(passes_fired(FAULT_PACKET_SEND), UINT64_MAX);
}

static void fault_corrupt_any_length_inverts_one_bit(void **state)
{
	struct fault fault;
	uint8_t bytes[16] = {0};
	unsigned int set = 0;

	(void)state;
	configure("fifo.receive:corrupt");
	assert_true(fault_due(FAULT_FIFO_RECEIVE, NULL, &fault));
	fault_corrupt(&fault, bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		set += (unsigned int)__builtin_popcount(bytes[i]);
	assert_int_equal(set, 1);
}

static void fault_configure_invalid_rule_fails_with_reason(void **state)
{
	static const char *const wrong[][2] = {
		{"packets:drop", "'packets:drop': unknown fault point"},
		{"packet.send:drop:dir=received", "other direction"},
		{"packet:drop:dir=sent:dir=received", "other direction"},
		{"packet:drop:dir=in", "dir is sent or received"},
		{"message:delay=1ms:dir=received", "does not support this action"},
		{"message.receive:delay=1ms", "does not support this action"},
		{"message.receive:drop:dir=sent", "other direction"},
		{"access:deny:dir=sent", "does not support this condition"},
		{"packet.send", "unknown action"},
		{"packet.send:", "unknown action"},
		{"packet.send:lose", "unknown action"},
		{"wr.post:drop", "does not support"},
		{"mad.send:rate=1M", "does not support"},
		{"packet.send:drop=1", "no value"},
		{"packet.send:delay", "needs a time"},
		{"packet.send:delay=10", "needs a time"},
		{"packet.send:delay=3601s", "needs a time"},
		{"ipc.call:fail=EWRONG", "needs an errno"},
		{"wr.execute:fail=ENOMEM", "completion status"},
		{"packet.send:drop:p=1.5", "from 0 to 1"},
		{"packet.send:drop:p=", "from 0 to 1"},
		{"packet.send:drop:p=0.0000000001", "from 0 to 1"},
		{"packet.send:drop:nth=0", "from 1"},
		{"packet.send:drop:times=-1", "from 1"},
		{"packet.send:drop:nth=99999999999999999999", "from 1"},
		{"packet.send:drop:when=2", "unknown condition"},
		{"packet.send:drop:every=0", "every is a number from 1"},
		{"packet.send:drop:prog=", "prog is the name"},
		{"packet.send:drop:prog=a-name-that-is-longer-than-every-name-of-a-program-may-be-anywhere",
		 "prog is the name"},
		{"packet.send:drop\nnonsense # comment", "'nonsense': unknown fault point"},
		{"seed=x", "seed is a number"},
		{"packet.send:delay=1ms~x", "needs a time"},
		{"packet.send:delay=1ms~1ms,gauss", "needs a time"},
		{"packet.send:rate=0", "rate needs"},
		{"packet.send:rate=1001G", "rate needs"},
		{"packet.send:reorder=0", "reorder needs"},
		{"packet.send:mark=1", "no value"},
		{"packet.send:drop:from=1", "from is a time"},
		{"packet.send:drop:until=0s", "until is a time"},
		{"packet.send:drop:qp=0", "qp is a QPN"},
		{"packet.send:drop:qp=0x1000000", "qp is a QPN"},
		{"packet.send:drop:type=RD", "type is"},
		{"packet.send:drop:op=SEND,", "op is"},
		{"packet.send:drop:peer=fe80::1", "peer is"},
		{"packet.send:drop:dev=", "dev is"},
		{"packet.send:drop:pid=0", "pid is"},
		{"call:fail=EIO:name=ibv_make_qp", "name is that of a call"},
		{"call:fail=EIO:name=ibv_poll_cq", "name is that of a call"},
		{"mad.send:drop:qp=1", "does not support this condition"},
		{"packet.send:reject=28", "does not support"},
		{"device:down:prog=rping", "applies to all programs"},
		{"device:down:pid=7", "applies to all programs"},
		{"device:down:peer=10.0.0.1", "does not support this condition"},
		{"connection:disconnect:op=SEND", "does not support this condition"},
		{"mad.send:reject", "reject needs a reason"},
		{"mad.send:reject=0", "reject needs a reason"},
		{"mad.send:reject=65536", "reject needs a reason"},
		{"mad.send:reject=CONSUMER", "reject needs a reason"},
		{"mad.send:reject=28:op=REP", "op=REQ only"},
		{"mad.send:reject=28:op=REQ,REP", "op=REQ only"},
	};
	char why[WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		configure("fifo.send:fail");
		assert_int_equal(fault_configure(wrong[i][0], why, sizeof(why)), -EINVAL);
		if (!strstr(why, wrong[i][1]))
			fail_msg("%s: %s", wrong[i][0], why);
		assert_false(probe_is_on(PROBE_FAULT));
	}
}

static void fault_configure_too_many_rules_fails(void **state)
{
	char rules[16 * (FAULT_RULES_MAX + 1)] = "";
	char why[WHY_BYTES];

	(void)state;
	for (int i = 0; i < FAULT_RULES_MAX; i++)
		strcat(rules, "fifo.send:fail;");
	configure(rules);
	strcat(rules, "fifo.send:fail");
	assert_int_equal(fault_configure(rules, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "too many"));
}

static void fault_fired_names_rule_of_queue_pair(void **state)
{
	const struct fault_subject subject = {.qpn = 0x123456}, other = {.qpn = 0x123457};
	struct fault_fired fired;
	struct fault fault;
	uint16_t age_ms;

	(void)state;
	configure("wr.post:fail=ENOMEM:nth=9;receive:empty:nth=2");
	assert_false(fault_due(FAULT_RECEIVE, &subject, &fault));
	assert_false(fault_fired_for_qp(subject.qpn, &fired));
	assert_true(fault_due(FAULT_RECEIVE, &subject, &fault));
	assert_true(fault_fired_for_qp(subject.qpn, &fired));
	assert_int_equal(fired.rule, 2);
	assert_true(fired.is_of_environment);
	assert_int_equal(fault_fired_code(&fired, &age_ms), FAULT_FIRED_ENVIRONMENT | 2);
	assert_false(fault_fired_for_qp(other.qpn, &fired));
	assert_false(fault_fired_for_qp(0, &fired));
	configure("");
}

static void fault_fired_separates_processes_from_queue_pairs(void **state)
{
	struct fault_fired fired;

	(void)state;
	fault_fired_note(4711, 0x99, FAULT_RULES_MAX, false);
	assert_true(fault_fired_for_process(4711, &fired));
	assert_int_equal(fired.rule, FAULT_RULES_MAX);
	assert_false(fired.is_of_environment);
	assert_false(fault_fired_for_qp(4711, &fired));
	assert_false(fault_fired_for_qp(0x99, &fired));
	assert_false(fault_fired_for_process(0, &fired));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_configure_no_rules_switches_faults_off),
		cmocka_unit_test(fault_rule_other_point_does_not_fire),
		cmocka_unit_test(fault_rule_nth_and_times_limit_firings),
		cmocka_unit_test(fault_rule_every_fires_on_multiples),
		cmocka_unit_test(fault_rule_prog_fires_in_program_of_that_name),
		cmocka_unit_test(fault_configure_lines_and_comments_are_clauses),
		cmocka_unit_test(fault_rule_firing_returns_values_of_rule),
		cmocka_unit_test(fault_rule_reject_applies_to_req_only),
		cmocka_unit_test(fault_rule_two_of_one_point_first_fires),
		cmocka_unit_test(fault_rule_same_seed_fires_on_same_passes),
		cmocka_unit_test(fault_rule_other_rules_present_fires_on_same_passes),
		cmocka_unit_test(fault_rule_probability_is_met_on_average),
		cmocka_unit_test(fault_corrupt_any_length_inverts_one_bit),
		cmocka_unit_test(fault_fired_names_rule_of_queue_pair),
		cmocka_unit_test(fault_fired_separates_processes_from_queue_pairs),
		cmocka_unit_test(fault_configure_invalid_rule_fails_with_reason),
		cmocka_unit_test(fault_configure_too_many_rules_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
