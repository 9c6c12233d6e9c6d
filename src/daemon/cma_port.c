/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/cma_port_index.h"
#include "daemon/cma_port_user.h"

/* The kernel's defaults, used if its settings cannot be read. */
#define EPHEMERAL_FIRST	 32768
#define EPHEMERAL_LAST	 60999
#define PRIVILEGED_BELOW 1024

/* After this many tries, the search accepts a port that can be shared instead of an unused one. */
#define SHARE_AFTER 64u

/*
 * Ports that one bind of a limited user examines for sharing. The next bind continues after them.
 */
#define SHARE_TRIES 256u

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
	ports->daemon_uid = geteuid();
	memset(ports->spaces, 0, sizeof(ports->spaces));
	if (getrandom(&ports->secret, sizeof(ports->secret), 0) != (ssize_t)sizeof(ports->secret))
		return -EIO;
	if (hash_init(&ports->table))
		return -ENOMEM;
	if (hash_init(&ports->addrs))
		goto err_addrs;
	if (hash_init(&ports->peers))
		goto err_peers;
	if (hash_init(&ports->users))
		goto err_users;
	return 0;

err_users:
	hash_fini(&ports->peers);
err_peers:
	hash_fini(&ports->addrs);
err_addrs:
	hash_fini(&ports->table);
	return -ENOMEM;
}

void cma_ports_close(struct cma_ports *ports)
{
	hash_fini(&ports->users);
	hash_fini(&ports->peers);
	hash_fini(&ports->addrs);
	hash_fini(&ports->table);
}

static uint64_t hash_port(uint32_t ps, uint16_t number)
{
	return hash_mix(ps, number);
}

static struct cma_port *cma_port_find(struct cma_ports *ports, uint32_t ps, uint16_t number)
{
	struct hash_node *node;

	hash_for_each(node, &ports->table, hash_port(ps, number))
	{
		struct cma_port *port = container_of(node, struct cma_port, node);

		ports->steps++;
		if (port->ps == ps && port->number == number)
			return port;
	}
	return NULL;
}

static bool is_taken(struct cma_ports *ports, const struct cma_port *port,
		     const struct cma_binding *binding)
{
	struct cma_tally others = cma_index_overlapping(ports, port, binding);

	return (binding->is_reuse ? others.exclusive : others.all) > 0;
}

/* Frees the port if its last binding was released. */
static void cma_port_put(struct cma_ports *ports, struct cma_port *port)
{
	if (!list_is_empty(&port->bindings))
		return;
	hash_del(&ports->table, &port->node);
	free(port);
}

/* Adds the binding, with its user, to a port. */
static int cma_port_hold(struct cma_ports *ports, struct cma_binding *binding, uint16_t number)
{
	uint32_t ps = binding->user->ps;
	struct cma_port *port = cma_port_find(ports, ps, number);
	int ret;

	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return -ENOMEM;
		port->ps = ps;
		port->number = number;
		list_init(&port->bindings);
		hash_add(&ports->table, &port->node, hash_port(ps, number));
	}
	binding->is_listening = false;
	ret = cma_index_add(ports, binding, port);
	if (ret) {
		cma_port_put(ports, port);
		return ret;
	}
	list_add_tail(&binding->node, &port->bindings);
	cma_port_recount(ports, port);
	cma_addr_set_port(&binding->addr, number);
	return 0;
}

/* Searches the range from the port after the last one examined. 0: not found. */
static uint16_t find_unused(struct cma_ports *ports, uint32_t ps, unsigned tries)
{
	unsigned range = ports->ephemeral_last - ports->ephemeral_first + 1u;

	if (cma_port_unused(ports, ps) == 0)
		return 0;
	for (unsigned i = 0; i < tries && i < range; i++) {
		uint16_t number = ports->ephemeral_next;

		ports->ephemeral_next = number == ports->ephemeral_last ? ports->ephemeral_first :
									  (uint16_t)(number + 1);
		if (!cma_port_find(ports, ps, number))
			return number;
	}
	return 0;
}

/*
 * Searches the ports of the binding's user, those first that were not examined for the longest
 * time. 0: not found.
 */
