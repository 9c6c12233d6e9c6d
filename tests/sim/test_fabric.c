/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "fabric_load.h"
#include "roce/cc.h"

/*
 * The library code on a leaf-spine network in virtual time, the same in each run.
 *
 *     test-sim-fabric                        runs the test cases
 *     test-sim-fabric --run [NAME=VALUE...]    prints one row of a Markdown table
 *     test-sim-fabric --table [NAME=VALUE...]  prints a row for each congestion control with and
 *                                              without ECN
 *
 * The names are those of `options`, pattern, cc and other-cc. The exit status is 1 if a message
 * fails or a packet is missing.
 */
#define NS_PER_US 1000u
#define SEEDS	  2

struct run {
	struct fabric_net_spec net;
	struct load_spec load;
	uint32_t seed;
	uint32_t mtu_bytes;
	uint32_t warm_us;
	uint32_t measure_us;
	uint32_t ecn;
	uint32_t other_ecn;
};

/* NAME=VALUE on the command line; values are numbers. */
static const struct option {
	const char *name;
	size_t offset;
} options[] = {
	{"seed", offsetof(struct run, seed)},
	{"hosts", offsetof(struct run, net.hosts)},
	{"leaves", offsetof(struct run, net.leaves)},
	{"spines", offsetof(struct run, net.spines)},
	{"host-gbps", offsetof(struct run, net.host_gbps)},
	{"spine-gbps", offsetof(struct run, net.spine_gbps)},
	{"buffer", offsetof(struct run, net.buffer_bytes)},
	{"kmin", offsetof(struct run, net.kmin_bytes)},
	{"kmax", offsetof(struct run, net.kmax_bytes)},
	{"pmax", offsetof(struct run, net.pmax_percent)},
	{"fan-in", offsetof(struct run, load.fan_in)},
	{"bytes", offsetof(struct run, load.bytes)},
	{"depth", offsetof(struct run, load.depth)},
	{"messages", offsetof(struct run, load.messages)},
	{"mtu", offsetof(struct run, mtu_bytes)},
	{"warm-us", offsetof(struct run, warm_us)},
	{"measure-us", offsetof(struct run, measure_us)},
	{"ecn", offsetof(struct run, ecn)},
	{"other-ecn", offsetof(struct run, other_ecn)},
};

static const struct run run_default = {
	.net = {.seed = 1,
		.hosts = 65,
		.leaves = 5,
		.spines = 4,
		.host_gbps = 25,
		.spine_gbps = 100,
		.hop_ns = 1000,
		.host_ns = 2000,
		.buffer_bytes = 1u << 20,
		.kmin_bytes = 100000,
		.kmax_bytes = 400000,
		.pmax_percent = 20,
		.nic_bytes = 256u << 10,
		.socket_bytes = 4u << 20},
	.load = {.pattern = LOAD_INCAST,
		 .fan_in = 64,
		 .bytes = 65536,
		 .depth = 4,
		 .cc = "westwood",
		 .is_ecn = true},
	.seed = 1,
	.mtu_bytes = 1024,
	.warm_us = 20000,
	.measure_us = 20000,
	.ecn = 1,
	.other_ecn = 1,
};

static void run_load(struct run *run, struct load_result *result)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128u << mtu < run->mtu_bytes)
		mtu++;
	run->net.seed = run->seed;
	run->load.is_ecn = run->ecn;
	run->load.is_other_ecn = run->other_ecn;
	run->load.warm_ns = (uint64_t)run->warm_us * NS_PER_US;
	run->load.measure_ns = (uint64_t)run->measure_us * NS_PER_US;
	if (run->load.messages || run->load.pattern == LOAD_ALL_TO_ALL)
		run->load.warm_ns = run->load.measure_ns = 0;
	load_run(&run->net, mtu, &run->load, result);
}

/* What holds in each run. */
static void run_and_check(struct run *run, struct load_result *result)
{
	run_load(run, result);
	print_message(
		"# %s, %u hosts, seed %u: %.1f %% of line rate, Jain %.3f, p99 %.0f us, %llu drops, "
		"%llu marks\n",
		load_pattern_name(run->load.pattern), run->net.hosts, run->seed,
		result->ideal_percent, result->jain, result->p99_us,
		(unsigned long long)result->counts.dropped_in_ports,
		(unsigned long long)result->counts.marked);
	assert_int_equal(result->failed, 0);
	assert_int_equal(result->unmatched, 0);
	assert_true(result->ideal_percent <= 101);
}

