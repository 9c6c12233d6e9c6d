/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "rdmacm/id.h"

/* Selector of a path record: exactly the given value (IBA 1.x §15.2.5.16). */
#define SELECTOR_EXACTLY 2

socklen_t rcm_addr_bytes(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	if (addr->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	if (addr->sa_family == AF_INET6)
		return sizeof(struct sockaddr_in6);
	return 0;
}

bool rcm_addr_unmap(struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return false;
	in.sin_port = in6->sin6_port;
	memcpy(&in.sin_addr, in6->sin6_addr.s6_addr + 12, sizeof(in.sin_addr));
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &in, sizeof(in));
	return true;
}

static void map_ipv4(struct sockaddr_storage *addr)
{
	struct sockaddr_in in = *(const struct sockaddr_in *)addr;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = in.sin_port};

	in6.sin6_addr.s6_addr[10] = 0xff;
	in6.sin6_addr.s6_addr[11] = 0xff;
	memcpy(in6.sin6_addr.s6_addr + 12, &in.sin_addr, sizeof(in.sin_addr));
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &in6, sizeof(in6));
}

/*
 * is_mapped: the application specified this address as an IPv4-mapped IPv6 address and reads it in
 * that form. An unchanged address is not written, because the application may read it while an
 * event with the same address is processed.
 */
static void set_addr(struct sockaddr_storage *addr, const struct sockaddr_storage *from,
		     bool is_mapped)
{
	struct sockaddr_storage shown = *from;

	if (is_mapped && shown.ss_family == AF_INET)
		map_ipv4(&shown);
	if (shown.ss_family && memcmp(addr, &shown, sizeof(*addr)) != 0)
		memcpy(addr, &shown, sizeof(*addr));
}

static void route_set_path(struct rcm_id *id, const struct ipc_cm_route *route)
{
	struct ibv_sa_path_rec *path = &id->path;

	memcpy(path->sgid.raw, route->sgid, sizeof(path->sgid.raw));
	memcpy(path->dgid.raw, route->dgid, sizeof(path->dgid.raw));
	path->flow_label = htonl(route->flow_label);
	path->hop_limit = route->hop_limit;
	path->traffic_class = route->traffic_class;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htons(route->pkey);
	path->sl = route->sl;
	path->mtu_selector = SELECTOR_EXACTLY;
	path->mtu = route->mtu;
	path->rate_selector = SELECTOR_EXACTLY;
	path->rate = route->rate;
	path->packet_life_time_selector = SELECTOR_EXACTLY;
	path->packet_life_time = route->packet_life_time;
	id->pub.route.path_rec = path;
	id->pub.route.num_paths = 1;
}

static int route_set_device(struct rcm_id *id, const struct ipc_cm_route *route)
{
	struct rcm_device *device;
	int ret;

	if (!route->dev_id || (id->device && id->device->dev_id == route->dev_id))
		return 0;
	ret = rcm_device_get(id->session, route->dev_id, &device);
	if (ret)
		return ret;
	id->device = device;
	id->pub.verbs = device->verbs;
	id->pub.pd = device->pd;
	id->pub.port_num = route->port_num;
	return 0;
}

int rcm_id_need_device(struct rcm_id *id)
{
	int ret = 0;

	if (id->defers_device) {
		id->defers_device = false;
		ret = route_set_device(id, &id->route);
	}
	if (ret)
		return ret;
	return id->device ? 0 : -EINVAL;
}

int rcm_id_set_route(struct rcm_id *id, const struct ipc_cm_route *route)
{
	struct rdma_ib_addr *ib = &id->pub.route.addr.addr.ibaddr;
	int ret;

	set_addr(&id->pub.route.addr.src_storage, &route->src, id->is_src_mapped);
	set_addr(&id->pub.route.addr.dst_storage, &route->dst, id->is_dst_mapped);
	ret = id->defers_device ? 0 : route_set_device(id, route);
	if (ret)
		return ret;
	id->route = *route;
	memcpy(ib->sgid.raw, route->sgid, sizeof(ib->sgid.raw));
	memcpy(ib->dgid.raw, route->dgid, sizeof(ib->dgid.raw));
	ib->pkey = htons(route->pkey);
	if (route->has_path)
		route_set_path(id, route);
	return 0;
}

static __be16 port_of(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_port;
	if (addr->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return id ? port_of(&id->route.addr.src_storage) : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return id ? port_of(&id->route.addr.dst_storage) : 0;
}
