/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"
#include "daemon/fault_device.h"

static const struct sockaddr *sa(const struct sockaddr_storage *addr)
{
	return (const struct sockaddr *)addr;
}

/* All of 127.0.0.0/8 belongs to the loopback interface, whose GID table has only 127.0.0.1. */
static void to_gid(const struct sockaddr *addr, uint8_t gid[GID_BYTES])
{
	const struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};

	gid_from_sockaddr(gid, addr);
	if (cma_addr_is_loopback4(addr) && !netdev_by_gid(gid, NULL))
		gid_from_ipv4(gid, &loopback);
}

static const struct netdev *cma_addr_owner_of(const struct sockaddr *addr)
{
	const struct netdev *dev = netdev_by_addr(addr);

	return !dev && cma_addr_is_loopback4(addr) ? netdev_loopback() : dev;
}

/* Sets the device, its connection manager and the local address of the route. */
static void cma_addr_set_device(struct cma_id *id, const struct netdev *dev)
{
	uint32_t index;

	id->cm = cma_cms_of(&id->cma->cms, dev);
	id->route.dev_id = dev->dev_id;
	id->route.port_num = 1;
	to_gid(sa(&id->route.src), id->route.sgid);
	if (netdev_by_gid_at(id->route.sgid, dev->dev_id, &index) == dev)
		id->route.sgid_index = index;
}

/* Checks an address to bind: AF_INET or AF_INET6; a link-local address must have an interface. */
static int check_addr(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	/*
	 * The library converts IPv4-mapped addresses to IPv4. Here no request could match such an
	 * address.
	 */
	if (addr->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return -EINVAL;
	if (cma_addr_is_link_local(addr) && !in6->sin6_scope_id)
		return -EINVAL;
	return 0;
}

/*
 * peer: the destination if the id is bound because it resolves an address; NULL if the id may
 * listen.
 */
static int take_addr(struct cma_id *id, const struct sockaddr_storage *addr,
		     const struct sockaddr_storage *peer)
{
	const struct netdev *dev = NULL;
	int ret = check_addr(sa(addr));

	if (ret)
		return ret;
	if (!cma_addr_is_wildcard(sa(addr))) {
		dev = cma_addr_owner_of(sa(addr));
		if (!dev)
			return -EADDRNOTAVAIL;
		if (fault_device_is_removed(dev, id->client->peer.uid))
			return -ENODEV;
	}
	id->binding.is_outgoing = false;
	ret = peer ? cma_port_aim(&id->cma->ports, &id->binding, sa(peer)) : 0;
	if (ret)
		return ret;
	id->binding.addr = *addr;
	/*
	 * As with sockets, 0.0.0.0 covers only IPv4. :: covers both families unless
	 * RDMA_OPTION_ID_AFONLY is set.
	 */
	if (addr->ss_family == AF_INET && !id->has_family_only)
		id->binding.is_family_only = true;
	id->binding.dev_id = cma_addr_is_link_local(sa(addr)) ? dev->dev_id : 0;
	ret = cma_port_bind(&id->cma->ports, &id->binding, id->ps, id->client->peer.uid);
	if (ret)
		return ret;
	id->route.src = id->binding.addr;
	id->state = CMA_BOUND;
	return 0;
}

/*
 * An explicit bind may precede a listen, so the service gets a backlog linger. An implicit bind of
 * a connecting id does not.
 */
int cma_bind(struct cma_id *id, const struct sockaddr_storage *addr)
{
	int ret = take_addr(id, addr, NULL);

	if (ret)
		return ret;
	if (!cma_addr_is_wildcard(sa(&id->binding.addr)))
		cma_addr_set_device(id, cma_addr_owner_of(sa(addr)));
	cma_linger_add(&id->cma->linger, &id->cma->cms,
		       cma_service_id(id->ps, cma_addr_port(sa(&id->binding.addr))),
		       clock_now_ns());
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
	ret = cma_port_listen(&id->cma->ports, &id->binding);
	if (ret)
		return ret;
	id->service_id = cma_service_id(id->ps, cma_addr_port(sa(&id->binding.addr)));
	ret = cma_cms_listen(&id->cma->cms, id->cm, id->service_id);
	if (ret) {
		cma_port_unlisten(&id->binding);
		return ret;
	}
	id->backlog = backlog > 0 && backlog < CMA_BACKLOG_MAX ? backlog : CMA_BACKLOG_MAX;
	id->state = CMA_LISTENING;
	cma_linger_end(&id->cma->linger, &id->cma->cms, id->service_id);
	return 0;
}

void cma_unlisten(struct cma_id *id)
{
	cma_cms_unlisten(&id->cma->cms, id->cm, id->service_id);
}

/* A wildcard destination means this host. */
static void set_loopback(struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)addr)->sin6_addr = in6addr_loopback;
}

