/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "link/sim.h"
#include "sim_engine.h"

/*
 * Several engines in one process, without daemon, threads or clock, on one simulated network in
 * virtual time. They run the unmodified library code. A seed determines a run completely.
 */
#define WORLD_NODES_MAX 4
#define WORLD_CQE	4096
/* The QPN range (slot) of node i is WORLD_FIRST_SLOT + i. */
#define WORLD_FIRST_SLOT 1

struct world;

/*
 * How processes of one host exchange messages besides the network (xrc_forward.h). All NULL: they
 * cannot.
 */
struct world_road {
	/* As the member send of struct xrc_forward_carrier. */
	int (*send)(struct world *world, int from, uint32_t slot, const struct iovec *pieces,
		    int count, bool may_connect);
	/*
	 * Delivers the messages to a node that are due; called with its engine.lock held. Returns
	 * whether there were any.
	 */
	bool (*deliver)(struct world *world, int to);
	/* The time of the next delivery; TIMER_NEVER_NS: none. */
	uint64_t (*next_ns)(const struct world *world);
	void *arg;
};

struct world_node {
	struct world *world;
	struct engine engine;
	struct device device;
	struct context context;
	struct link *link;
	uint8_t gid[GID_BYTES];
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;	 /* of the XRC_RECV QPs and of xrc_srq */
	struct ibv_srq *xrc_srq; /* its completions go to recv_cq */
	uint32_t xrc_srqn;
	struct ibv_mr *mr;
	uint8_t *buf;
	size_t buf_bytes;
	/* the process is not scheduled: it does nothing until this time */
	uint64_t stalled_until_ns;
};

struct world {
	struct sim_net *net;
	uint64_t now_ns;
	uint64_t random;
	struct world_road road;
	int node_count;
	struct world_node nodes[WORLD_NODES_MAX];
};

void world_open(struct world *world, uint64_t seed, int node_count, bool is_ipv6, size_t buf_bytes,
		const struct sim_faults *faults);
void world_close(struct world *world);
/*
 * Makes the nodes from `first` on processes of one host: they get its address, and each receives
 * the packets for its own QPNs. To be called before any queue pair is connected.
 */
void world_share_host(struct world *world, int first);

/*
 * world_kill() terminates the process of a node without notice to its peers. world_revive() starts
 * another process with the same address and memory, which assigns the same QPNs and keys again.
 * Between the two calls the caller destroys the objects of the first process. Packets in flight are
 * delivered to the new process.
 */
void world_kill(struct world_node *node);
void world_revive(struct world *world, struct world_node *node);

/* Random numbers of the world, independent of those of the network. */
uint64_t world_random(struct world *world);
uint64_t world_below(struct world *world, uint64_t n);

struct ibv_qp *world_create_qp(struct world_node *node, const struct world_qp_attr *attr);
void world_reset_qp(struct ibv_qp *qp);
/* Brings both sides of a connection to RTS. */
void world_connect(struct world_node *a, struct ibv_qp *qp_a, struct world_node *b,
		   struct ibv_qp *qp_b, const struct world_qp_attr *attr);
/* Brings a UD queue pair to RTS. */
void world_ready(struct ibv_qp *qp, const struct world_qp_attr *attr);

/* Creates an address handle in the node's PD. */
struct ibv_ah *world_create_ah(struct world_node *node, const uint8_t *gid);

/* Processes everything that is due now, on all nodes. Returns whether anything was due. */
bool world_turn(struct world *world);
/* The same; if nothing was due, advances the time to the next event. false: no event is left. */
bool world_step(struct world *world);

#endif