static void sim_fabric_incast_shares_receiver_fairly(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.net.hosts = 17;
		run.load.fan_in = 16;
		run_and_check(&run, &result);
		assert_true(result.jain >= 0.9);
		assert_true(result.ideal_percent >= 95);
		assert_true(result.counts.marked > 0);
	}
}

static void sim_fabric_incast_of_64_completes_all_messages(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.load.messages = 8;
		run_and_check(&run, &result);
		assert_int_equal(result.messages, 64 * 8);
		/* The first windows of 64 senders do not fit into the buffer. */
		assert_true(result.counts.dropped_in_ports > 0);
	}
}

/*
 * 64 windows of the minimum after losses, 4 packets of 4 KiB, are longer than the queue. The
 * windows are below it, so no packet is lost and no message waits for a retransmission timeout.
 */
static void sim_fabric_incast_of_64_with_long_packets_loses_none(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.mtu_bytes = 4096;
		run.warm_us = 200000;
		run.measure_us = 50000;
		run_and_check(&run, &result);
		assert_true(result.jain >= 0.9);
		assert_true(result.max_us < 2 * result.p50_us);
	}
}

static void sim_fabric_permutation_fills_network(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.net.hosts = 40;
		run.load.pattern = LOAD_PERMUTATION;
		run.warm_us = run.measure_us = 3000;
		run_and_check(&run, &result);
		assert_true(result.jain >= 0.9);
		assert_true(result.ideal_percent >= 80);
	}
}

static void sim_fabric_all_to_all_completes_all_messages(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.net.hosts = 40;
		run.load.pattern = LOAD_ALL_TO_ALL;
		run.load.depth = 8;
		run_and_check(&run, &result);
		assert_int_equal(result.messages, 40 * 39);
		assert_true(result.jain >= 0.9);
	}
}

static void sim_fabric_newreno_with_ecn_gets_fair_share(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct run run = run_default;
		struct load_result result;

		run.seed = seed;
		run.net.hosts = 17;
		run.load.fan_in = 16;
		run.load.other_cc = "newreno";
		run_and_check(&run, &result);
		assert_true(result.jain >= 0.95);
	}
}

static void sim_fabric_same_seed_repeats_run(void **state)
{
	struct load_result results[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct run run = run_default;

		run.load.messages = 2;
		run_and_check(&run, &results[i]);
	}
	assert_memory_equal(&results[0], &results[1], sizeof(results[0]));
}

static void count_wc(struct fabric *fabric, uint32_t host, const struct ibv_wc *wc)
{
	(void)host;
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	++*(int *)fabric->arg;
}

static void write_from_0_to_1(struct fabric *fabric, struct ibv_qp *qps[2])
{
	fabric_connect(fabric, 0, 1, 1, qps);
	fabric_write(fabric, 0, 1, qps[0], 1024, 0);
}

static void destroy_both(struct ibv_qp *qps[2])
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
}

/*
 * Packets for a destroyed QP arrive while their host has no QP. They must not stop the next QP of
 * this host.
 */
static void sim_fabric_next_qp_works_after_packets_for_destroyed_qp(void **state)
{
	struct fabric_net_spec spec = run_default.net;
	struct fabric fabric;
	struct ibv_qp *qps[2];
	int completed = 0;

	(void)state;
	spec.hosts = 2;
	fabric_open(&fabric, &spec, IBV_MTU_1024, 4096);
	fabric.arg = &completed;
	fabric.on_wc = count_wc;
	write_from_0_to_1(&fabric, qps);
	/* The first step sends the packets. */
	assert_true(fabric_step(&fabric));
	destroy_both(qps);
	while (fabric_step(&fabric))
		;
	assert_int_equal(completed, 0);
	assert_int_equal(fabric.net.counts.received, 1);
	write_from_0_to_1(&fabric, qps);
	while (!completed && fabric_step(&fabric))
		;
	assert_int_equal(completed, 1);
	destroy_both(qps);
	fabric_close(&fabric);
}

