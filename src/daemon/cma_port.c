/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's defaults, used if its settings cannot be read. */
#define EPHEMERAL_FIRST	 32768
#define EPHEMERAL_LAST	 60999
#define PRIVILEGED_BELOW 1024

/* After this many tries, the search accepts a port that can be shared instead of an unused one. */
#define SHARE_AFTER 64u

/* A bound port. Owned by the table, freed with its last binding. */
struct cma_port {
	struct hash_node node;
	struct list_head bindings;
	uint32_t ps;
	uint16_t number;
};

static const struct sockaddr_in *cma_port_as_ipv4(const struct sockaddr *addr)
{
	return (const struct sockaddr_in *)(const void *)addr;
}

static const struct sockaddr_in6 *cma_port_as_ipv6(const struct sockaddr *addr)
{
	return (const struct sockaddr_in6 *)(const void *)addr;
}

bool cma_addr_is_wildcard(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return cma_port_as_ipv4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&cma_port_as_ipv6(addr)->sin6_addr);
}

bool cma_addr_is_link_local(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&cma_port_as_ipv6(addr)->sin6_addr);
}

bool cma_addr_is_loopback4(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET &&
	       ntohl(cma_port_as_ipv4(addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

uint16_t cma_addr_port(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return ntohs(cma_port_as_ipv4(addr)->sin_port);
	return addr->sa_family == AF_INET6 ? ntohs(cma_port_as_ipv6(addr)->sin6_port) : 0;
}

void cma_addr_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = htons(port);
	else if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return cma_port_as_ipv4(a)->sin_addr.s_addr == cma_port_as_ipv4(b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&cma_port_as_ipv6(a)->sin6_addr, &cma_port_as_ipv6(b)->sin6_addr);
}

static const struct sockaddr *addr_of(const struct cma_binding *binding)
{
	return (const struct sockaddr *)&binding->addr;
}

static void read_range(struct cma_ports *ports)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned first, last;

	ports->ephemeral_first = EPHEMERAL_FIRST;
	ports->ephemeral_last = EPHEMERAL_LAST;
	if (!file)
		return;
	if (fscanf(file, "%u %u", &first, &last) == 2 && first > 0 && first <= last &&
	    last <= UINT16_MAX) {
		ports->ephemeral_first = (uint16_t)first;
		ports->ephemeral_last = (uint16_t)last;
	}
	fclose(file);
}

static void read_privileged(struct cma_ports *ports)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	unsigned start;

	ports->privileged_below = PRIVILEGED_BELOW;
	if (!file)
		return;
	if (fscanf(file, "%u", &start) == 1 && start <= UINT16_MAX)
		ports->privileged_below = (uint16_t)start;
	fclose(file);
}

int cma_ports_open(struct cma_ports *ports)
{
	read_range(ports);
	read_privileged(ports);
	ports->ephemeral_next = ports->ephemeral_first;
	return hash_init(&ports->table);
}

void cma_ports_close(struct cma_ports *ports)
{
	hash_fini(&ports->table);
}

static uint64_t hash_port(uint32_t ps, uint16_t number)
{
	return hash_mix(ps, number);
}

static struct cma_port *cma_port_find(const struct cma_ports *ports, uint32_t ps, uint16_t number)
{
	struct hash_node *node;

	hash_for_each(node, &ports->table, hash_port(ps, number))
	{
		struct cma_port *port = container_of(node, struct cma_port, node);

		if (port->ps == ps && port->number == number)
			return port;
	}
	return NULL;
}

/* Whether some request would match both bindings of one port. */
static bool overlap(const struct cma_binding *a, const struct cma_binding *b)
{
	bool is_wild_a = cma_addr_is_wildcard(addr_of(a));
	bool is_wild_b = cma_addr_is_wildcard(addr_of(b));

	if (a->addr.ss_family != b->addr.ss_family) {
		/* A wildcard matches the other family, too, unless it is limited to its own. */
		return (is_wild_a && !a->is_family_only) || (is_wild_b && !b->is_family_only);
	}
	if (is_wild_a || is_wild_b)
		return true;
	if (a->dev_id && b->dev_id && a->dev_id != b->dev_id)
		return false;
	return same_address(addr_of(a), addr_of(b));
}

static bool is_taken(const struct cma_port *port, const struct cma_binding *binding)
{
	struct cma_binding *other;

	list_for_each_entry(other, &port->bindings, node) {
		bool is_shared = binding->is_reuse && other->is_reuse && !other->is_listening;

		if (!is_shared && overlap(binding, other))
			return true;
	}
	return false;
}

