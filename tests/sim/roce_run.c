/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce_run.h"
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Limit of virtual time: enough for the worst network, and short enough to detect a queue pair that
 * makes no progress.
 */
#define RUN_MAX_NS UINT64_C(600000000000)
#define STEPS_MAX  20000000

/*
 * Layout of a node's memory: for each connection that starts or ends there, then the SRQs'
 * receives, then UD.
 */
#define POOL_BASE  ((size_t)CONNECTIONS_MAX * 8 * FLOW_SIDE_BYTES)
#define POOL_BYTES ((size_t)POOL_RECVS_MAX * FLOW_OP_BYTES)
#define UD_BASE	   (POOL_BASE + 2 * POOL_BYTES)
#define NODE_BYTES (UD_BASE + UD_NODE_BYTES)

static void set_up(struct run *run, struct flow *flow, int index, int side)
{
	const struct connection *connection = &run->connections[index];
	size_t base = (size_t)(2 * index + side) * 2 * FLOW_SIDE_BYTES;
	struct world_node *to = connection->nodes[!side];

	memset(flow, 0, sizeof(*flow));
	flow->world = &run->world;
	flow->from = connection->nodes[side];
	flow->to = to;
	flow->from_base = base;
	/* At the receiver, the flow has two parts behind those of all flows that start there. */
	flow->recv_base = (size_t)CONNECTIONS_MAX * 4 * FLOW_SIDE_BYTES + base;
	flow->target_base = flow->recv_base + FLOW_SIDE_BYTES;
	flow->qp = connection->qps[side];
	flow->peer_qp = connection->targets[!side] ? connection->targets[!side] :
						     connection->qps[!side];
	flow->qpn = flow->qp->qp_num;
	flow->peer_qpn = flow->peer_qp->qp_num;
	flow->mtu_bytes = 128u << connection->attr.mtu;
	flow->is_rc = connection->attr.type != IBV_QPT_UC;
	if (connection->targets[0])
		flow->pool = &run->xrc_pools[to - run->world.nodes];
	else if (connection->attr.has_srq)
		flow->pool = &run->pools[to - run->world.nodes];
}

/* Connects the send QP of each side to the target QP of the other side. */
static void connect_xrc(struct connection *connection)
{
	const struct world_qp_attr *attr = &connection->attr;

	for (int side = 0; side < 2; side++) {
		const uint8_t *gid = connection->nodes[!side]->gid;

		world_connect_to(connection->qps[side], gid, connection->targets[!side]->qp_num, 0,
				 attr->psns[side], attr);
		world_connect_to(connection->targets[side], gid, connection->qps[!side]->qp_num,
				 attr->psns[!side], 0, attr);
	}
}

void connection_begin(struct run *run, int index, enum flow_fault fault, unsigned fault_side)
{
	struct connection *connection = &run->connections[index];

	if (connection->targets[0])
		connect_xrc(connection);
	else
		world_connect(connection->nodes[0], connection->qps[0], connection->nodes[1],
			      connection->qps[1], &connection->attr);
	for (int side = 0; side < 2; side++) {
		struct flow *flow = &connection->flows[side];

		set_up(run, flow, index, side);
		flow->fault = (unsigned)side == fault_side ? fault : FAULT_NONE;
		flow->may_fail = run->scenario == SCENARIO_CUT ||
				 (run->scenario == SCENARIO_RESET && !index) ||
				 (fault != FAULT_NONE && flow->fault == FAULT_NONE);
		flow->is_lossless = run->scenario == SCENARIO_CLEAN;
		flow->has_lists = run->has_lists && connection->attr.type == IBV_QPT_RC;
		flow->has_lists_of_reads = flow->has_lists && (index + side) % 2;
		flow_open(flow, 1 + (unsigned)world_below(&run->world, FLOW_OPS_MAX));
		if (flow->pool)
			flow->pool->total += flow->recv_total;
		/*
		 * Posts all receives now: with FAULT_NO_RECV only the last op must find none, and
		 * UC drops a message that finds none.
		 */
		if (fault == FAULT_NO_RECV || (flow->is_lossless && !flow->is_rc))
			flow_post_recvs(flow, FLOW_OPS_MAX);
	}
}

