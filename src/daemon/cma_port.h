/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_PORT_H
#define USRDMA_DAEMON_CMA_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "wire/gid.h"

/*
 * Port spaces: the addresses and ports that ids have bound. As in the kernel's rdma_cm, they are
 * separate from the kernel's TCP and UDP ports.
 *
 * An id that connects without a bound port gets an ephemeral port: an unused one if the search
 * finds one quickly, otherwise one of the same user whose other bindings also connect, and to other
 * peers. So the range limits the number of connections to one address and port, not the total
 * number of connections.
 *
 * A user's ports of the range are limited, also those that are bound by their number
 * (cma_port_user.h).
 */
#define CMA_PORT_SPACES 4 /* RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB */

struct cma_ports {
	struct hash table; /* struct cma_port */
	struct hash addrs; /* struct cma_port_addr */
	struct hash peers; /* struct cma_binding: those with is_outgoing */
	struct hash users; /* struct cma_port_user */
	struct {
		uint32_t ps;   /* 0: no port of the range was ever bound */
		uint32_t used; /* ports of the range that have bindings */
	} spaces[CMA_PORT_SPACES];
	uid_t daemon_uid;
	/* the initial value of the hashes of addresses and peers, which clients choose */
	uint64_t secret;
	uint64_t steps;		  /* entries of the tables that were examined; for tests */
	uint16_t ephemeral_first; /* first and last port of net.ipv4.ip_local_port_range */
	uint16_t ephemeral_last;
	uint16_t ephemeral_next;
	uint16_t privileged_below; /* net.ipv4.ip_unprivileged_port_start */
};

/* The destination of a connection. */
struct cma_port_peer {
	uint8_t gid[GID_BYTES];
	uint16_t number;
};

/*
 * The port that one id has bound. Embedded in struct cma_id; all-zero means not bound. It is on the
 * port's list from cma_port_bind() to cma_port_release().
 */
struct cma_binding {
	struct list_head node;
	struct hash_node by_peer;
	struct cma_port *port;
	struct cma_port_user *user;
	struct cma_port_addr *at;     /* the bindings of its address; NULL: wildcard */
	struct sockaddr_storage addr; /* includes the port number */
	uint32_t dev_id;	      /* the interface of a link-local address, otherwise 0 */
	/*
	 * While the binding is bound, the functions below change these three: the port's bindings
	 * are counted by them.
	 */
	bool is_reuse;
	bool is_family_only; /* a wildcard address covers only its own address family */
	bool is_listening;
	/* connects to the peer below; set by cma_port_aim() before the port was chosen */
	bool is_outgoing;
	struct cma_port_peer peer;
};

int cma_ports_open(struct cma_ports *ports) __attribute__((warn_unused_result));
void cma_ports_close(struct cma_ports *ports);

/*
 * Binds binding->addr in port space ps for a user; port 0 selects a port of the ephemeral range.
 * -EACCES: the port is privileged and the user is not root. -EADDRINUSE; -EADDRNOTAVAIL: no
 * ephemeral port is left; -EDQUOT: no ephemeral port is left for this user; -ENOMEM.
 */
int cma_port_bind(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps, uid_t uid)
	__attribute__((warn_unused_result));

/*
 * Sets the peer that the binding will connect to. Before cma_port_bind() this cannot fail.
 * Afterwards it fails with -EADDRINUSE if another binding of the same ephemeral port connects to
 * this peer. A port that was bound by its number is not shared in this way, so the call then has no
 * effect.
 */
int cma_port_aim(struct cma_ports *ports, struct cma_binding *binding, const struct sockaddr *addr)
	__attribute__((warn_unused_result));

/* Set the properties of a binding, whether or not it is bound. */
void cma_port_set_reuse(struct cma_binding *binding, bool is_reuse);
void cma_port_set_family_only(struct cma_binding *binding, bool is_family_only);

/*
 * -EADDRINUSE if another binding listens on an overlapping address: a port can be shared only until
 * a binding listens.
 */
int cma_port_listen(struct cma_ports *ports, struct cma_binding *binding)
	__attribute__((warn_unused_result));
void cma_port_unlisten(struct cma_binding *binding);

/* Does nothing if the binding is not bound. */
void cma_port_release(struct cma_ports *ports, struct cma_binding *binding);

/*
 * The listener for requests to this address that arrived on this device. An exact address precedes
 * a wildcard. NULL: none.
 */
struct cma_binding *cma_port_find_listener(struct cma_ports *ports, uint32_t ps,
					   const struct sockaddr *addr, uint32_t dev_id);

/* Properties of addresses. For families other than AF_INET and AF_INET6 they are false or 0. */
bool cma_addr_is_wildcard(const struct sockaddr *addr);
bool cma_addr_is_link_local(const struct sockaddr *addr);
bool cma_addr_is_loopback4(const struct sockaddr *addr); /* the address is in 127.0.0.0/8 */
uint16_t cma_addr_port(const struct sockaddr *addr);
void cma_addr_set_port(struct sockaddr_storage *addr, uint16_t port);

#endif
