/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PORT_INDEX_H
#define USRDMA_DAEMON_CMA_PORT_INDEX_H

#include "daemon/cma_port.h"

/*
 * Finds conflicts between the bindings of a port. One user can bind all ids that a user can have to
 * one port, with RDMA_OPTION_ID_REUSEADDR or as connections to different peers, and the daemon has
 * one thread. So no function here examines all bindings of a port: bindings are counted by address,
 * and peers are found by a hash.
 */

/* Numbers of bindings. */
struct cma_tally {
	uint32_t all;
	uint32_t exclusive; /* not reusable, or listening */
	uint32_t listening;
};

/* The bindings of one family at one port. At most one wildcard of a family listens. */
struct cma_port_family {
	struct cma_tally total;
	struct cma_tally wildcard;
	struct cma_tally wildcard_both; /* wildcards that also cover the other family */
	struct cma_binding *wildcard_listener;
};

/* The bindings of one address at one port. In cma_ports.addrs; freed with its last binding. */
struct cma_port_addr {
	struct hash_node node;
	const struct cma_port *port;
	uint8_t gid[GID_BYTES];
	uint32_t dev_id;
	struct cma_tally tally;
	struct cma_binding *listener; /* at most one binding of an address listens */
};

/* A bound port. Owned by the table, freed with its last binding. */
struct cma_port {
	struct hash_node node;
	struct list_head bindings;  /* the oldest first */
	struct list_head of_user;   /* cma_port_user.ports */
	struct cma_port_user *user; /* for whom the port counts; NULL: not in the ephemeral range */
	uint32_t ps;
	uint16_t number;
	uint32_t connecting; /* bindings with is_outgoing that do not listen */
	struct cma_port_family families[2];
};

/* Adds a binding, with the port, to the index, and removes it. -ENOMEM */
int cma_index_add(struct cma_ports *ports, struct cma_binding *binding, struct cma_port *port)
	__attribute__((warn_unused_result));
void cma_index_remove(struct cma_ports *ports, struct cma_binding *binding);

/* Changes a property by which bindings are counted, whether or not the binding is bound. */
void cma_index_set(struct cma_binding *binding, bool *property, bool value);

/* Sets or, with is_listening false, removes the listener of the binding's address. */
void cma_index_set_listening(struct cma_binding *binding, bool is_listening);

/* Sets the peer of an outgoing binding that is bound. */
void cma_index_set_peer(struct cma_ports *ports, struct cma_binding *binding,
			const struct cma_port_peer *peer);

/*
 * The bindings of the port that some request would match as well as this binding. The binding
 * itself is included if it is bound.
 */
struct cma_tally cma_index_overlapping(struct cma_ports *ports, const struct cma_port *port,
				       const struct cma_binding *binding);

/* Whether all other bindings of the port connect, and to other peers than this one. */
bool cma_index_may_share(struct cma_ports *ports, const struct cma_port *port,
			 const struct cma_binding *binding, const struct cma_port_peer *peer);

/* As cma_port_find_listener(), for one port. */
struct cma_binding *cma_index_listener(struct cma_ports *ports, const struct cma_port *port,
				       const struct sockaddr *addr, uint32_t dev_id);

#endif
