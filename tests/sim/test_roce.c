/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/*
 * RC and UC over a network that is as bad as a seed makes it, held against the reference model.
 *
 *     test-sim-roce [first-seed [seeds]]
 *
 * Each seed is one run: some nodes, some connections between them, both directions busy. A failure prints the seed, which
 * given alone tells what happened.
 */
#define SEEDS_DEFAULT	400
#define CONNECTIONS_MAX 3

/* Virtual. Long enough for the worst network, short enough that a queue pair that is stuck shows. */
#define PATIENCE_NS UINT64_C(600000000000)
#define STEPS_MAX   20000000

enum scenario {
	SCENARIO_CLEAN,	 /* nothing happens to any datagram */
	SCENARIO_ROUGH,	 /* a little of everything */
	SCENARIO_NETEM,	 /* 3 % lost, 5 % reordered, 1 % twice, 1 ms */
	SCENARIO_AWFUL,	 /* a fifth is lost, more is damaged */
	SCENARIO_NARROW, /* a queue that overflows, a socket that fills */
	SCENARIO_FAULT,	 /* an operation that must fail, on a rough network */
	SCENARIO_CUT,	 /* a node's link goes dead for good */
	SCENARIO_PAUSE,	 /* … or for a while */
	SCENARIO_RESET,	 /* a queue pair forgets everything, as if its process had died */
	SCENARIO_COUNT
};

static const char *const scenario_names[SCENARIO_COUNT] = {
	"clean", "rough", "netem", "awful", "narrow", "fault", "cut", "pause", "reset",
};

struct connection {
	struct flow flows[2];
	struct ibv_qp *qps[2];
};

struct run {
	struct world world;
	enum scenario scenario;
	int connection_count;
	struct connection connections[CONNECTIONS_MAX];
	uint64_t cut_ns;  /* 0: never */
	uint64_t heal_ns; /* 0: never */
	int cut_node;
	uint64_t started_ns;
};

static struct sim_faults faults_of(enum scenario scenario, uint64_t seed)
{
	struct sim_faults faults = {.delay_ns = 5000, .jitter_ns = 2000, .packet_ns = 300};

	switch (scenario) {
	case SCENARIO_CLEAN:
		faults.refuse = seed / 8 % 2 ? 500 : 0;
		break;
	case SCENARIO_NETEM:
		faults.lose = 300;
		faults.reorder = 500;
		faults.repeat = 100;
		faults.delay_ns = 1000000;
		break;
	case SCENARIO_AWFUL:
		faults.lose = 2000;
		faults.reorder = 1000;
		faults.repeat = 500;
		faults.flip = 200;
		faults.cut = seed % 3 ? 100 : 0;
		faults.delay_ns = 50000;
		faults.jitter_ns = 100000;
		break;
	case SCENARIO_NARROW:
		faults.refuse = 500;
		faults.packet_ns = 10000;
		faults.queue_ns = 300000;
		faults.mark = 100;
		break;
	default:
		faults.lose = (unsigned)(seed / 8 % 5) * 100;
		faults.reorder = (unsigned)(seed / 16 % 4) * 200;
		faults.repeat = (unsigned)(seed / 32 % 3) * 200;
		faults.flip = (unsigned)(seed / 64 % 2) * 100;
		faults.cut = seed % 3 ? (unsigned)(seed / 64 % 2) * 100 : 0;
		faults.refuse = (unsigned)(seed / 128 % 2) * 300;
		faults.mark = 50;
		break;
	}
	/* As a socket: then only single wrong bits are sure to be found (wire/icrc.h). */
	faults.hides_ip_id = seed % 3 == 0;
	return faults;
}

static void flow_set_up(struct run *run, struct flow *flow, struct world_node *from,
			struct world_node *to, int index, int side)
{
	size_t base = (size_t)(2 * index + side) * 2 * FLOW_SIDE_BYTES;

	flow->world = &run->world;
	flow->from = from;
	flow->to = to;
	flow->from_base = base;
	/* Where it ends, the flow has the two parts behind those of all that begin there. */
	flow->recv_base = (size_t)CONNECTIONS_MAX * 4 * FLOW_SIDE_BYTES + base;
	flow->target_base = flow->recv_base + FLOW_SIDE_BYTES;
	flow->qp = run->connections[index].qps[side];
	flow->peer_qp = run->connections[index].qps[!side];
}

#define NODE_BYTES ((size_t)CONNECTIONS_MAX * 8 * FLOW_SIDE_BYTES)

