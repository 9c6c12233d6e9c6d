/* SPDX-License-Identifier: BSD-2-Clause */

/* preload_config: valid lines, and which sockets they match. */

#include "rspreload/rules.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void rule_parse_valid_line_succeeds(void **state)
{
	struct rule rule;

	(void)state;
	assert_true(rule_parse("iperf3 INET STREAM TCP\n", &rule));
	assert_string_equal(rule.program, "iperf3");
	assert_int_equal(rule.domain, AF_INET);
	assert_int_equal(rule.type, SOCK_STREAM);
	assert_int_equal(rule.protocol, IPPROTO_TCP);
	assert_true(rule_parse("  * \t pf_inet6 sock_dgram ipproto_udp trailing", &rule));
	assert_string_equal(rule.program, "");
	assert_int_equal(rule.domain, AF_INET6);
	assert_int_equal(rule.type, SOCK_DGRAM);
	assert_int_equal(rule.protocol, IPPROTO_UDP);
	assert_true(rule_parse("x * * *", &rule));
	assert_int_equal(rule.domain | rule.type | rule.protocol, 0);
}

static void rule_parse_invalid_line_fails(void **state)
{
	struct rule rule;

	(void)state;
	assert_false(rule_parse("", &rule));
	assert_false(rule_parse("\n", &rule));
	assert_false(rule_parse("# * * * *", &rule));
	assert_false(rule_parse("iperf3 INET STREAM", &rule));
	assert_false(rule_parse("iperf3 UNIX STREAM TCP", &rule));
	assert_false(rule_parse("iperf3 INET RAW TCP", &rule));
	assert_false(rule_parse("iperf3 INET STREAM SCTP", &rule));
}

static void rules_match_without_rules_matches_all(void **state)
{
	struct rules rules;

	(void)state;
	rules_read("/nonexistent", &rules);
	assert_true(rules_match(&rules, "anything", AF_INET, SOCK_STREAM, 0));
	assert_true(rules_match(&rules, "anything", AF_INET6, SOCK_DGRAM, IPPROTO_UDP));
	rules_free(&rules);
}

static void read_text(struct rules *rules, const char *text)
{
	char path[] = "/tmp/usrdma-test-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	rules_read(path, rules);
	unlink(path);
}

static void rules_match_needs_one_matching_line(void **state)
{
	struct rules rules;

	(void)state;
	read_text(&rules, "# a comment\n"
			  "iperf INET STREAM TCP\n"
			  "nonsense\n"
			  "* INET6 * UDP");
	assert_int_equal(rules.count, 2);
	assert_true(rules_match(&rules, "iperf", AF_INET, SOCK_STREAM, IPPROTO_TCP));
	/*
	 * A name matches the beginning of a program's name, ignoring case; protocol 0 is the
	 * default of the type.
	 */
	assert_true(rules_match(&rules, "IPerf3", AF_INET, SOCK_STREAM, 0));
	assert_false(rules_match(&rules, "iper", AF_INET, SOCK_STREAM, 0));
	assert_false(rules_match(&rules, "iperf", AF_INET, SOCK_DGRAM, 0));
	assert_false(rules_match(&rules, "iperf", AF_INET6, SOCK_STREAM, 0));
	assert_true(rules_match(&rules, "curl", AF_INET6, SOCK_DGRAM, 0));
	assert_false(rules_match(&rules, "curl", AF_INET6, SOCK_STREAM, 0));
	rules_free(&rules);
}

static void rules_read_invalid_file_has_no_rules(void **state)
{
	struct rules rules;

	(void)state;
	read_text(&rules, "what is this\n\n# nothing\n");
	assert_true(rules_match(&rules, "curl", AF_INET, SOCK_STREAM, 0));
	rules_free(&rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rule_parse_valid_line_succeeds),
		cmocka_unit_test(rule_parse_invalid_line_fails),
		cmocka_unit_test(rules_match_without_rules_matches_all),
		cmocka_unit_test(rules_match_needs_one_matching_line),
		cmocka_unit_test(rules_read_invalid_file_has_no_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
