/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "core/engine.h"
#include "core/objects.h"
#include "link/sim.h"
#include "roce/roce.h"

/*
 * Many engines in one process, without daemon, threads and clock, on one simulated network in virtual time. The code that
 * ships runs on them; one seed is one run.
 */
#define WORLD_NODES_MAX 4
#define WORLD_CQE	4096
/* A node's engine has the slot of its index behind this one. */
#define WORLD_FIRST_SLOT 1

struct world;
struct relay_msg;

/* How processes of one host reach each other beside the network (relay.h); all NULL: they do not. */
struct world_road {
	/* As the member relay_send of struct transport. */
	int (*send)(struct world *world, int from, uint32_t slot, const struct relay_msg *msg,
		    const struct iovec *pieces, int count);
	/* Hands the node what is due there. Whether anything was; its engine.lock held. */
	bool (*deliver)(struct world *world, int to);
	/* When something is next due, or TIMER_NEVER_NS. */
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
	struct ibv_xrcd *xrcd;	 /* of QPs of type XRC_RECV, and of … */
	struct ibv_srq *xrc_srq; /* … which completes to recv_cq */
	uint32_t xrc_srqn;
	struct ibv_mr *mr;
	uint8_t *buf;
	size_t buf_bytes;
	uint64_t stalled_until_ns; /* its process has no processor: nothing happens there */
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
 * Before anything is connected: the nodes from `first` on are processes of one host from now on. They have its address, and
 * each gets what is for its own QPNs.
 */
void world_share_host(struct world *world, int first);

/*
 * The node's process dies without a word, and another begins in its place: same address, same memory, the first QPNs
 * and keys once more. What it had is destroyed, unheard, between the two calls; nothing else happens there. Datagrams
 * on their way arrive at the new one.
 */
void world_kill(struct world_node *node);
void world_revive(struct world *world, struct world_node *node);

/* The world's own random numbers, apart from the network's. */
uint64_t world_random(struct world *world);
uint64_t world_below(struct world *world, uint64_t n);

/* What a connection is made of. */
struct world_qp_attr {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint32_t psns[2]; /* that each side sends from */
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	unsigned access;
	uint32_t qkey; /* UD, which needs of the others only the first PSN and max_wr */
	uint32_t max_wr;
	bool has_srq; /* takes its node's receives */
};

struct ibv_qp *world_create_qp(struct world_node *node, const struct world_qp_attr *attr);
void world_reset_qp(struct ibv_qp *qp);
/* One side of a connection, and both. */
void world_connect_to(struct ibv_qp *qp, const uint8_t *peer_gid, uint32_t peer_qpn,
		      uint32_t rq_psn, uint32_t sq_psn, const struct world_qp_attr *attr);
/* A UD queue pair to RTS. */
void world_ready(struct ibv_qp *qp, const struct world_qp_attr *attr);
void world_connect(struct world_node *a, struct ibv_qp *qp_a, struct world_node *b,
		   struct ibv_qp *qp_b, const struct world_qp_attr *attr);

/* An address handle of the node's PD. */
struct ibv_ah *world_create_ah(struct world_node *node, const uint8_t *gid);

/* Everything that is due now, on all nodes. Whether anything was. */
bool world_turn(struct world *world);
/* The same, and if nothing was due lets time pass up to what is next. false: nothing will ever be. */
bool world_step(struct world *world);

/* The oldest completion, without making progress. */
bool world_poll(struct ibv_cq *cq, struct ibv_wc *wc);

#endif
