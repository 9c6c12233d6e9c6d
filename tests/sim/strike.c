/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "roce_run.h"

/* Injects faults into the connections of a run. */

/*
 * PSNs of two connections with the same QPNs are far apart, as random PSNs are with high
 * probability.
 */
#define PSN_DISTANCE (1u << 20)

static void reset(struct ibv_qp *qp)
{
	world_reset_qp(qp);
}

/* No more completions of this flow are expected or checked. */
static void abandon(struct flow *flow)
{
	flow->is_abandoned = true;
	flow->qp = NULL;
}

/* Resets a queue pair without notice to its peer. */
static void forget_first(struct run *run)
{
	struct connection *connection = &run->connections[0];

	reset(connection->qps[0]);
	connection->flows[0].is_abandoned = true;
}

/* The flow's receiver is gone, but not its sender. */
static void lose_receiver(struct flow *flow)
{
	flow->peer_qp = NULL;
	flow->may_fail = true;
	flow_freeze(flow);
}

/* Connects the given queue pairs, which have the same QPNs as the old ones, with other PSNs. */
static void succeed(struct run *run, const struct connection *old, struct ibv_qp *qps[2])
{
	struct connection *connection = &run->connections[run->connection_count];

	if (run->connection_count == CONNECTIONS_MAX)
		abort();
	connection->attr = old->attr;
	for (int side = 0; side < 2; side++) {
		connection->nodes[side] = old->nodes[side];
		connection->qps[side] = qps[side];
		connection->attr.psns[side] =
			(old->attr.psns[side] + PSN_DISTANCE +
			 (uint32_t)world_below(&run->world, (1u << 24) - 2 * PSN_DISTANCE)) &
			0xffffff;
	}
	connection_begin(run, run->connection_count++, FAULT_NONE, 0);
}

static void reconnect(struct run *run, struct connection *connection)
{
	struct ibv_qp *qps[2];

	for (int side = 0; side < 2; side++) {
		qps[side] = connection->qps[side];
		reset(qps[side]);
		connection->qps[side] = NULL;
	}
	for (int side = 0; side < 2; side++) {
		struct flow *flow = &connection->flows[side];

		abandon(flow);
		flow->peer_qp = NULL;
		flow_freeze(flow);
	}
	run->restarts++;
	succeed(run, connection, qps);
}

static void reconnect_some(struct run *run)
{
	int count = run->connection_count;

	for (int i = 0; i < count; i++) {
		if (!i || world_below(&run->world, 2))
			reconnect(run, &run->connections[i]);
	}
}

/*
 * The other end of a connection whose process terminated. It either resets its queue pair and is
 * connected again, or continues to send to a QPN that now belongs to another queue pair.
 */
static struct ibv_qp *survive(struct run *run, struct connection *connection, int side)
{
	struct ibv_qp *qp = connection->qps[side];

	lose_receiver(&connection->flows[side]);
	if (world_below(&run->world, 2))
		return world_create_qp(connection->nodes[side], &connection->attr);
	reset(qp);
	connection->qps[side] = NULL;
	abandon(&connection->flows[side]);
	connection->flows[!side].peer_qp = NULL;
	flow_freeze(&connection->flows[!side]);
	return qp;
}

static int side_at(const struct connection *connection, const struct world_node *node)
{
	if (connection->nodes[0] == node)
		return 0;
	return connection->nodes[1] == node ? 1 : -1;
}

static void kill_one(struct connection *connection, int side)
{
	if (ibv_destroy_qp(connection->qps[side]))
		abort();
	connection->qps[side] = NULL;
	abandon(&connection->flows[side]);
	/* The receiver may detect the loss and enter the error state. */
	connection->flows[side].may_fail = true;
}

static void restart_node(struct run *run, struct world_node *node)
{
	struct recv_pool *pool = &run->pools[node - run->world.nodes];
	int count = run->connection_count, index = (int)(node - run->world.nodes);

	world_kill(node);
	ud_kill(&run->ud, index);
	for (int i = 0; i < count; i++) {
		int side = side_at(&run->connections[i], node);

		flow_lose_windows(&run->connections[i].flows[0], node);
		flow_lose_windows(&run->connections[i].flows[1], node);
		if (side >= 0)
			kill_one(&run->connections[i], side);
	}
	world_revive(&run->world, node);
	ud_revive(&run->ud, index);
	*pool = (struct recv_pool){.node = node, .base = pool->base, .total = CONNECTIONS_MAX};
	for (int i = 0; i < count; i++) {
		struct connection *connection = &run->connections[i];
		int side = side_at(connection, node);
		struct ibv_qp *qps[2];

		if (side < 0)
			continue;
		qps[side] = world_create_qp(node, &connection->attr);
		qps[!side] = survive(run, connection, !side);
		succeed(run, connection, qps);
		run->restarts++;
	}
}

static void strike(struct run *run)
{
	struct world_node *node = &run->world.nodes[run->cut_node];

	/* Completions before the fault are processed first. */
	run_collect(run);
	switch (run->scenario) {
	case SCENARIO_RESET:
		forget_first(run);
		break;
	case SCENARIO_RECONNECT:
		reconnect_some(run);
		break;
	case SCENARIO_RESTART:
		restart_node(run, node);
		break;
	default:
		sim_link_cut(node->link, true);
		break;
	}
}

void run_strike(struct run *run)
{
	if (run->cut_ns && run->world.now_ns >= run->cut_ns) {
		strike(run);
		run->cut_ns = 0;
	}
	if (run->heal_ns && !run->cut_ns && run->world.now_ns >= run->heal_ns) {
		sim_link_cut(run->world.nodes[run->cut_node].link, false);
		run->heal_ns = 0;
	}
}
