/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../with_locks.h"
#include "core/qp/xrc.h"
#include "core/qp/xrc_forward.h"
#include "road.h"
#include "rules.h"
#include "xrc_line.h"

/*
 * XRC to processes of one host over a network with random faults: some processes have target QPs,
 * all have SRQs, and messages go to all SRQs. Checked by the model of xrc_line.h.
 *
 *     test-sim-xrc [first-seed [seeds [rules]]]
 */
#define SEEDS_DEFAULT 600
#define NODES	      4
#define DOMAIN_ID     77u
/* Limit of virtual time. */
#define RUN_MAX_NS UINT64_C(600000000000)
#define STEPS_MAX  10000000
/* As in strike.c: PSNs of two connections with the same QPNs are far apart. */
#define PSN_DISTANCE (1u << 20)

enum scenario {
	SCENARIO_CLEAN,
	SCENARIO_ROUGH,	 /* all faults at low rates */
	SCENARIO_NETEM,	 /* 3 % lost, 5 % reordered, 1 % duplicated, delay 1 ms */
	SCENARIO_AWFUL,	 /* 20 % lost, more corrupted */
	SCENARIO_NARROW, /* little capacity in the network and between the processes */
	SCENARIO_FAULT,	 /* an operation that must fail */
	SCENARIO_STOP,	 /* a process is not scheduled for a while */
	SCENARIO_KILL,	 /* a process terminates */
	/* a queue pair is reset and connected again while messages are outstanding */
	SCENARIO_RECONNECT,
	SCENARIO_COUNT
};

static const char *const scenario_names[SCENARIO_COUNT] = {
	"clean", "rough", "netem", "awful", "narrow", "fault", "stop", "kill", "reconnect",
};

struct run {
	struct world world;
	enum scenario scenario;
	uint32_t min_bytes;
	bool loses; /* the network loses or reorders packets, also responses */
	int line_count;
	struct line lines[LINES_MAX];
	struct line_pool pools[NODES];
	const char *wrong;
	uint64_t strike_ns; /* 0: never, or done */
	int victim;	    /* node */
	int dead;	    /* node, or 0 */
	uint64_t started_ns;
};

struct totals {
	uint64_t counters[ROCE_COUNTER_COUNT];
	uint64_t receives;
	uint64_t full;
	uint64_t failed;
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
		rates.drop = (unsigned)(seed / 16 % 5) * 100;
		rates.delay = (unsigned)(seed / 32 % 4) * 200;
		rates.duplicate = (unsigned)(seed / 64 % 3) * 200;
		faults.refuse = (unsigned)(seed / 128 % 2) * 300;
		rates.mark = 50;
		break;
	}
	rates.delay_us = 3 * faults.delay_ns / 2000;
	faults.rules = given_rules ? given_rules : rules_of_rates(text, seed, &rates);
	return faults;
}

static uint64_t below(struct run *run, uint64_t n)
{
	return world_below(&run->world, n);
}

static struct world_qp_attr some_attr(struct run *run)
{
	struct world_qp_attr attr = {
		.mtu = IBV_MTU_256 + (enum ibv_mtu)below(run, 5),
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = (uint8_t)(1 + below(run, 12)),
		.rd_atomic = (uint8_t)(1 + below(run, 4)),
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC,
		.max_wr = 4u << below(run, 4),
	};

	/* For half of the connections the PSN wraps around soon. */
	attr.psns[0] = (uint32_t)(below(run, 2) ? 0xfffff0 + below(run, 16) : below(run, 1 << 24));
	return attr;
}

/* Connects both queue pairs, which are in RESET, and chooses the operations. */
static void begin(struct run *run, struct line *line, enum line_fault fault)
{
	const struct world_node *home = &run->world.nodes[line->home];

	line->recv_qpn = line->recv_qp->qp_num;
	line->fault = fault;
	world_connect_to(line->qp, home->gid, line->recv_qpn, 0, line->attr.psns[0], &line->attr);
	world_connect_to(line->recv_qp, run->world.nodes[0].gid, line->qp->qp_num,
			 line->attr.psns[0], 0, &line->attr);
	line_open(line, 1 + (unsigned)below(run, LINE_OPS_MAX), run->min_bytes);
	for (unsigned i = 0; i < line->op_count; i++)
		run->pools[line->ops[i].owner].total += line->ops[i].takes_recv;
}