static struct world_qp_attr some_attr(struct run *run, bool is_rc)
{
	struct world *world = &run->world;
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
		.has_srq = is_rc && run->has_srqs,
	};

	if (is_rc)
		attr.access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			       IBV_ACCESS_FLUSH_GLOBAL;
	/* For half of the connections the PSN wraps around soon. */
	for (int i = 0; i < 2; i++)
		attr.psns[i] = (uint32_t)(world_below(world, 2) ?
						  0xfffff0 + world_below(world, 16) :
						  world_below(world, 1 << 24));
	if (run->scenario == SCENARIO_CLEAN)
		attr.max_wr = FLOW_OPS_MAX;
	return attr;
}

static void create_qps(struct run *run, struct connection *connection)
{
	struct world_qp_attr target = connection->attr;
	bool is_xrc = connection->attr.type == IBV_QPT_RC && run->scenario != SCENARIO_FAULT &&
		      run->scenario < SCENARIO_RESET && !world_below(&run->world, 5);

	target.type = IBV_QPT_XRC_RECV;
	if (is_xrc) {
		connection->attr.type = IBV_QPT_XRC_SEND;
		connection->attr.has_srq = false;
	}
	for (int side = 0; side < 2; side++) {
		connection->qps[side] = world_create_qp(connection->nodes[side], &connection->attr);
		if (is_xrc)
			connection->targets[side] = world_create_qp(connection->nodes[side],
								    &target);
	}
}

static void connect_one(struct run *run, int index)
{
	struct connection *connection = &run->connections[index];
	struct world *world = &run->world;
	int a = (int)world_below(world, (uint64_t)world->node_count);
	int b = (a + 1 + (int)world_below(world, (uint64_t)world->node_count - 1)) %
		world->node_count;
	/*
	 * A UC queue pair accepts the first packet of any message for its QPN, also one of a
	 * previous connection. Scenarios that reuse QPNs therefore use RC only.
	 */
	bool is_rc = run->scenario == SCENARIO_FAULT || run->scenario >= SCENARIO_RECONNECT ||
		     world_below(world, 4);
	enum flow_fault fault = FAULT_NONE;

	connection->nodes[0] = &world->nodes[a];
	connection->nodes[1] = &world->nodes[b];
	connection->attr = some_attr(run, is_rc);
	if (run->scenario == SCENARIO_FAULT)
		fault = (enum flow_fault)(1 + world_below(world, FAULT_COUNT - 1));
	if (fault == FAULT_NO_RECV)
		connection->attr.rnr_retry = 3;
	create_qps(run, connection);
	connection_begin(run, index, fault, (unsigned)world_below(world, 2));
}

void run_open(struct run *run, enum scenario scenario, uint64_t seed, int node_count, bool is_ipv6,
	      const struct sim_faults *faults)
{
	uint64_t horizon_ns;

	memset(run, 0, sizeof(*run));
	run->scenario = scenario;
	world_open(&run->world, seed, node_count, is_ipv6, NODE_BYTES, faults);
	world_random(&run->world);
	for (int i = 0; i < node_count && seed % RUN_NEWRENO_SEEDS == 0; i++) {
		if (roce_set_cc(&run->world.nodes[i].engine, "newreno"))
			abort();
	}
	run->has_lists = seed % RUN_LISTS_SEEDS == 0;
	/* With an SRQ, the receive that will fail cannot be predicted. */
	run->has_srqs = scenario != SCENARIO_FAULT && !world_below(&run->world, 3);
	for (int i = 0; i < node_count; i++) {
		run->pools[i].node = &run->world.nodes[i];
		run->pools[i].base = POOL_BASE;
		/* A queue pair that is lost consumes the receive of the message in progress. */
		run->pools[i].total = CONNECTIONS_MAX;
		run->xrc_pools[i] = run->pools[i];
		run->xrc_pools[i].base += POOL_BYTES;
		run->xrc_pools[i].is_xrc = true;
	}
	run->connection_count = 1 + (int)world_below(&run->world, CONNECTIONS_FIRST);
	if (!world_below(&run->world, 3))
		ud_open(&run->ud, &run->world, UD_BASE);
	run->ud.may_repeat = rules_have(faults->rules, "duplicate");
	run->ud.is_lossless = scenario == SCENARIO_CLEAN && !faults->rules;
	for (int i = 0; i < run->connection_count; i++)
		connect_one(run, i);
	run->started_ns = run->world.now_ns;
	horizon_ns = run->world.now_ns + 1 + world_below(&run->world, 2000000);
	run->cut_node = (int)world_below(&run->world, (uint64_t)node_count);
	if (scenario >= SCENARIO_CUT)
		run->cut_ns = horizon_ns;
	/* Shorter than the time of all retries of a queue pair. */
	if (scenario == SCENARIO_PAUSE)
		run->heal_ns = horizon_ns + 1 + world_below(&run->world, 200000000);
}