static void print_head(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("| pattern | hosts | sender | messages | of line rate | Jain's index | p50, µs | p99, µs | max, µs | "
	       "dropped | marked | sent again | timeouts |\n"
	       "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

/* Prints a row. Returns 0, or 1 if a message failed or a packet is missing. */
static int print_row(struct run *run)
{
	struct load_result r;

	run_load(run, &r);
	printf("| %s | %u | %s%s%s%s | %llu | %.1f %% | %.3f | %.0f | %.0f | %.0f | %llu | %llu | %llu | %llu |\n",
	       load_pattern_name(run->load.pattern), run->net.hosts, run->load.cc,
	       run->ecn ? ", ECN" : "", run->load.other_cc ? " and " : "",
	       run->load.other_cc ? run->load.other_cc : "", (unsigned long long)r.messages,
	       r.ideal_percent, r.jain, r.p50_us, r.p99_us, r.max_us,
	       (unsigned long long)r.counts.dropped_in_ports, (unsigned long long)r.counts.marked,
	       (unsigned long long)r.resent, (unsigned long long)r.timeouts);
	return r.failed || r.unmatched;
}

static int print_table(const struct run *base)
{
	static const struct {
		const char *cc;
		uint32_t ecn;
	} senders[] = {{"westwood", 1}, {"westwood", 0}, {"newreno", 1}, {"newreno", 0}};
	int failed = 0;

	print_head();
	for (size_t i = 0; i < COUNT(senders); i++) {
		struct run run = *base;

		run.load.cc = senders[i].cc;
		run.ecn = senders[i].ecn;
		failed += print_row(&run);
	}
	return failed != 0;
}

static bool parse_name(struct run *run, const char *name, const char *value)
{
	if (!strcmp(name, "cc") || !strcmp(name, "other-cc")) {
		*(name[0] == 'c' ? &run->load.cc : &run->load.other_cc) = value;
		return cc_find(value) != NULL;
	}
	if (strcmp(name, "pattern") != 0)
		return false;
	for (int i = 0; i < LOAD_PATTERN_COUNT; i++) {
		run->load.pattern = (enum load_pattern)i;
		if (!strcmp(load_pattern_name(run->load.pattern), value))
			return true;
	}
	return false;
}

/* Parses NAME=VALUE, and ends the name. */
static bool parse_option(struct run *run, char *argument)
{
	char *value = strchr(argument, '='), *end;

	if (!value)
		return false;
	*value++ = '\0';
	for (size_t i = 0; i < COUNT(options); i++) {
		uint32_t *to = (uint32_t *)(void *)((char *)run + options[i].offset);

		if (strcmp(options[i].name, argument) != 0)
			continue;
		*to = (uint32_t)strtoul(value, &end, 0);
		return end != value && !*end;
	}
	return parse_name(run, argument, value);
}

static int run_command(const char *command, char **arguments, int count)
{
	struct run run = run_default;

	for (int i = 0; i < count; i++) {
		if (!parse_option(&run, arguments[i])) {
			fprintf(stderr, "invalid argument '%s'\n", arguments[i]);
			return 2;
		}
	}
	if (!strcmp(command, "--table"))
		return print_table(&run);
	print_head();
	return print_row(&run);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim_fabric_incast_shares_receiver_fairly),
		cmocka_unit_test(sim_fabric_incast_of_64_completes_all_messages),
		cmocka_unit_test(sim_fabric_incast_of_64_with_long_packets_loses_none),
		cmocka_unit_test(sim_fabric_permutation_fills_network),
		cmocka_unit_test(sim_fabric_all_to_all_completes_all_messages),
		cmocka_unit_test(sim_fabric_newreno_with_ecn_gets_fair_share),
		cmocka_unit_test(sim_fabric_same_seed_repeats_run),
		cmocka_unit_test(sim_fabric_next_qp_works_after_packets_for_destroyed_qp),
	};

	if (argc > 1 && (!strcmp(argv[1], "--run") || !strcmp(argv[1], "--table")))
		return run_command(argv[1], argv + 2, argc - 2);
	return cmocka_run_group_tests_name("sim-fabric", tests, NULL, NULL);
}
