/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_CM_NET_H
#define USRDMA_TEST_CM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/cm.h"
#include "cm/sidr.h"

/*
 * Two communication managers and the network between them, in virtual time. A seeded generator
 * decides which MADs are lost, repeated, delayed and thus reordered. The test is the consumer: it
 * sets the two hooks.
 */
#define NET_SERVICE 0x01060001ull

struct net;

/* One host; owned by the net. */
struct net_node {
	struct net *net;
	struct cm *cm;
	struct random random;
	uint8_t gid[GID_BYTES];
	uint64_t guid;
};

struct net {
	struct net_node nodes[2];
	struct list_head wire; /* MADs in transit */
	uint64_t now_ns;
	uint64_t random;
	unsigned loss_percent;
	unsigned repeat_percent;
	uint64_t delay_max_ns;
	unsigned in_flight;
	bool is_cut;   /* sending fails */
	bool is_local; /* MADs arrive as MADs from the same host do */
	uint64_t sent;
	uint64_t sent_to[256]; /* MADs to the hosts whose GID has this last byte */

	void *(*on_request)(struct net_node *node, struct cm_conn *conn, const struct cm_req *req,
			    uint16_t *reason);
	void (*on_event)(struct net_node *node, struct cm_conn *conn, void *owner,
			 enum cm_event_type type, const struct cm_msg *msg);
	void *(*on_sidr_request)(struct net_node *node, struct cm_sidr *sidr,
				 const struct cm_sidr_req *req, uint8_t *status);
	void (*on_sidr_event)(struct net_node *node, struct cm_sidr *sidr, void *owner,
			      const struct cm_sidr_rep *rep);
	/* Called for every MAD before it may be lost; may be NULL. */
	void (*on_wire)(struct net_node *from, const struct cm_msg *msg);
};

void net_open(struct net *net, uint64_t seed);
void net_close(struct net *net);

/*
 * Restarts the host: its communication manager loses all state; MADs to and from it are still in
 * transit.
 */
void net_restart(struct net_node *node);

uint64_t net_random(struct net *net);
unsigned net_below(struct net *net, unsigned bound);
bool net_chance(struct net *net, unsigned percent);

struct net_node *net_other(struct net_node *node);
void net_path(struct net_node *node, struct cm_path *path);

/*
 * Creates an active connection from `node` to the other and sends its REQ. The caller chooses
 * `qpn`.
 */
struct cm_conn *net_connect(struct net_node *node, void *owner, uint32_t qpn);
void net_rep(struct cm_rep *rep, struct net_node *node, uint32_t qpn);

/* Starts a resolution from `node` to the other and sends its SIDR_REQ. */
struct cm_sidr *net_resolve(struct net_node *node, void *owner);

/*
 * Returns the time of the next event: the arrival of a MAD or a timer. TIMER_NEVER_NS: no event is
 * due.
 */
uint64_t net_next(const struct net *net);

/* Advances the time and processes everything that is due. */
void net_advance(struct net *net, uint64_t now_ns);

/* Runs until no event is due, or for this many steps. Returns false if events remain. */
bool net_settle(struct net *net, unsigned steps);

#endif
