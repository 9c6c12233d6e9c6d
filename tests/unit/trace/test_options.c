/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of `usrdma trace`, and the selection of records by --pid, --qp and --device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tools/usrdma/trace/filter.h"
#include "tools/usrdma/trace/options.h"

static struct trace_options options;
static char why[TRACE_OPTION_WHY_BYTES];

#define PARSE(...) trace_options_parse(&options, (char *[]){"trace", __VA_ARGS__, NULL}, why)

static void trace_options_parse_reads_each_option(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--pid", "12", "--qp", "0x1f", "--device", "lo", "-w", "-", "--all",
			       "--duration", "1.5", "--", "rping", "-s"),
			 0);
	assert_int_equal(options.pid, 12);
	assert_int_equal(options.qpn, 0x1f);
	assert_string_equal(options.device, "lo");
	assert_string_equal(options.write_path, "-");
	assert_true(options.wants_all && !options.wants_text && options.duration_s == 1.5);
	assert_string_equal(options.program[0], "rping");
	assert_string_equal(options.program[1], "-s");
	assert_null(options.program[2]);
	assert_false(options.wants_profile);
	assert_int_equal(PARSE("--wireshark-profile"), 0);
	assert_true(options.wants_profile);
}

static void trace_options_parse_invalid_values_are_named(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--qp", "0x1000000"), -EINVAL);
	assert_string_equal(why, "invalid value '0x1000000' of --qp: a QPN, 1 to 0xffffff");
	assert_int_equal(PARSE("--pid", "-1"), -EINVAL);
	assert_int_equal(PARSE("--duration", "0"), -EINVAL);
	assert_int_equal(PARSE("--duration", "nan"), -EINVAL);
	assert_int_equal(PARSE("-w"), -EINVAL);
	assert_string_equal(why, "-w needs a value");
	assert_int_equal(PARSE("rping"), -EINVAL);
	assert_string_equal(why, "unknown option 'rping'");
	assert_int_equal(PARSE("--"), -EINVAL);
	assert_int_equal(PARSE("-r", "x", "--", "true"), -EINVAL);
	assert_int_equal(PARSE("-w", "-", "--text"), -EINVAL);
}

static unsigned int passed;

static int count_put(void *ctx, const struct trace_record *record)
{
	(void)ctx;
	(void)record;
	passed++;
	return 0;
}

static int count_end(void *ctx)
{
	(void)ctx;
	return 0;
}

static bool passes(struct trace_out out, uint8_t type, uint32_t qpn, uint32_t pid)
{
	struct trace_record record = {
		.pid = pid, .program = "", .device = "lo", .event = {.type = type, .qpn = qpn}};
	unsigned int before = passed;

	record.event.qp_path.remote_qpn = type == TRACE_QP_PATH ? 9 : 0;
	assert_int_equal(out.put(out.ctx, &record), 0);
	return passed != before;
}

static void trace_filter_out_selects_process_device_and_qp(void **state)
{
	struct trace_filter filter = {
		.options = &options,
		.next = {.put = count_put, .end = count_end},
	};
	struct trace_out out = trace_filter_out(&filter);

	(void)state;
	options = (struct trace_options){.qpn = 5};
	assert_true(passes(out, TRACE_CQE, 5, 1));
	assert_false(passes(out, TRACE_CQE, 6, 1));
	assert_true(passes(out, TRACE_MAD_SENT, 0, 1));
	/* A packet has the QPN of the peer, which is known from the path. */
	assert_false(passes(out, TRACE_PACKET_SENT, 9, 1));
	assert_true(passes(out, TRACE_QP_PATH, 5, 1));
	assert_true(passes(out, TRACE_PACKET_SENT, 9, 1));
	assert_false(passes(out, TRACE_PACKET_SENT, 8, 1));
	options = (struct trace_options){.pid = 2, .device = "lo"};
	assert_true(passes(out, TRACE_CQE, 5, 2));
	assert_false(passes(out, TRACE_CQE, 5, 1));
	options.device = "eth0";
	assert_false(passes(out, TRACE_CQE, 5, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_options_parse_reads_each_option),
		cmocka_unit_test(trace_options_parse_invalid_values_are_named),
		cmocka_unit_test(trace_filter_out_selects_process_device_and_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