static uint16_t find_shareable(struct cma_ports *ports, const struct cma_binding *binding)
{
	struct cma_port_user *user = binding->user;
	unsigned tries = user->port_count;

	if (!binding->is_outgoing)
		return 0;
	if (tries > SHARE_TRIES && !cma_port_user_is_exempt(ports, user))
		tries = SHARE_TRIES;
	while (tries-- > 0) {
		struct cma_port *port = list_first_entry(&user->ports, struct cma_port, of_user);

		ports->steps++;
		list_del(&port->of_user);
		list_add_tail(&port->of_user, &user->ports);
		if (cma_index_may_share(ports, port, binding, &binding->peer))
			return port->number;
	}
	return 0;
}

static int hold_ephemeral(struct cma_ports *ports, struct cma_binding *binding)
{
	bool may_add = cma_port_user_may_add(ports, binding->user);
	uint32_t ps = binding->user->ps;
	uint16_t number = may_add ? find_unused(ports, ps, SHARE_AFTER) : 0;

	if (!number)
		number = find_shareable(ports, binding);
	if (!number && may_add)
		number = find_unused(ports, ps, UINT16_MAX);
	if (!number)
		return may_add ? -EADDRNOTAVAIL : -EDQUOT;
	return cma_port_hold(ports, binding, number);
}

static int hold_number(struct cma_ports *ports, struct cma_binding *binding, uint16_t number)
{
	const struct cma_port *port = cma_port_find(ports, binding->user->ps, number);

	binding->is_outgoing = false;
	if (number < ports->privileged_below && binding->user->uid != 0)
		return -EACCES;
	if (port && is_taken(ports, port, binding))
		return -EADDRINUSE;
	/*
	 * A port that counts for another user will count for this user when the other user's
	 * bindings are released.
	 */
	if (cma_port_is_ephemeral(ports, number) && (!port || port->user != binding->user) &&
	    !cma_port_user_may_add(ports, binding->user))
		return -EDQUOT;
	return cma_port_hold(ports, binding, number);
}

int cma_port_aim(struct cma_ports *ports, struct cma_binding *binding, const struct sockaddr *addr)
{
	struct cma_port_peer peer = {.number = cma_addr_port(addr)};

	gid_from_sockaddr(peer.gid, addr);
	if (!binding->port) {
		binding->is_outgoing = true;
		binding->peer = peer;
		return 0;
	}
	if (!binding->is_outgoing)
		return 0;
	if (!cma_index_may_share(ports, binding->port, binding, &peer))
		return -EADDRINUSE;
	cma_index_set_peer(ports, binding, &peer);
	return 0;
}

int cma_port_bind(struct cma_ports *ports, struct cma_binding *binding, uint32_t ps, uid_t uid)
{
	uint16_t number = cma_addr_port(addr_of(binding));
	int ret;

	binding->user = cma_port_user_get(ports, ps, uid);
	if (!binding->user)
		return -ENOMEM;
	ret = number ? hold_number(ports, binding, number) : hold_ephemeral(ports, binding);
	if (ret) {
		cma_port_user_put(ports, binding->user);
		binding->user = NULL;
	}
	return ret;
}

void cma_port_set_reuse(struct cma_binding *binding, bool is_reuse)
{
	cma_index_set(binding, &binding->is_reuse, is_reuse);
}

void cma_port_set_family_only(struct cma_binding *binding, bool is_family_only)
{
	cma_index_set(binding, &binding->is_family_only, is_family_only);
}

int cma_port_listen(struct cma_ports *ports, struct cma_binding *binding)
{
	if (cma_index_overlapping(ports, binding->port, binding).listening > 0)
		return -EADDRINUSE;
	cma_index_set_listening(binding, true);
	return 0;
}

void cma_port_unlisten(struct cma_binding *binding)
{
	cma_index_set_listening(binding, false);
}

void cma_port_release(struct cma_ports *ports, struct cma_binding *binding)
{
	struct cma_port *port = binding->port;

	if (!port)
		return;
	cma_index_remove(ports, binding);
	list_del(&binding->node);
	cma_port_recount(ports, port);
	cma_port_put(ports, port);
	cma_port_user_put(ports, binding->user);
	binding->user = NULL;
}

struct cma_binding *cma_port_find_listener(struct cma_ports *ports, uint32_t ps,
					   const struct sockaddr *addr, uint32_t dev_id)
{
	const struct cma_port *port = cma_port_find(ports, ps, cma_addr_port(addr));

	return port ? cma_index_listener(ports, port, addr, dev_id) : NULL;
}
