/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_port_user.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/fair_share.h"

/*
 * Parts of the range, as of the slots (daemon/server.h): 16 of 511 are reserved, and 4 are the
 * least of a user.
 */
#define RESERVED_PART 32
#define LEAST_PART    128

static uint32_t port_range_size(const struct cma_ports *ports)
{
	return ports->ephemeral_last - ports->ephemeral_first + 1u;
}

bool cma_port_is_ephemeral(const struct cma_ports *ports, uint16_t number)
{
	return number >= ports->ephemeral_first && number <= ports->ephemeral_last;
}

static unsigned space_index(const struct cma_ports *ports, uint32_t ps)
{
	unsigned i = 0;

	while (i < CMA_PORT_SPACES - 1 && ports->spaces[i].ps && ports->spaces[i].ps != ps)
		i++;
	assert(!ports->spaces[i].ps || ports->spaces[i].ps == ps);
	return i;
}

uint32_t cma_port_unused(const struct cma_ports *ports, uint32_t ps)
{
	return port_range_size(ports) - ports->spaces[space_index(ports, ps)].used;
}

static void count_used(struct cma_ports *ports, uint32_t ps, int by)
{
	unsigned i = space_index(ports, ps);

	ports->spaces[i].ps = ps;
	ports->spaces[i].used += (uint32_t)by;
}

struct cma_port_user *cma_port_user_get(struct cma_ports *ports, uint32_t ps, uid_t uid)
{
	uint64_t hash = hash_mix(ps, uid);
	struct cma_port_user *user;
	struct hash_node *node;

	hash_for_each(node, &ports->users, hash)
	{
		user = container_of(node, struct cma_port_user, node);
		ports->steps++;
		if (user->ps != ps || user->uid != uid)
			continue;
		user->binding_count++;
		return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->ps = ps;
	user->binding_count = 1;
	list_init(&user->ports);
	hash_add(&ports->users, &user->node, hash);
	return user;
}

void cma_port_user_put(struct cma_ports *ports, struct cma_port_user *user)
{
	if (--user->binding_count > 0)
		return;
	hash_del(&ports->users, &user->node);
	free(user);
}

bool cma_port_user_is_exempt(const struct cma_ports *ports, const struct cma_port_user *user)
{
	return fair_share_is_exempt(user->uid, ports->daemon_uid);
}

bool cma_port_user_may_add(const struct cma_ports *ports, const struct cma_port_user *user)
{
	struct fair_share share = {
		.reserved = port_range_size(ports) / RESERVED_PART,
		.least = port_range_size(ports) / LEAST_PART,
	};

	return cma_port_user_is_exempt(ports, user) ||
	       fair_share_allows(&share, user->port_count, cma_port_unused(ports, user->ps));
}

/* The user of the oldest binding; NULL: the port has no binding. */
static struct cma_port_user *user_of_oldest(const struct cma_port *port)
{
	return list_is_empty(&port->bindings) ?
		       NULL :
		       list_first_entry(&port->bindings, struct cma_binding, node)->user;
}

void cma_port_recount(struct cma_ports *ports, struct cma_port *port)
{
	struct cma_port_user *user = user_of_oldest(port);

	if (user == port->user || !cma_port_is_ephemeral(ports, port->number))
		return;
	if (port->user) {
		list_del(&port->of_user);
		port->user->port_count--;
		count_used(ports, port->ps, -1);
	}
	port->user = user;
	if (user) {
		list_add_tail(&port->of_user, &user->ports);
		user->port_count++;
		count_used(ports, port->ps, 1);
	}
}
