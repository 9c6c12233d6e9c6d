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
 * Several hosts in one process, without clients, threads or clock. Each host runs the CM and the
 * QP1 code of the daemon. One simulated network in virtual time connects them; it can report
 * undeliverable packets to their sender. A host may crash and restart with the same address: its CM
 * loses all state, while packets from and to the previous incarnation are still in flight.
 */
#define CM_WORLD_NODES_MAX 5
#define CM_WORLD_SERVICE   UINT64_C(0x01060001) /* every running host listens on it */

struct cm_world;

/* One host; owned by the world. */
struct cm_node {
	struct cm_world *world;
	int index;
	unsigned incarnation;
	struct cm *cm; /* NULL: the host is down */
	struct random random;
	struct random id_random; /* for a host that uses its earlier communication IDs again */
	struct gsi gsi;
	struct link *link;
	struct cm_errors *errors; /* ICMP errors that the host has not read yet */
	bool is_cut;
	uint8_t gid[GID_BYTES];
	struct netdev netdev;
};

/* The calls of the host's consumer, as in struct cm_callbacks. */
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
	/* Called for every MAD that a host sends, before the network handles it. */
	void (*sent)(struct cm_node *node, const struct cm_path *path, const struct cm_msg *msg);
};

struct cm_world {
	struct sim_net *net;
	const struct cm_world_hooks *hooks;
	void *ctx;
	uint64_t now_ns;
	uint64_t random;
	int node_count;
	bool tells_errors; /* hosts and routers report undeliverable packets by ICMP */
	struct cm_node nodes[CM_WORLD_NODES_MAX];
	/* counters of hosts that crashed */
	struct gsi_wire_counters counters;
	uint64_t cm_sent;
	uint64_t cm_resent;
	uint64_t cm_strays;
};

void cm_world_open(struct cm_world *world, uint64_t seed, int node_count, bool is_ipv6,
		   const struct sim_faults *faults, const struct cm_world_hooks *hooks, void *ctx);
void cm_world_close(struct cm_world *world);

/* Random numbers of the world, independent of those of the network. */
uint64_t cm_world_random(struct cm_world *world);
uint64_t cm_world_below(struct cm_world *world, uint64_t n);
bool cm_world_chance(struct cm_world *world, unsigned percent);

/* NULL: no host has this address. */
struct cm_node *cm_world_find(struct cm_world *world, const uint8_t gid[GID_BYTES]);
void cm_world_path(const struct cm_node *from, const uint8_t to_gid[GID_BYTES],
		   struct cm_path *path);

/* Adds the counters of a QP1 to `to`. */
void cm_world_count(struct gsi_wire_counters *to, const struct gsi_wire_counters *from);

/*
 * Crashes a host without a message to its peers. Packets for the host wait for its next
 * incarnation, unless the link is cut, too.
 */
void cm_world_kill(struct cm_node *node);
/*
 * Restarts a host. reuse_ids: the new CM starts with the same communication IDs as the previous
 * one.
 */
void cm_world_revive(struct cm_node *node, bool reuse_ids);
void cm_world_cut(struct cm_node *node, bool is_cut);

/* The time of the next event of a host or of the network; TIMER_NEVER_NS: none. */
uint64_t cm_world_next(const struct cm_world *world);
/* Advances the time to now_ns and processes everything that is due. */
void cm_world_advance(struct cm_world *world, uint64_t now_ns);

#endif
