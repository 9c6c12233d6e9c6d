/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_ROCE_RUN_H
#define TESTS_SIM_ROCE_RUN_H

#include "ud.h"
#include "model.h"

/*
 * One run of the RoCE simulator: a world, the connections in it, and the faults injected into them.
 * A connection whose queue pairs were lost may be followed by a new one with the same QPNs while
 * packets of the first are still in flight.
 */
#define CONNECTIONS_FIRST 3
#define CONNECTIONS_MAX	  (2 * CONNECTIONS_FIRST)

enum scenario {
	SCENARIO_CLEAN,	    /* no fault */
	SCENARIO_ROUGH,	    /* all faults at low rates */
	SCENARIO_NETEM,	    /* 3 % lost, 5 % reordered, 1 % duplicated, delay 1 ms */
	SCENARIO_AWFUL,	    /* 20 % lost, more corrupted */
	SCENARIO_NARROW,    /* a queue that overflows, a full send buffer */
	SCENARIO_FAULT,	    /* an operation that must fail, on a network with faults */
	SCENARIO_CUT,	    /* a node's link fails permanently */
	SCENARIO_PAUSE,	    /* a node's link fails for a while */
	SCENARIO_RESET,	    /* a queue pair is reset without notice to its peer */
	SCENARIO_RECONNECT, /* both queue pairs of a connection are reset and connected again */
	SCENARIO_RESTART,   /* a process terminates, and another one uses the same QPNs and keys */
	SCENARIO_COUNT
};

struct connection {
	struct flow flows[2];
	struct ibv_qp *qps[2];	   /* NULL: destroyed, or used by the next connection */
	struct ibv_qp *targets[2]; /* XRC: the target QP of the other side's sends; else NULL */
	struct world_node *nodes[2];
	struct world_qp_attr attr;
};

struct run {
	struct world world;
	enum scenario scenario;
	bool has_srqs;
	bool has_lists;
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

/* One of ten seeds uses NewReno, the others the default congestion control. */
#define RUN_NEWRENO_SEEDS 10
/* In every seventh seed the WRs of RC are posted in lists. */
#define RUN_LISTS_SEEDS 7

void run_open(struct run *run, enum scenario scenario, uint64_t seed, int node_count, bool is_ipv6,
	      const struct sim_faults *faults);
void run_close(struct run *run);

/* Runs until no event is left or an error is found. */
void run_drive(struct run *run);
/* The final checks. Returns whether no error was found. */
bool run_check(struct run *run);

/* strike.c: injects the faults that are due. */
void run_strike(struct run *run);

/* Connects the queue pairs of a connection and starts its flows. */
void connection_begin(struct run *run, int index, enum flow_fault fault, unsigned fault_side);
/* Polls all CQs and passes the completions to their flows. */
bool run_collect(struct run *run);

#endif