static struct line *line_new(struct run *run)
{
	struct line *line = &run->lines[run->line_count];

	if (run->line_count == LINES_MAX)
		abort();
	line->world = &run->world;
	line->index = run->line_count++;
	return line;
}

static void connect_one(struct run *run)
{
	struct line *line = line_new(run);
	enum line_fault fault = LINE_RIGHT;

	line->home = OWNERS_FIRST + (int)below(run, NODES - OWNERS_FIRST);
	line->attr = some_attr(run);
	line->attr.type = IBV_QPT_XRC_SEND;
	line->qp = world_create_qp(&run->world.nodes[0], &line->attr);
	line->attr.type = IBV_QPT_XRC_RECV;
	line->recv_qp = world_create_qp(&run->world.nodes[line->home], &line->attr);
	if (run->scenario == SCENARIO_FAULT)
		fault = (enum line_fault)(1 + below(run, LINE_FAULTS - 1));
	begin(run, line, fault);
}

static void share_host(struct run *run)
{
	for (int i = OWNERS_FIRST; i < NODES; i++) {
		struct world_node *node = &run->world.nodes[i];

		to_xrcd(node->xrcd)->domain->id = DOMAIN_ID;
		run->pools[i].total = LINE_SPARE_RECVS;
	}
}

static void run_open(struct run *run, enum scenario scenario, uint64_t seed)
{
	struct sim_faults faults = faults_of(scenario, seed);
	unsigned room;

	memset(run, 0, sizeof(*run));
	run->scenario = scenario;
	run->loses = rules_have(faults.rules, "drop") || rules_have(faults.rules, "delay") ||
		     rules_have(faults.rules, "reorder");
	world_open(&run->world, seed, NODES, seed % 5 == 0, LINE_NODE_BYTES, &faults);
	world_share_host(&run->world, OWNERS_FIRST);
	share_host(run);
	room = scenario == SCENARIO_NARROW || !below(run, 3) ? 1 + (unsigned)below(run, 4) : 256;
	road_open(&run->world, OWNERS_FIRST, room, below(run, 2) ? 200 : 20000);
	/*
	 * Messages need at least 8 bytes, so that those of the first connection differ from those
	 * of the second one.
	 */
	run->min_bytes = scenario == SCENARIO_RECONNECT ? 8 : 0;
	for (int count = 1 + (int)below(run, LINES_FIRST); count; count--)
		connect_one(run);
	run->started_ns = run->world.now_ns;
	run->victim = OWNERS_FIRST + (int)below(run, NODES - OWNERS_FIRST);
	if (scenario >= SCENARIO_STOP)
		run->strike_ns = run->world.now_ns + 1 + below(run, 3000000);
}

static void run_close(struct run *run)
{
	for (int i = 0; i < run->line_count; i++) {
		struct line *line = &run->lines[i];

		if (!line->is_abandoned &&
		    (ibv_destroy_qp(line->qp) || ibv_destroy_qp(line->recv_qp)))
			abort();
		line_close(line);
	}
	for (int i = OWNERS_FIRST; i < NODES; i++) {
		struct xrc_domain *domain = to_xrcd(run->world.nodes[i].xrcd)->domain;

		WITH_LOCKS(&run->world.nodes[i].engine,
			   xrc_forward_domain_closed(&run->world.nodes[i].engine, domain));
		/* No daemon is to be notified. */
		domain->id = 0;
	}
	road_close(&run->world);
	world_close(&run->world);
}

static bool post_recvs(struct run *run, int index, unsigned max)
{
	struct world_node *node = &run->world.nodes[index];
	struct line_pool *pool = &run->pools[index];
	bool has_posted = false;

	while (max-- && pool->posted < pool->total) {
		struct ibv_sge sge = {(uintptr_t)line_recv_slot(node, pool->posted), LINE_OP_BYTES,
				      node->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = pool->posted, .sg_list = &sge, .num_sge = 1};
		struct ibv_recv_wr *bad;

		if (ibv_post_srq_recv(node->xrc_srq, &wr, &bad))
			break;
		pool->posted++;
		has_posted = true;
	}
	return has_posted;
}

