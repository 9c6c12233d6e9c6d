/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"

static const struct sockaddr *sa(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr *)addr;
}

/* All of 127.0.0.0/8 is the loopback interface's, whose GID table has 127.0.0.1 only. */
static void to_gid(const struct sockaddr *addr, uint8_t gid[GID_BYTES])
{
	const struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};

	gid_from_sockaddr(gid, addr);
	if (cma_addr_is_loopback4(addr) && !netdev_by_gid(gid, NULL))
		gid_from_ipv4(gid, &loopback);
}

static const struct netdev *owner_of(const struct sockaddr *addr)
{
	const struct netdev *dev = netdev_by_addr(addr);

	return !dev && cma_addr_is_loopback4(addr) ? netdev_loopback() : dev;
}

/* The route's device and our end of it. */
static void set_device(struct cma_id *id, const struct netdev *dev)
{
	uint32_t index;

	id->route.dev_id = dev->dev_id;
	id->route.port_num = 1;
	to_gid(sa(&id->route.src), id->route.sgid);
	if (netdev_by_gid(id->route.sgid, &index) == dev)
		id->route.sgid_index = index;
}

/* What a bind may be asked: a family with GIDs, a link-local address with its interface. */
static int check_addr(const struct sockaddr *addr)
{
	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (cma_addr_is_link_local(addr) &&
	    !((const struct sockaddr_in6 *)(const void *)addr)->sin6_scope_id)
		return -EINVAL;
	return 0;
}

/* peer: whom the id is on its way to, or NULL if it may just as well listen. */
static int take_addr(struct cma_id *id, const struct sockaddr_storage *addr,
		     const struct sockaddr_storage *peer)
{
	bool may_privileged = id->client->peer.uid == 0;
	const struct netdev *dev = NULL;
	int ret = check_addr(sa(addr));

	if (ret)
		return ret;
	if (!cma_addr_is_wildcard(sa(addr))) {
		dev = owner_of(sa(addr));
		if (!dev)
			return -EADDRNOTAVAIL;
	}
	id->binding.is_outgoing = false;
	ret = peer ? cma_port_aim(&id->binding, sa(peer)) : 0;
	if (ret)
		return ret;
	id->binding.addr = *addr;
	/* As with sockets, 0.0.0.0 never was meant for IPv6, and :: is for both unless it is told. */
	if (addr->ss_family == AF_INET && !id->has_family_only)
		id->binding.is_family_only = true;
	id->binding.dev_id = cma_addr_is_link_local(sa(addr)) ? dev->dev_id : 0;
	ret = cma_port_bind(&id->cma->ports, &id->binding, id->ps, may_privileged);
	if (ret)
		return ret;
	id->route.src = id->binding.addr;
	id->state = CMA_BOUND;
	return 0;
}

/*
 * A loopback address is the whole machine's: whoever connects has yet to say over which device, and
 * a listener's ids come with the request's. A datagram id has no such second step. libfabric asks
 * in this way which devices there are, and would see none but the loopback's.
 */
static bool has_device(const struct cma_id *id)
{
	const struct sockaddr *addr = sa(&id->binding.addr);
	bool is_loopback = cma_addr_is_loopback4(addr) ||
			   (addr->sa_family == AF_INET6 &&
			    IN6_IS_ADDR_LOOPBACK(
				    &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr));

	return !cma_addr_is_wildcard(addr) && (!is_loopback || cma_is_datagram(id));
}

/* Whoever binds by itself may be about to listen; whoever is bound on its way to connecting is not. */
int cma_bind(struct cma_id *id, const struct sockaddr_storage *addr)
{
	int ret = take_addr(id, addr, NULL);

	if (ret)
		return ret;
	if (has_device(id))
		set_device(id, owner_of(sa(addr)));
	cma_grace_add(&id->cma->grace, id->cma->cm,
		      cma_service_id(id->ps, cma_addr_port(sa(&id->binding.addr))), clock_now_ns());
	return 0;
}

static void wildcard(struct sockaddr_storage *addr, sa_family_t family)
{
	memset(addr, 0, sizeof(*addr));
	addr->ss_family = family;
}

int cma_listen(struct cma_id *id, uint32_t backlog)
{
	struct sockaddr_storage any;
	int ret;

	if (id->state == CMA_IDLE) {
		wildcard(&any, AF_INET);
		ret = take_addr(id, &any, NULL);
		if (ret)
			return ret;
	}
	ret = cma_port_listen(&id->binding);
	if (ret)
		return ret;
	id->service_id = cma_service_id(id->ps, cma_addr_port(sa(&id->binding.addr)));
	ret = cm_listen(id->cma->cm, id->service_id);
	if (ret) {
		id->binding.is_listening = false;
		return ret;
	}
	id->backlog = backlog > 0 && backlog < CMA_BACKLOG_MAX ? backlog : CMA_BACKLOG_MAX;
	id->state = CMA_LISTENING;
	cma_grace_end(&id->cma->grace, id->cma->cm, id->service_id);
	return 0;
}

/* A wildcard as the destination means this machine. */
static void set_loopback(struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)addr)->sin6_addr = in6addr_loopback;
}

/* Finds device and source; the route is only touched when both are there. */
static int resolve(struct cma_id *id, const struct sockaddr_storage *dst)
{
	uint16_t port = cma_addr_port(sa(&id->route.src));
	struct sockaddr_storage src;
	const struct netdev *dev;
	int ret = netdev_route(sa(dst), sa(&id->route.src), &src, &dev);

	if (ret)
		return ret;
	/* Whoever bound an address has its device, also for another one's address on this machine. */
	if (id->route.dev_id)
		dev = netdev_by_id(id->route.dev_id);
	else if (!cma_addr_is_wildcard(sa(&id->binding.addr)))
		dev = owner_of(sa(&id->binding.addr));
	if (!dev)
		return -ENODEV;
	if (!dev->is_up)
		return -ENETDOWN;
	cma_addr_set_port(&src, port);
	id->route.src = src;
	id->route.dst = *dst;
	to_gid(sa(dst), id->route.dgid);
	set_device(id, dev);
	return 0;
}

/* A group, which nobody can connect to. */
static bool is_for_many(const struct sockaddr_storage *dst)
{
	uint8_t gid[GID_BYTES];

	return gid_from_sockaddr(gid, sa(dst)) && gid_is_multicast(gid);
}

int cma_resolve_addr(struct cma_id *id, const struct ipc_cm_resolve_addr *req)
{
	struct sockaddr_storage src = req->src, dst = req->dst;
	int ret = check_addr(sa(&dst));

	if (ret)
		return ret;
	if (cma_addr_is_wildcard(sa(&dst)))
		set_loopback(&dst);
	if (id->state == CMA_IDLE) {
		if (src.ss_family == AF_UNSPEC)
			wildcard(&src, dst.ss_family);
		if (src.ss_family != dst.ss_family)
			return -EINVAL;
		ret = take_addr(id, &src, &dst);
	} else {
		if (id->route.src.ss_family != dst.ss_family)
			return -EINVAL;
		ret = cma_port_aim(&id->binding, sa(&dst));
	}
	if (ret)
		return ret;
	ret = is_for_many(&dst) && !cma_is_datagram(id) ? -ENETUNREACH : resolve(id, &dst);
	if (ret) {
		cma_event_status(id, RDMA_CM_EVENT_ADDR_ERROR, ret);
		return 0;
	}
	id->state = CMA_ADDR_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}