void run_close(struct run *run)
{
	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++)
			flow_lose_windows(&run->connections[i].flows[side], NULL);
	}
	for (int i = 0; i < run->connection_count; i++) {
		for (int side = 0; side < 2; side++) {
			if (run->connections[i].qps[side])
				ibv_destroy_qp(run->connections[i].qps[side]);
			if (run->connections[i].targets[side])
				ibv_destroy_qp(run->connections[i].targets[side]);
			flow_close(&run->connections[i].flows[side]);
		}
	}
	ud_close(&run->ud);
	world_close(&run->world);
}

/* The latest flow with the QPN. */
static struct flow *flow_of(struct run *run, const struct world_node *node, uint32_t qpn,
			    bool is_send)
{
	for (int i = run->connection_count - 1; i >= 0; i--) {
		for (int side = 0; side < 2; side++) {
			struct flow *flow = &run->connections[i].flows[side];

			if ((is_send ? flow->from : flow->to) == node &&
			    (is_send ? flow->qpn : flow->peer_qpn) == qpn)
				return flow;
		}
	}
	fprintf(stderr, "a completion of no queue pair: %06x\n", qpn);
	abort();
}

bool run_collect(struct run *run)
{
	bool has_got = false;
	struct ibv_wc wc;

	for (int i = 0; i < run->world.node_count; i++) {
		struct world_node *node = &run->world.nodes[i];

		while (world_poll(node->send_cq, &wc)) {
			if (!ud_sent(&run->ud, i, &wc))
				flow_send_done(flow_of(run, node, wc.qp_num, true), &wc);
			has_got = true;
		}
		while (world_poll(node->recv_cq, &wc)) {
			if (!ud_received(&run->ud, i, &wc))
				flow_recv_done(flow_of(run, node, wc.qp_num, false), &wc);
			has_got = true;
		}
	}
	return has_got;
}

/* Applications post at random times; is_eager: every flow posts. */
static bool act(struct run *run, bool is_eager)
{
	bool has_acted = false;

	if (is_eager || !world_below(&run->world, 8))
		has_acted = ud_post(&run->ud, 1 + (unsigned)world_below(&run->world, 6));
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

static bool is_over(const struct run *run)
{
	if (!ud_is_over(&run->ud))
		return false;
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
	if (run->ud.wrong)
		return true;
	for (int i = 0; i < run->connection_count; i++) {
		if (run->connections[i].flows[0].wrong || run->connections[i].flows[1].wrong)
			return true;
	}
	return false;
}

void run_drive(struct run *run)
{
	struct world *world = &run->world;

	for (int steps = 0; steps < STEPS_MAX && !is_wrong(run); steps++) {
		bool has_moved;

		act(run, false);
		has_moved = world_step(world);
		run_strike(run);
		run_collect(run);
		if (world->now_ns - run->started_ns > RUN_MAX_NS)
			return;
		if (!has_moved && !act(run, true))
			return;
		if (is_over(run) && !has_moved)
			return;
	}
}

bool run_check(struct run *run)
{
	for (int i = 0; i < run->connection_count; i++) {
		flow_check_end(&run->connections[i].flows[0]);
		flow_check_end(&run->connections[i].flows[1]);
	}
	ud_check_end(&run->ud);
	return !is_wrong(run);
}