static bool act(struct run *run, bool is_eager)
{
	bool has_acted = false;

	for (int i = 0; i < run->line_count; i++) {
		if (is_eager || !below(run, 8))
			has_acted |= line_post(&run->lines[i], 1 + (unsigned)below(run, 6));
	}
	for (int i = OWNERS_FIRST; i < NODES; i++) {
		if (i != run->dead && run->world.nodes[i].stalled_until_ns <= run->world.now_ns &&
		    (is_eager || !below(run, 12)))
			has_acted |= post_recvs(run, i, 1 + (unsigned)below(run, 6));
	}
	return has_acted;
}

/* Messages of a queue pair's first connection may still be executed during its second one. */
static void take_recv(struct run *run, int node, const struct ibv_wc *wc)
{
	struct line_pool *pool = &run->pools[node];
	bool may_be_lost = false;

	if (wc->wr_id >= pool->posted || pool->is_done[wc->wr_id]) {
		run->wrong = "a receive completed twice, or was not posted";
		return;
	}
	pool->is_done[wc->wr_id] = true;
	for (int i = 0; i < run->line_count; i++) {
		struct line *line = &run->lines[i];

		if (line->recv_qpn != wc->qp_num)
			continue;
		may_be_lost |= line->is_abandoned || line->may_fail;
		if (wc->status == IBV_WC_SUCCESS && line_received(line, node, wc))
			return;
	}
	if (wc->status == IBV_WC_SUCCESS)
		run->wrong = "a message arrived that was not the next";
	else if (!may_be_lost)
		run->wrong = "a receive failed";
}

static struct line *sender(struct run *run, uint32_t qpn)
{
	for (int i = run->line_count - 1; i >= 0; i--) {
		if (run->lines[i].qp->qp_num == qpn)
			return &run->lines[i];
	}
	abort();
}

static void collect(struct run *run)
{
	struct ibv_wc wc;

	while (world_poll(run->world.nodes[0].send_cq, &wc))
		line_sent(sender(run, wc.qp_num), &wc);
	for (int i = OWNERS_FIRST; i < NODES; i++) {
		while (i != run->dead && world_poll(run->world.nodes[i].recv_cq, &wc))
			take_recv(run, i, &wc);
	}
}

static void kill_one(struct run *run)
{
	int node = run->victim;

	world_kill(&run->world.nodes[node]);
	run->world.nodes[node].stalled_until_ns = TIMER_NEVER_NS;
	road_bury(&run->world, node);
	run->dead = node;
	for (int i = 0; i < run->line_count; i++)
		run->lines[i].may_fail |= line_touches(&run->lines[i], node);
}

static void reconnect_one(struct run *run)
{
	struct line *old = &run->lines[below(run, (uint64_t)run->line_count)];
	struct line *line = line_new(run);

	world_reset_qp(old->qp);
	world_reset_qp(old->recv_qp);
	old->is_abandoned = true;
	line->home = old->home;
	line->attr = old->attr;
	line->qp = old->qp;
	line->recv_qp = old->recv_qp;
	line->attr.psns[0] = (old->attr.psns[0] + PSN_DISTANCE +
			      (uint32_t)below(run, (1u << 24) - 2 * PSN_DISTANCE)) &
			     0xffffff;
	begin(run, line, LINE_RIGHT);
}

/*
 * Maximum time for which a process can be stopped without an error. A stopped SRQ owner is waited
 * for indefinitely. The retries limit the time for the process of the target QP, and for an owner
 * whose response was lost after it was sent.
 */
static uint64_t stop_max_ns(const struct run *run)
{
	for (int i = 0; i < run->line_count; i++) {
		if (run->lines[i].home == run->victim ||
		    (run->loses && line_reads(&run->lines[i], run->victim)))
			return 200000000;
	}
	return 20000000000;
}

static void strike(struct run *run)
{
	if (!run->strike_ns || run->world.now_ns < run->strike_ns)
		return;
	run->strike_ns = 0;
	collect(run);
	if (run->scenario == SCENARIO_STOP)
		run->world.nodes[run->victim].stalled_until_ns = run->world.now_ns + 1 +
								 below(run, stop_max_ns(run));
	else if (run->scenario == SCENARIO_KILL)
		kill_one(run);
	else
		reconnect_one(run);
}

