/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_port_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct sockaddr *cma_index_addr_of(const struct cma_binding *binding)
{
	return (const struct sockaddr *)&binding->addr;
}

static unsigned cma_index_family(sa_family_t family)
{
	return family == AF_INET6;
}

static uint64_t mix_gid(uint64_t hash, const uint8_t gid[GID_BYTES])
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	return hash_mix(hash_mix(hash, words[0]), words[1]);
}

static uint64_t cma_index_seed(const struct cma_ports *ports, const struct cma_port *port)
{
	return hash_mix(ports->secret, (uint64_t)port->ps << 16 | port->number);
}

static uint64_t cma_index_hash_addr(const struct cma_ports *ports, const struct cma_port_addr *key)
{
	return hash_mix(mix_gid(cma_index_seed(ports, key->port), key->gid), key->dev_id);
}

static uint64_t cma_index_hash_peer(const struct cma_ports *ports, const struct cma_port *port,
				    const struct cma_port_peer *peer)
{
	return hash_mix(mix_gid(cma_index_seed(ports, port), peer->gid), peer->number);
}

/* The key of an address. Only a link-local address exists on several interfaces. */
static struct cma_port_addr key_of(const struct cma_port *port, const struct sockaddr *addr,
				   uint32_t dev_id)
{
	struct cma_port_addr key = {.port = port};

	gid_from_sockaddr(key.gid, addr);
	key.dev_id = cma_addr_is_link_local(addr) ? dev_id : 0;
	return key;
}

static struct cma_port_addr *cma_index_find(struct cma_ports *ports,
					    const struct cma_port_addr *key)
{
	struct hash_node *node;

	hash_for_each(node, &ports->addrs, cma_index_hash_addr(ports, key))
	{
		struct cma_port_addr *addr = container_of(node, struct cma_port_addr, node);

		ports->steps++;
		if (addr->port == key->port && addr->dev_id == key->dev_id &&
		    !memcmp(addr->gid, key->gid, GID_BYTES))
			return addr;
	}
	return NULL;
}

static void tally_binding(struct cma_tally *tally, const struct cma_binding *binding, int by)
{
	tally->all += (uint32_t)by;
	if (!binding->is_reuse || binding->is_listening)
		tally->exclusive += (uint32_t)by;
	if (binding->is_listening)
		tally->listening += (uint32_t)by;
}

static struct cma_port_family *family_of(const struct cma_binding *binding)
{
	return &binding->port->families[cma_index_family(binding->addr.ss_family)];
}

/* Adds the binding to all numbers that include it, or with -1 subtracts it. */
static void cma_index_count(struct cma_binding *binding, int by)
{
	struct cma_port_family *family = family_of(binding);

	tally_binding(&family->total, binding, by);
	if (binding->at)
		tally_binding(&binding->at->tally, binding, by);
	else
		tally_binding(&family->wildcard, binding, by);
	if (!binding->at && !binding->is_family_only)
		tally_binding(&family->wildcard_both, binding, by);
	if (binding->is_outgoing && !binding->is_listening)
		binding->port->connecting += (uint32_t)by;
}

/* Sets binding->at. */
static int cma_index_address(struct cma_ports *ports, struct cma_binding *binding,
			     const struct cma_port *port)
{
	struct cma_port_addr key = key_of(port, cma_index_addr_of(binding), binding->dev_id);

	binding->at = NULL;
	if (cma_addr_is_wildcard(cma_index_addr_of(binding)))
		return 0;
	binding->at = cma_index_find(ports, &key);
	if (binding->at)
		return 0;
	binding->at = malloc(sizeof(*binding->at));
	if (!binding->at)
		return -ENOMEM;
	*binding->at = key;
	hash_add(&ports->addrs, &binding->at->node, cma_index_hash_addr(ports, &key));
	return 0;
}

int cma_index_add(struct cma_ports *ports, struct cma_binding *binding, struct cma_port *port)
{
	int ret = cma_index_address(ports, binding, port);

	if (ret)
		return ret;
	binding->port = port;
	binding->by_peer = (struct hash_node){0};
	if (binding->is_outgoing)
		hash_add(&ports->peers, &binding->by_peer,
			 cma_index_hash_peer(ports, port, &binding->peer));
	cma_index_count(binding, 1);
	return 0;
}