/* As with sockets, an id bound to :: for both families can also connect to IPv4 addresses. */
static bool may_reach(const struct cma_id *id, sa_family_t family)
{
	if (id->route.src.ss_family == family)
		return true;
	return family == AF_INET && cma_addr_is_wildcard(sa(&id->binding.addr)) &&
	       !id->binding.is_family_only;
}

/* Finds device and source address. The route is modified only on success. */
static int resolve(struct cma_id *id, const struct sockaddr_storage *dst)
{
	uint16_t port = cma_addr_port(sa(&id->route.src));
	struct sockaddr_storage src;
	const struct netdev *dev;
	const struct sockaddr *hint = id->route.src.ss_family == dst->ss_family ?
					      sa(&id->route.src) :
					      NULL;
	uint8_t hop_limit = 0;
	int ret = netdev_route(sa(dst), hint, &src, &dev, &hop_limit);

	if (ret)
		return ret;
	/*
	 * An id that is bound to an address uses the device of that address, also for a destination
	 * on another device of this host.
	 */
	if (id->route.dev_id)
		dev = netdev_by_id(id->route.dev_id);
	else if (!cma_addr_is_wildcard(sa(&id->binding.addr)))
		dev = cma_addr_owner_of(sa(&id->binding.addr));
	if (!dev || fault_device_is_removed(dev, id->client->peer.uid))
		return -ENODEV;
	if (!fault_device_is_active(dev, id->client->peer.uid))
		return -ENETDOWN;
	cma_addr_set_port(&src, port);
	id->route.src = src;
	id->route.dst = *dst;
	id->route.hop_limit = hop_limit;
	to_gid(sa(dst), id->route.dgid);
	cma_addr_set_device(id, dev);
	return 0;
}

/* Whether dst is a multicast group; a group cannot be the peer of a connection. */
static bool is_for_many(const struct sockaddr_storage *dst)
{
	uint8_t gid[GID_BYTES];

	return gid_from_sockaddr(gid, sa(dst)) && gid_is_multicast(gid);
}

int cma_resolve_addr(struct cma_id *id, const struct ipc_cm_resolve_addr *req)
{
	struct sockaddr_storage src = req->src, dst = req->dst;
	struct ipc_cm_route before;
	int ret = check_addr(sa(&dst));

	if (ret)
		return ret;
	if (cma_addr_is_wildcard(sa(&dst)))
		set_loopback(&dst);
	if (id->state == CMA_IDLE) {
		if (src.ss_family == AF_UNSPEC)
			wildcard(&src, dst.ss_family);
		if (src.ss_family != dst.ss_family) {
			cma_because(id->cma, IPC_REASON_CM_FAMILY, src.ss_family, dst.ss_family);
			return -EINVAL;
		}
		ret = take_addr(id, &src, &dst);
	} else {
		if (!may_reach(id, dst.ss_family)) {
			cma_because(id->cma, IPC_REASON_CM_FAMILY, id->route.src.ss_family,
				    dst.ss_family);
			return -EINVAL;
		}
		ret = cma_port_aim(&id->cma->ports, &id->binding, sa(&dst));
	}
	if (ret)
		return ret;
	before = id->route;
	ret = is_for_many(&dst) && !cma_is_datagram(id) ? -ENETUNREACH : resolve(id, &dst);
	if (!ret)
		ret = cma_neigh_resolve(id, &before, req->timeout_ms);
	if (ret == -EINPROGRESS)
		return 0;
	if (ret) {
		id->route = before;
		cma_failing_to(id->cma, &dst);
		cma_event_status(id, RDMA_CM_EVENT_ADDR_ERROR, ret);
		return 0;
	}
	id->state = CMA_ADDR_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}