static bool is_wrong(const struct run *run)
{
	for (int i = 0; i < run->line_count; i++) {
		if (run->lines[i].wrong)
			return true;
	}
	return run->wrong;
}

static void drive(struct run *run)
{
	struct world *world = &run->world;

	for (int steps = 0; steps < STEPS_MAX && !is_wrong(run); steps++) {
		bool has_moved;

		act(run, false);
		has_moved = world_step(world);
		strike(run);
		collect(run);
		if (world->now_ns - run->started_ns > RUN_MAX_NS)
			return;
		if (!has_moved && !act(run, true))
			return;
	}
}

static void describe(const struct line *line)
{
	printf("#   line %d: home %d, qpn %06x, mtu %u, %u ops (posted %u, done %u), may fail %d: %s\n",
	       line->index, line->home, line->recv_qpn, 128u << line->attr.mtu, line->op_count,
	       line->posted, line->completed, line->may_fail, line->wrong ? line->wrong : "right");
	if (!line->wrong)
		return;
	printf("#   op %u, fault %d\n", line->wrong_op, line->fault);
	for (unsigned i = 0; i < line->op_count; i++)
		printf("#     %u: opcode %d to node %d, %u bytes at %u\n", i,
		       line->ops[i].wr.opcode, line->ops[i].owner, line->ops[i].sge.length,
		       line->ops[i].target_offset);
}

static void count(const struct run *run, struct totals *totals)
{
	for (int i = 0; i < NODES; i++) {
		for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
			totals->counters[c] += roce_of(&run->world.nodes[i].engine)->counters[c];
		for (unsigned r = 0; r < run->pools[i].posted; r++)
			totals->receives += run->pools[i].is_done[r];
	}
	for (int i = 0; i < run->line_count; i++)
		totals->failed += run->lines[i].has_failed;
	totals->full += road_full(&run->world);
}

static bool run_seed(uint64_t seed, struct totals *totals)
{
	struct run *run = malloc(sizeof(*run));
	bool is_right;

	if (!run)
		abort();
	run_open(run, (enum scenario)(seed % SCENARIO_COUNT), seed);
	drive(run);
	for (int i = 0; i < run->line_count; i++)
		line_check_end(&run->lines[i]);
	is_right = !is_wrong(run);
	if (!is_right) {
		printf("# seed %llu (%s, victim %d) went wrong after %llu us: %s\n",
		       (unsigned long long)seed, scenario_names[run->scenario], run->victim,
		       (unsigned long long)((run->world.now_ns - run->started_ns) / 1000),
		       run->wrong ? run->wrong : "");
		for (int i = 0; i < run->line_count; i++)
			describe(&run->lines[i]);
	}
	count(run, totals);
	run_close(run);
	free(run);
	return is_right;
}

/* Ensures that the runs covered the relevant faults. */
static bool is_thorough(const struct totals *totals)
{
	static const enum roce_counter wanted[] = {
		ROCE_PACKETS_RESENT,
		ROCE_TIMEOUTS,
		ROCE_DUPLICATES,
		ROCE_OUT_OF_ORDER,
		ROCE_SEQUENCE_NAKS_RECEIVED,
		ROCE_RNR_NAKS_RECEIVED,
		ROCE_QP_ERRORS,
		ROCE_XRC_FORWARDED,
		ROCE_XRC_RECEIVED,
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!totals->counters[wanted[i]])
			return false;
	}
	return totals->receives && totals->full && totals->failed;
}

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
	for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
		printf("# %s: %llu\n", roce_counter_name((enum roce_counter)c),
		       (unsigned long long)totals.counters[c]);
	printf("# receives: %llu\n# words without room: %llu\n# lines that failed: %llu\n",
	       (unsigned long long)totals.receives, (unsigned long long)totals.full,
	       (unsigned long long)totals.failed);
	is_right = !wrong && (seeds < SEEDS_DEFAULT || given_rules || is_thorough(&totals));
	printf("%sok 1 - %llu seeds from %llu, %llu wrong\n1..1\n", is_right ? "" : "not ",
	       (unsigned long long)seeds, (unsigned long long)first, (unsigned long long)wrong);
	return !is_right;
}
