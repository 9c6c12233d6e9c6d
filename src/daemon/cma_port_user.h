/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PORT_USER_H
#define USRDMA_DAEMON_CMA_PORT_USER_H

#include "daemon/cma_port_index.h"

/*
 * The shares of users in the ephemeral range of each port space. A port of the range counts for the
 * user of its oldest binding, whether the port was selected by the daemon or by its number.
 */
struct cma_port_user {
	/* cma_ports.users; freed with the last binding of the user in this port space */
	struct hash_node node;
	uid_t uid;
	uint32_t ps;
	uint32_t binding_count;
	uint32_t port_count;
	struct list_head ports; /* struct cma_port: those that count for the user */
};

bool cma_port_is_ephemeral(const struct cma_ports *ports, uint16_t number);

/* The number of ports of the range that have no binding in this port space. */
uint32_t cma_port_unused(const struct cma_ports *ports, uint32_t ps);

/* The user of a new binding; NULL: no memory. cma_port_user_put() ends each use. */
struct cma_port_user *cma_port_user_get(struct cma_ports *ports, uint32_t ps, uid_t uid);
void cma_port_user_put(struct cma_ports *ports, struct cma_port_user *user);

bool cma_port_user_is_exempt(const struct cma_ports *ports, const struct cma_port_user *user);

/* Whether one more port of the range may count for the user. */
bool cma_port_user_may_add(const struct cma_ports *ports, const struct cma_port_user *user);

/* To be called when the list of the port's bindings has changed. */
void cma_port_recount(struct cma_ports *ports, struct cma_port *port);

#endif