void cma_index_remove(struct cma_ports *ports, struct cma_binding *binding)
{
	cma_index_set_listening(binding, false);
	cma_index_count(binding, -1);
	hash_del(&ports->peers, &binding->by_peer);
	if (binding->at && binding->at->tally.all == 0) {
		hash_del(&ports->addrs, &binding->at->node);
		free(binding->at);
	}
	binding->at = NULL;
	binding->port = NULL;
}

void cma_index_set(struct cma_binding *binding, bool *property, bool value)
{
	if (binding->port)
		cma_index_count(binding, -1);
	*property = value;
	if (binding->port)
		cma_index_count(binding, 1);
}

void cma_index_set_listening(struct cma_binding *binding, bool is_listening)
{
	struct cma_binding **listener;

	if (binding->is_listening == is_listening)
		return;
	listener = binding->at ? &binding->at->listener : &family_of(binding)->wildcard_listener;
	cma_index_set(binding, &binding->is_listening, is_listening);
	*listener = is_listening ? binding : NULL;
}

void cma_index_set_peer(struct cma_ports *ports, struct cma_binding *binding,
			const struct cma_port_peer *peer)
{
	hash_del(&ports->peers, &binding->by_peer);
	binding->peer = *peer;
	hash_add(&ports->peers, &binding->by_peer, cma_index_hash_peer(ports, binding->port, peer));
}

static void tally_sum(struct cma_tally *sum, const struct cma_tally *tally)
{
	sum->all += tally->all;
	sum->exclusive += tally->exclusive;
	sum->listening += tally->listening;
}

struct cma_tally cma_index_overlapping(struct cma_ports *ports, const struct cma_port *port,
				       const struct cma_binding *binding)
{
	unsigned index = cma_index_family(binding->addr.ss_family);
	const struct cma_port_family *own = &port->families[index];
	const struct cma_port_family *other = &port->families[!index];
	bool is_wildcard = cma_addr_is_wildcard(cma_index_addr_of(binding));
	bool covers_both = is_wildcard && !binding->is_family_only;
	/* A wildcard matches the other family, too, unless it is limited to its own. */
	struct cma_tally sum = covers_both ? other->total : other->wildcard_both;
	struct cma_port_addr key, *addr;

	tally_sum(&sum, is_wildcard ? &own->total : &own->wildcard);
	if (is_wildcard)
		return sum;
	key = key_of(port, cma_index_addr_of(binding), binding->dev_id);
	addr = cma_index_find(ports, &key);
	if (addr)
		tally_sum(&sum, &addr->tally);
	return sum;
}

/* Whether another binding of the port connects to the peer. */
static bool cma_index_has_peer(struct cma_ports *ports, const struct cma_port *port,
			       const struct cma_binding *binding, const struct cma_port_peer *peer)
{
	struct hash_node *node;

	hash_for_each(node, &ports->peers, cma_index_hash_peer(ports, port, peer))
	{
		const struct cma_binding *other = container_of(node, struct cma_binding, by_peer);

		ports->steps++;
		if (other != binding && other->port == port && other->peer.number == peer->number &&
		    !memcmp(other->peer.gid, peer->gid, GID_BYTES))
			return true;
	}
	return false;
}

bool cma_index_may_share(struct cma_ports *ports, const struct cma_port *port,
			 const struct cma_binding *binding, const struct cma_port_peer *peer)
{
	uint32_t others = port->families[0].total.all + port->families[1].total.all;
	uint32_t connecting = port->connecting;

	if (!binding->is_outgoing)
		return false;
	if (binding->port == port) {
		others--;
		connecting -= !binding->is_listening;
	}
	return others == connecting && !cma_index_has_peer(ports, port, binding, peer);
}

struct cma_binding *cma_index_listener(struct cma_ports *ports, const struct cma_port *port,
				       const struct sockaddr *addr, uint32_t dev_id)
{
	const struct cma_port_addr key = key_of(port, addr, dev_id);
	unsigned index = cma_index_family(addr->sa_family);
	const struct cma_port_addr *exact = cma_index_find(ports, &key);
	struct cma_binding *other = port->families[!index].wildcard_listener;

	if (exact && exact->listener)
		return exact->listener;
	if (port->families[index].wildcard_listener)
		return port->families[index].wildcard_listener;
	return other && !other->is_family_only ? other : NULL;
}
