/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "roce_run.h"
#include "rules.h"

/*
 * RC, UC, UD and XRC over a network with random faults, checked by the reference model.
 *
 *     test-sim-roce [first-seed [seeds [rules]]]
 *
 * Each seed is one run: several nodes, several connections between them, traffic in both
 * directions. A failure prints the seed; running that seed alone prints the details. `rules`
 * replaces the fault rules of the runs, such as
 * 'seed=7;packet:drop:p=0.01;packet.send:reorder=2:op=WRITE:p=0.1' (usrdma(7)).
 */
#define SEEDS_DEFAULT 1000

static const char *const scenario_names[SCENARIO_COUNT] = {
	"clean", "rough", "netem", "awful",	"narrow",  "fault",
	"cut",	 "pause", "reset", "reconnect", "restart",
};

/* Sums over all runs. */
struct totals {
	uint64_t counters[ROCE_COUNTER_COUNT];
	uint64_t restarts;
	uint64_t datagrams;
	uint64_t xrc; /* messages */
};

/* Of the command line, or NULL. */
static const char *given_rules;

static struct sim_faults faults_of(enum scenario scenario, uint64_t seed)
{
	static char text[RULES_BYTES];
	struct rules_rates rates = {0};
	struct sim_faults faults = {.delay_ns = 5000, .jitter_ns = 2000, .packet_ns = 300};

	switch (scenario) {
	case SCENARIO_CLEAN:
		faults.refuse = seed / 8 % 2 ? 500 : 0;
		break;
	case SCENARIO_NETEM:
		rates.drop = 300;
		rates.delay = 500;
		rates.duplicate = 100;
		faults.delay_ns = 1000000;
		break;
	case SCENARIO_AWFUL:
		rates.drop = 2000;
		rates.delay = 1000;
		rates.duplicate = 500;
		rates.corrupt = 200;
		faults.cut = seed % 3 ? 100 : 0;
		faults.delay_ns = 50000;
		faults.jitter_ns = 100000;
		break;
	case SCENARIO_NARROW:
		faults.refuse = 500;
		faults.packet_ns = 10000;
		faults.queue_ns = 300000;
		rates.mark = 100;
		break;
	default:
		rates.drop = (unsigned)(seed / 8 % 5) * 100;
		rates.delay = (unsigned)(seed / 16 % 4) * 200;
		rates.duplicate = (unsigned)(seed / 32 % 3) * 200;
		rates.corrupt = (unsigned)(seed / 64 % 2) * 100;
		faults.cut = seed % 3 ? (unsigned)(seed / 64 % 2) * 100 : 0;
		faults.refuse = (unsigned)(seed / 128 % 2) * 300;
		rates.mark = 50;
		break;
	}
	/*
	 * As with a socket: without the IP identification, only single bit errors are certain to be
	 * detected (wire/icrc.h).
	 */
	faults.hides_ip_id = seed % 3 == 0;
	rates.delay_us = 3 * faults.delay_ns / 2000;
	faults.rules = given_rules ? given_rules : rules_of_rates(text, seed, &rates);
	return faults;
}

static const char *opcode_name(const struct op *op)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_IMM",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CAS",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FADD",
		[IBV_WR_LOCAL_INV] = "LOCAL_INV",
		[IBV_WR_BIND_MW] = "BIND_MW",
		[IBV_WR_SEND_WITH_INV] = "SEND_INV",
	};

	return names[op->wr.opcode];
}

static void describe(const struct run *run, const struct flow *flow)
{
	printf("#   %s %06x -> %06x mtu %u, %u ops (posted %u, done %u), receives %u of %u, %s\n",
	       flow->is_rc ? "RC" : "UC", flow->qpn, flow->peer_qpn, flow->mtu_bytes,
	       flow->op_count, flow->posted, flow->completed, flow->recvs_done, flow->recv_total,
	       flow->wrong ? flow->wrong : "right");
	if (!flow->wrong)
		return;
	printf("#   fault %d, may fail %d, op %u, failed with %d\n", flow->fault, flow->may_fail,
	       flow->wrong_op, flow->has_failed ? (int)flow->failed_with : -1);
	for (unsigned i = 0; i < flow->op_count; i++)
		printf("#     %u %s %u bytes at %u flags %x\n", i, opcode_name(&flow->ops[i]),
		       flow->ops[i].length, flow->ops[i].target_offset, flow->ops[i].wr.send_flags);
	(void)run;
}