static void connect_one(struct run *run, int index)
{
	struct connection *connection = &run->connections[index];
	struct world *world = &run->world;
	int a = (int)world_below(world, (uint64_t)world->node_count);
	int b = (a + 1 + (int)world_below(world, (uint64_t)world->node_count - 1)) %
		world->node_count;
	struct world_node *nodes[2] = {&world->nodes[a], &world->nodes[b]};
	bool is_rc = run->scenario == SCENARIO_FAULT || world_below(world, 4);
	struct world_qp_attr attr = {
		.type = is_rc ? IBV_QPT_RC : IBV_QPT_UC,
		.mtu = IBV_MTU_256 + (enum ibv_mtu)world_below(world, 5),
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = (uint8_t)(1 + world_below(world, 12)),
		.rd_atomic = (uint8_t)(1 + world_below(world, 4)),
		.access = IBV_ACCESS_REMOTE_WRITE,
		.max_wr = 4u << world_below(world, 4),
	};
	enum flow_fault fault = FAULT_NONE;
	unsigned fault_side = (unsigned)world_below(world, 2);

	if (is_rc)
		attr.access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	/* Half of them wrap round soon. */
	for (int i = 0; i < 2; i++)
		attr.psns[i] = (uint32_t)(world_below(world, 2) ?
						  0xfffff0 + world_below(world, 16) :
						  world_below(world, 1 << 24));
	if (run->scenario == SCENARIO_FAULT)
		fault = (enum flow_fault)(1 + world_below(world, FAULT_COUNT - 1));
	if (fault == FAULT_NO_RECV)
		attr.rnr_retry = 3;
	if (run->scenario == SCENARIO_CLEAN)
		attr.max_wr = FLOW_OPS_MAX;
	for (int side = 0; side < 2; side++)
		connection->qps[side] = world_create_qp(nodes[side], &attr);
	world_connect(nodes[0], connection->qps[0], nodes[1], connection->qps[1], &attr);
	for (int side = 0; side < 2; side++) {
		struct flow *flow = &connection->flows[side];

		flow_set_up(run, flow, nodes[side], nodes[!side], index, side);
		flow->mtu_bytes = 128u << attr.mtu;
		flow->is_rc = is_rc;
		flow->fault = (unsigned)side == fault_side ? fault : FAULT_NONE;
		flow->may_fail = run->scenario == SCENARIO_CUT ||
				 (run->scenario == SCENARIO_RESET && !index) ||
				 (fault != FAULT_NONE && flow->fault == FAULT_NONE);
		flow->is_lossless = run->scenario == SCENARIO_CLEAN;
		flow_open(flow, 1 + (unsigned)world_below(world, FLOW_OPS_MAX));
		/* One failing for want of a receive must be the one that is meant to; and UC does not wait for one. */
		if (fault == FAULT_NO_RECV || (flow->is_lossless && !is_rc))
			flow_post_recvs(flow, FLOW_OPS_MAX);
	}
}

static void run_open(struct run *run, uint64_t seed)
{
	struct sim_faults faults;
	uint64_t horizon_ns;

	memset(run, 0, sizeof(*run));
	run->scenario = (enum scenario)(seed % SCENARIO_COUNT);
	faults = faults_of(run->scenario, seed);
	world_open(&run->world, seed, 2 + (int)(seed / SCENARIO_COUNT % 3), seed % 5 == 0,
		   NODE_BYTES, &faults);
	world_random(&run->world);
	run->connection_count = 1 + (int)world_below(&run->world, CONNECTIONS_MAX);
	for (int i = 0; i < run->connection_count; i++)
		connect_one(run, i);
	run->started_ns = run->world.now_ns;
	horizon_ns = run->world.now_ns + 1 + world_below(&run->world, 2000000);
	run->cut_node = (int)world_below(&run->world, (uint64_t)run->world.node_count);
	if (run->scenario == SCENARIO_CUT || run->scenario == SCENARIO_PAUSE ||
	    run->scenario == SCENARIO_RESET)
		run->cut_ns = horizon_ns;
	/* Less than the retries of a queue pair take. */
	if (run->scenario == SCENARIO_PAUSE)
		run->heal_ns = horizon_ns + 1 + world_below(&run->world, 200000000);
}

static void run_close(struct run *run)
{
	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++) {
			ibv_destroy_qp(run->connections[i].qps[side]);
			flow_close(&run->connections[i].flows[side]);
		}
	}
	world_close(&run->world);
}

static struct flow *flow_from(struct run *run, uint32_t qpn, bool is_send)
{
	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++) {
			struct flow *flow = &run->connections[i].flows[side];

			if ((is_send ? flow->qp : flow->peer_qp)->qp_num == qpn)
				return flow;
		}
	}
	fprintf(stderr, "a completion of no queue pair: %06x\n", qpn);
	abort();
}

static bool collect(struct run *run)
{
	bool has_got = false;
	struct ibv_wc wc;

	for (int i = 0; i < run->world.node_count; i++) {
		struct world_node *node = &run->world.nodes[i];

		while (world_poll(node->send_cq, &wc)) {
			flow_send_done(flow_from(run, wc.qp_num, true), &wc);
			has_got = true;
		}
		while (world_poll(node->recv_cq, &wc)) {
			flow_recv_done(flow_from(run, wc.qp_num, false), &wc);
			has_got = true;
		}
	}
	return has_got;
}

