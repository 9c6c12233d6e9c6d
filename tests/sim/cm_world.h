/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_CM_WORLD_H
#define TESTS_SIM_CM_WORLD_H

#include <stdbool.h>

#include "cm/cm.h"
#include "cm/sidr.h"
#include "daemon/gsi.h"
#include "daemon/netdev.h"
#include "link/sim.h"

/*
 * Many hosts in one process, without clients, threads and clock: each has the communication manager and the QP1 that ship,
 * on one simulated network in virtual time, which may tell whoever sends what cannot be delivered. A host may die and
 * come back under the same address: its communication manager forgets everything, while datagrams to and from the old
 * one are still under way.
 */
#define CM_WORLD_NODES_MAX 5
#define CM_WORLD_SERVICE   UINT64_C(0x01060001) /* every host that is up listens to it */

struct cm_world;

/* One host; owned by the world. */
struct cm_node {
	struct cm_world *world;
	int index;
	unsigned incarnation;
	struct cm *cm; /* NULL: down */
	struct gsi gsi;
	struct link *link;
	struct cm_errors *errors; /* the network's, that nobody heard yet */
	bool is_cut;
	uint8_t gid[GID_BYTES];
	struct netdev netdev;
};

/* What the host's consumer does; as in struct cm_ops. */
struct cm_world_hooks {
	void *(*request)(struct cm_node *node, struct cm_conn *conn, const struct cm_path *path,
			 const struct cm_req *req, uint16_t *reason);
	void (*event)(struct cm_node *node, struct cm_conn *conn, void *owner,
		      enum cm_event_type type, const struct cm_msg *msg);
	void *(*sidr_request)(struct cm_node *node, struct cm_sidr *sidr,
			      const struct cm_path *path, const struct cm_sidr_req *req,
			      uint8_t *status);
	void (*sidr_event)(struct cm_node *node, struct cm_sidr *sidr, void *owner,
			   const struct cm_sidr_rep *rep);
	/* Every MAD that a host sends, before anything happens to it. */
	void (*sent)(struct cm_node *node, const struct cm_path *path, const struct cm_msg *msg);
};

struct cm_world {
	struct sim_net *net;
	const struct cm_world_hooks *hooks;
	void *ctx;
	uint64_t now_ns;
	uint64_t random;
	int node_count;
	bool tells_errors; /* hosts and routers answer what they cannot deliver, as ICMP has it */
	struct cm_node nodes[CM_WORLD_NODES_MAX];
	/* of hosts that are no more */
	struct gsi_wire_counters counters;
	uint64_t cm_sent;
	uint64_t cm_resent;
	uint64_t cm_strays;
};

void cm_world_open(struct cm_world *world, uint64_t seed, int node_count, bool is_ipv6,
		   const struct sim_faults *faults, const struct cm_world_hooks *hooks, void *ctx);
void cm_world_close(struct cm_world *world);

/* The world's own random numbers, apart from the network's. */
uint64_t cm_world_random(struct cm_world *world);
uint64_t cm_world_below(struct cm_world *world, uint64_t n);
bool cm_world_chance(struct cm_world *world, unsigned percent);

/* NULL: that address is nobody's. */
struct cm_node *cm_world_find(struct cm_world *world, const uint8_t gid[GID_BYTES]);
void cm_world_path(const struct cm_node *from, const uint8_t to_gid[GID_BYTES],
		   struct cm_path *path);

/* Adds up what QP1 counted. */
void cm_world_count(struct gsi_wire_counters *to, const struct gsi_wire_counters *from);

/* Nobody is told. What is on its way to the host waits for its successor, unless the link is cut as well. */
void cm_world_kill(struct cm_node *node);
/* reuse_ids: the new communication manager begins to count where the old one did. */
void cm_world_revive(struct cm_node *node, bool reuse_ids);
void cm_world_cut(struct cm_node *node, bool is_cut);

/* The next moment at which a host or the network has something to do; TIMER_NEVER_NS: there is none. */
uint64_t cm_world_next(const struct cm_world *world);
/* Lets the time come and does everything that is due. */
void cm_world_advance(struct cm_world *world, uint64_t now_ns);

#endif