static int cma_port_hold(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps,
			 uint16_t number)
{
	struct cma_port *port = cma_port_find(ports, ps, number);

	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return -ENOMEM;
		port->ps = ps;
		port->number = number;
		list_init(&port->bindings);
		hash_add(&ports->table, &port->node, hash_port(ps, number));
	}
	binding->port = port;
	binding->is_listening = false;
	list_add_tail(&binding->node, &port->bindings);
	cma_addr_set_port(&binding->addr, number);
	return 0;
}

static bool cma_port_same_peer(const struct cma_binding *a, const struct cma_binding *b)
{
	return a->peer_port == b->peer_port && !memcmp(a->peer_gid, b->peer_gid, GID_BYTES);
}

/* Whether the port's bindings and this one differ in their peers. */
static bool may_share(const struct cma_port *port, const struct cma_binding *binding)
{
	struct cma_binding *other;

	if (!binding->is_outgoing)
		return false;
	list_for_each_entry(other, &port->bindings, node) {
		if (other == binding)
			continue;
		if (!other->is_outgoing || other->is_listening ||
		    cma_port_same_peer(other, binding))
			return false;
	}
	return true;
}

/* Searches the range from the port after the last one assigned. */
static int hold_ephemeral(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps)
{
	unsigned range = ports->ephemeral_last - ports->ephemeral_first + 1u;
	unsigned start = (unsigned)(ports->ephemeral_next - ports->ephemeral_first);
	uint16_t found = 0;

	for (unsigned tries = 0; tries < range && !(found && tries >= SHARE_AFTER); tries++) {
		uint16_t number = (uint16_t)(ports->ephemeral_first + (start + tries) % range);
		const struct cma_port *port = cma_port_find(ports, ps, number);

		if (!port || (!found && may_share(port, binding)))
			found = number;
		if (!port)
			break;
	}
	if (!found)
		return -EADDRNOTAVAIL;
	ports->ephemeral_next = found == ports->ephemeral_last ? ports->ephemeral_first :
								 (uint16_t)(found + 1);
	return cma_port_hold(ports, binding, ps, found);
}

int cma_port_aim(struct cma_binding *binding, const struct sockaddr *peer)
{
	struct cma_binding before = *binding;

	if (binding->port && !binding->is_outgoing)
		return 0;
	binding->is_outgoing = true;
	binding->peer_port = cma_addr_port(peer);
	gid_from_sockaddr(binding->peer_gid, peer);
	if (!binding->port || may_share(binding->port, binding))
		return 0;
	binding->peer_port = before.peer_port;
	memcpy(binding->peer_gid, before.peer_gid, GID_BYTES);
	return -EADDRINUSE;
}

int cma_port_bind(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps,
		  bool may_privileged)
{
	uint16_t number = cma_addr_port(addr_of(binding));
	struct cma_port *port;

	if (number == 0)
		return hold_ephemeral(ports, binding, ps);
	binding->is_outgoing = false;
	if (number < ports->privileged_below && !may_privileged)
		return -EACCES;
	port = cma_port_find(ports, ps, number);
	if (port && is_taken(port, binding))
		return -EADDRINUSE;
	return cma_port_hold(ports, binding, ps, number);
}

int cma_port_listen(struct cma_binding *binding)
{
	struct cma_binding *other;

	list_for_each_entry(other, &binding->port->bindings, node) {
		if (other != binding && other->is_listening && overlap(binding, other))
			return -EADDRINUSE;
	}
	binding->is_listening = true;
	return 0;
}

void cma_port_release(struct cma_ports *ports, struct cma_binding *binding)
{
	struct cma_port *port = binding->port;

	if (!port)
		return;
	list_del(&binding->node);
	binding->port = NULL;
	binding->is_listening = false;
	if (!list_is_empty(&port->bindings))
		return;
	hash_del(&ports->table, &port->node);
	free(port);
}

static bool matches_binding(const struct cma_binding *binding, const struct sockaddr *addr,
			    uint32_t dev_id)
{
	if (!binding->is_listening)
		return false;
	if (cma_addr_is_wildcard(addr_of(binding)))
		return binding->addr.ss_family == addr->sa_family || !binding->is_family_only;
	return same_address(addr_of(binding), addr) &&
	       (!binding->dev_id || binding->dev_id == dev_id);
}

struct cma_binding *cma_port_find_listener(const struct cma_ports *ports, uint32_t ps,
					   const struct sockaddr *addr, uint32_t dev_id)
{
	const struct cma_port *port = cma_port_find(ports, ps, cma_addr_port(addr));
	struct cma_binding *binding, *wildcard = NULL;

	if (!port)
		return NULL;
	list_for_each_entry(binding, &port->bindings, node) {
		if (!matches_binding(binding, addr, dev_id))
			continue;
		if (!cma_addr_is_wildcard(addr_of(binding)))
			return binding;
		wildcard = binding;
	}
	return wildcard;
}