/* The applications do something now and then; is_eager: all that they can. */
static bool act(struct run *run, bool is_eager)
{
	bool has_acted = false;

	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++) {
			struct flow *flow = &run->connections[i].flows[side];

			if (is_eager || !world_below(&run->world, 8))
				has_acted |= flow_post_sends(
					flow, 1 + (unsigned)world_below(&run->world, 6));
			if (is_eager || !world_below(&run->world, 8))
				has_acted |= flow_post_recvs(
					flow, 1 + (unsigned)world_below(&run->world, 6));
		}
	}
	return has_acted;
}

/* Its peer is not told, and has to find out. */
static void forget_first(struct run *run)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct connection *connection = &run->connections[0];

	collect(run);
	if (ibv_modify_qp(connection->qps[0], &attr, IBV_QP_STATE))
		abort();
	connection->flows[0].is_abandoned = true;
}

static void cut_and_heal(struct run *run)
{
	struct link *link = run->world.nodes[run->cut_node].link;

	if (run->cut_ns && run->world.now_ns >= run->cut_ns) {
		if (run->scenario == SCENARIO_RESET)
			forget_first(run);
		else
			sim_link_cut(link, true);
		run->cut_ns = 0;
	}
	if (run->heal_ns && !run->cut_ns && run->world.now_ns >= run->heal_ns) {
		sim_link_cut(link, false);
		run->heal_ns = 0;
	}
}

static bool is_over(const struct run *run)
{
	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++) {
			if (!flow_is_over(&run->connections[i].flows[side]))
				return false;
		}
	}
	return true;
}

static bool is_wrong(const struct run *run)
{
	for (int i = 0; i < run->connection_count; i++) {
		if (run->connections[i].flows[0].wrong || run->connections[i].flows[1].wrong)
			return true;
	}
	return false;
}

static void drive(struct run *run)
{
	struct world *world = &run->world;

	for (int steps = 0; steps < STEPS_MAX && !is_wrong(run); steps++) {
		bool has_moved;

		act(run, false);
		has_moved = world_step(world);
		cut_and_heal(run);
		collect(run);
		if (world->now_ns - run->started_ns > PATIENCE_NS)
			return;
		if (!has_moved && !act(run, true))
			return;
		if (is_over(run) && !has_moved)
			return;
	}
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
		[IBV_WR_LOCAL_INV] = "?",
		[IBV_WR_BIND_MW] = "?",
		[IBV_WR_SEND_WITH_INV] = "SEND_INV",
	};

	return names[op->wr.opcode];
}

static void describe(const struct run *run, const struct flow *flow)
{
	printf("#   %s %06x -> %06x mtu %u, %u ops (posted %u, done %u), receives %u of %u, %s\n",
	       flow->is_rc ? "RC" : "UC", flow->qp->qp_num, flow->peer_qp->qp_num, flow->mtu_bytes,
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

static bool run_seed(uint64_t seed, uint64_t *counters)
{
	struct run *run = malloc(sizeof(*run));
	bool is_right;

	if (!run)
		abort();
	run_open(run, seed);
	drive(run);
	for (int i = 0; i < run->connection_count; i++) {
		flow_check_end(&run->connections[i].flows[0]);
		flow_check_end(&run->connections[i].flows[1]);
	}
	is_right = !is_wrong(run);
	if (!is_right) {
		printf("# seed %llu (%s) went wrong after %llu us:\n", (unsigned long long)seed,
		       scenario_names[run->scenario],
		       (unsigned long long)((run->world.now_ns - run->started_ns) / 1000));
		for (int i = 0; i < run->connection_count; i++) {
			describe(run, &run->connections[i].flows[0]);
			describe(run, &run->connections[i].flows[1]);
		}
	}
	for (int i = 0; i < run->world.node_count; i++) {
		for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
			counters[c] += run->world.nodes[i].engine.roce->counters[c];
	}
	run_close(run);
	free(run);
	return is_right;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : SEEDS_DEFAULT;
	uint64_t counters[ROCE_COUNTER_COUNT] = {0};
	uint64_t wrong = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t seed = first; seed < first + seeds; seed++)
		wrong += !run_seed(seed, counters);
	for (int c = 0; c < ROCE_COUNTER_COUNT; c++)
		printf("# %s: %llu\n", roce_counter_name((enum roce_counter)c),
		       (unsigned long long)counters[c]);
	printf("%sok 1 - %llu seeds from %llu, %llu wrong\n1..1\n", wrong ? "not " : "",
	       (unsigned long long)seeds, (unsigned long long)first, (unsigned long long)wrong);
	return wrong != 0;
}