static bool run_seed(uint64_t seed, struct totals *totals)
{
	struct run *run = malloc(sizeof(*run));
	struct sim_faults faults;
	enum scenario scenario;
	bool is_right;

	if (!run)
		abort();
	scenario = (enum scenario)(seed % SCENARIO_COUNT);
	faults = faults_of(scenario, seed);
	run_open(run, scenario, seed, 2 + (int)(seed / SCENARIO_COUNT % 3), seed % 5 == 0, &faults);
	run_drive(run);
	is_right = run_check(run);
	if (!is_right) {
		printf("# seed %llu (%s) went wrong after %llu us:\n", (unsigned long long)seed,
		       scenario_names[run->scenario],
		       (unsigned long long)((run->world.now_ns - run->started_ns) / 1000));
		if (run->ud.wrong)
			printf("#   %s\n", run->ud.wrong);
		for (int i = 0; i < run->connection_count; i++) {
			describe(run, &run->connections[i].flows[0]);
			describe(run, &run->connections[i].flows[1]);
		}
	}
	for (int i = 0; i < run->world.node_count; i++) {
		for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
			totals->counters[c] += roce_of(&run->world.nodes[i].engine)->counters[c];
	}
	totals->restarts += run->restarts;
	totals->datagrams += run->ud.arrived;
	for (int i = 0; i < run->connection_count; i++) {
		if (run->connections[i].targets[0])
			totals->xrc += run->connections[i].flows[0].recvs_done;
	}
	run_close(run);
	free(run);
	return is_right;
}

/* Ensures that the runs covered the relevant faults. */
static bool is_thorough(const struct totals *totals)
{
	static const enum roce_counter wanted[] = {
		ROCE_PACKETS_RESENT,
		ROCE_BACK_PRESSURE,
		ROCE_TIMEOUTS,
		ROCE_DUPLICATES,
		ROCE_SENT_AHEAD,
		ROCE_RECEIVED_AHEAD,
		ROCE_SEQUENCE_NAKS_RECEIVED,
		ROCE_RNR_NAKS_RECEIVED,
		ROCE_CONGESTION_NOTICES,
		ROCE_QP_ERRORS,
		ROCE_DROPPED_UNPARSABLE,
		ROCE_DROPPED_UNKNOWN_QPN,
		ROCE_DROPPED_QP_STATE,
		ROCE_DROPPED_RESPONSE,
		ROCE_DROPPED_QKEY,
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!totals->counters[wanted[i]])
			return false;
	}
	return totals->restarts && totals->datagrams && totals->xrc;
}

/*
 * Losses at the start of a connection must not make the retransmission timeout longer than the ACK
 * timeout.
 */
static const uint64_t early_loss_seeds[] = {5018423, 80008976};

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : SEEDS_DEFAULT;
	struct totals totals = {0};
	uint64_t wrong = 0;
	bool is_right;

	given_rules = argc > 3 ? argv[3] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t seed = first; seed < first + seeds; seed++)
		wrong += !run_seed(seed, &totals);
	for (size_t i = 0; argc == 1 && i < COUNT(early_loss_seeds); i++)
		wrong += !run_seed(early_loss_seeds[i], &totals);
	for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
		printf("# %s: %llu\n", roce_counter_name((enum roce_counter)c),
		       (unsigned long long)totals.counters[c]);
	printf("# connections started again: %llu\n# datagrams arrived: %llu\n# messages by xrc: %llu\n",
	       (unsigned long long)totals.restarts, (unsigned long long)totals.datagrams,
	       (unsigned long long)totals.xrc);
	is_right = !wrong && (seeds < SEEDS_DEFAULT || given_rules || is_thorough(&totals));
	printf("%sok 1 - %llu seeds from %llu, %llu wrong\n1..1\n", is_right ? "" : "not ",
	       (unsigned long long)seeds, (unsigned long long)first, (unsigned long long)wrong);
	return !is_right;
}
