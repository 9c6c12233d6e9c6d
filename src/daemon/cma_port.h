/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PORT_H
#define USRDMA_DAEMON_CMA_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/list.h"
#include "wire/gid.h"

/*
 * Port spaces: which address and port of which space is taken by whom. They are our own and have nothing to do with the
 * kernel's TCP and UDP ports, as with the kernel's rdma_cm.
 *
 * Whoever connects without having bound a port gets an ephemeral one: one that nobody has while such are found quickly,
 * else one that is had only by others like it whose peers are other ones. So the range limits how many connections
 * there are to one address and port, not how many there are.
 */
struct cma_ports {
	struct hash table;
	uint16_t ephemeral_first; /* of both, the range of net.ipv4.ip_local_port_range */
	uint16_t ephemeral_last;
	uint16_t ephemeral_next;
	uint16_t privileged_below; /* net.ipv4.ip_unprivileged_port_start */
};

/*
 * One id's hold on a port. Embedded in whoever binds; all-zero is not bound. It is on the list of its port from
 * cma_port_bind() to cma_port_release().
 */
struct cma_binding {
	struct list_head node;
	struct cma_port *port;
	struct sockaddr_storage addr; /* with the port */
	uint32_t dev_id;	      /* 0 unless the address is of one interface only */
	bool is_reuse;
	bool is_family_only; /* a wildcard of one family leaves the other alone */
	bool is_listening;
	bool is_outgoing; /* to the peer below: set by cma_port_aim() before a port was chosen */
	uint16_t peer_port;
	uint8_t peer_gid[GID_BYTES];
};

int cma_ports_open(struct cma_ports *ports) __attribute__((warn_unused_result));
void cma_ports_close(struct cma_ports *ports);

/*
 * Takes binding->addr in port space ps; port 0 becomes a free one of the ephemeral range. -EACCES: a privileged port and
 * not may_privileged. -EADDRINUSE, -EADDRNOTAVAIL (no ephemeral port is left), -ENOMEM.
 */
int cma_port_bind(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps,
		  bool may_privileged) __attribute__((warn_unused_result));

/*
 * Says whom the binding is to connect to. Before cma_port_bind() it is free to; afterwards -EADDRINUSE if the port is
 * shared with somebody who connects to that one already. A port that was asked for by its number is nobody else's in
 * any case.
 */
int cma_port_aim(struct cma_binding *binding, const struct sockaddr *peer)
	__attribute__((warn_unused_result));

/* -EADDRINUSE if somebody listens where this binding would: sharing a port ends at listening. */
int cma_port_listen(struct cma_binding *binding) __attribute__((warn_unused_result));

/* Harmless if it is not bound. */
void cma_port_release(struct cma_ports *ports, struct cma_binding *binding);

/* Who listens for requests to this address, which came in through this device; an exact address goes before a wildcard.
 * NULL: nobody. */
struct cma_binding *cma_port_find_listener(const struct cma_ports *ports, uint32_t ps,
					   const struct sockaddr *addr, uint32_t dev_id);

/* Small questions about addresses; only AF_INET and AF_INET6 have answers other than false and 0. */
bool cma_addr_is_wildcard(const struct sockaddr *addr);
bool cma_addr_is_link_local(const struct sockaddr *addr);
bool cma_addr_is_loopback4(const struct sockaddr *addr); /* of 127.0.0.0/8 */
uint16_t cma_addr_port(const struct sockaddr *addr);
void cma_addr_set_port(struct sockaddr_storage *addr, uint16_t port);

#endif
