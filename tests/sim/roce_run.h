/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_ROCE_RUN_H
#define TESTS_SIM_ROCE_RUN_H

#include "ud.h"
#include "model.h"

/*
 * One run of the RoCE simulator: a world, the connections in it, and what befalls them. A connection whose queue pairs were
 * lost may get a successor, under the same numbers, while packets of the first are still under way.
 */
#define CONNECTIONS_FIRST 3
#define CONNECTIONS_MAX	  (2 * CONNECTIONS_FIRST)

enum scenario {
	SCENARIO_CLEAN,	    /* nothing happens to any datagram */
	SCENARIO_ROUGH,	    /* a little of everything */
	SCENARIO_NETEM,	    /* 3 % lost, 5 % reordered, 1 % twice, 1 ms */
	SCENARIO_AWFUL,	    /* a fifth is lost, more is damaged */
	SCENARIO_NARROW,    /* a queue that overflows, a socket that fills */
	SCENARIO_FAULT,	    /* an operation that must fail, on a rough network */
	SCENARIO_CUT,	    /* a node's link goes dead for good */
	SCENARIO_PAUSE,	    /* … or for a while */
	SCENARIO_RESET,	    /* a queue pair forgets everything, as if its process had died */
	SCENARIO_RECONNECT, /* both of a connection do, and are connected anew */
	SCENARIO_RESTART,   /* a process dies, and another begins under the same QPNs and keys */
	SCENARIO_COUNT
};

struct connection {
	struct flow flows[2];
	struct ibv_qp *qps[2];	   /* NULL: no more, or the successor's */
	struct ibv_qp *targets[2]; /* XRC: what the other side's QP sends to; else NULL */
	struct world_node *nodes[2];
	struct world_qp_attr attr;
};

struct run {
	struct world world;
	enum scenario scenario;
	bool has_srqs;
	int connection_count;
	struct connection connections[CONNECTIONS_MAX];
	struct recv_pool pools[WORLD_NODES_MAX];
	struct recv_pool xrc_pools[WORLD_NODES_MAX];
	struct ud ud;
	uint64_t cut_ns;  /* 0: never */
	uint64_t heal_ns; /* 0: never */
	int cut_node;
	uint64_t started_ns;
	unsigned restarts;
};

void run_open(struct run *run, enum scenario scenario, uint64_t seed, int node_count, bool is_ipv6,
	      const struct sim_faults *faults);
void run_close(struct run *run);

/* Until nothing moves any more, or something is wrong. */
void run_drive(struct run *run);
/* The last look. Whether all is as it must be. */
bool run_check(struct run *run);

/* strike.c: whatever is to happen at this time does. */
void run_strike(struct run *run);

/* A connection's first or next life, its queue pairs being there. */
void connection_begin(struct run *run, int index, enum flow_fault fault, unsigned fault_side);
/* All completions so far are told to their flows. */
bool run_collect(struct run *run);

#endif
