/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "daemon/netdev_hop_limit.h"
#include "daemon/netdev_query.h"

/* The parts of an address that an rtnetlink route request contains. */
struct parts {
	int family;
	const uint8_t *bytes;
	size_t len;
	uint32_t scope_id; /* of an IPv6 link-local unicast or multicast address, else 0 */
	bool is_wildcard;
	bool is_group;
};

static int parts_of(const struct sockaddr *addr, struct parts *parts)
{
	static const uint8_t zero[16];

	*parts = (struct parts){.family = addr->sa_family};
	if (addr->sa_family == AF_INET) {
		parts->bytes = (const uint8_t *)addr + offsetof(struct sockaddr_in, sin_addr);
		parts->len = 4;
		parts->is_group = (parts->bytes[0] & 0xf0) == 0xe0;
	} else if (addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;

		parts->bytes = in6->sin6_addr.s6_addr;
		parts->len = 16;
		parts->is_group = IN6_IS_ADDR_MULTICAST(&in6->sin6_addr);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ||
		    IN6_IS_ADDR_MC_LINKLOCAL(&in6->sin6_addr))
			parts->scope_id = in6->sin6_scope_id;
	} else {
		return -EAFNOSUPPORT;
	}
	parts->is_wildcard = memcmp(parts->bytes, zero, parts->len) == 0;
	return 0;
}

static void sockaddr_make(struct sockaddr_storage *out, int family, const uint8_t *bytes,
			  uint32_t ifindex)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		memcpy(&in->sin_addr, bytes, 4);
		return;
	}
	memcpy(&in6->sin6_addr, bytes, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = ifindex;
}

/* All addresses of 127.0.0.0/8 are local, although the loopback interface has only one of them. */
static bool is_loopback_net(const struct parts *parts)
{
	return parts->family == AF_INET && parts->bytes[0] == 127;
}

/* The device of a local address; NULL: the address is not local. */
static const struct netdev *netdev_route_owner_of(const struct sockaddr *addr,
						  const struct parts *parts)
{
	const struct netdev *dev = netdev_by_addr(addr);

	return !dev && is_loopback_net(parts) ? netdev_loopback() : dev;
}

/*
 * Route to a local address: the device of the destination. The source address is the destination
 * address unless the caller specifies one.
 */
static int route_local(const struct sockaddr *dst, const struct parts *to, const struct parts *from,
		       struct sockaddr_storage *src_out, const struct netdev **dev)
{
	*dev = netdev_route_owner_of(dst, to);
	if (!*dev)
		*dev = netdev_loopback();
	if (!*dev)
		return -ENODEV;
	sockaddr_make(src_out, to->family, from ? from->bytes : to->bytes, (*dev)->dev_id);
	return 0;
}

static int route_out(const struct parts *to, const struct route_info *route,
		     const struct parts *from, struct sockaddr_storage *src_out,
		     const struct netdev **dev)
{
	if (!from && !route->has_src)
		return -EADDRNOTAVAIL;
	sockaddr_make(src_out, to->family, from ? from->bytes : route->src, route->ifindex);
	*dev = netdev_by_addr((struct sockaddr *)src_out);
	if (!*dev)
		*dev = netdev_by_id(route->ifindex);
	return *dev ? 0 : -ENODEV;
}

/*
 * Route to a multicast group from a local source address: the device of that address, even if the
 * multicast route uses another interface.
 */
static int route_group(const struct parts *to, const struct parts *from,
		       const struct sockaddr *src_hint, struct sockaddr_storage *src_out,
		       const struct netdev **dev, uint8_t *hop_limit)
{
	const struct netdev *owner = netdev_route_owner_of(src_hint, from);
	struct route_info route;
	int error;

	if (to->scope_id && to->scope_id != owner->dev_id)
		return -EADDRNOTAVAIL;
	error = netdev_query_route(netdev_query_socket(), to->family, to->bytes, from->bytes,
				   owner->dev_id, &route);
	if (error)
		return error == -EINVAL ? -ENETUNREACH : error;
	if (hop_limit)
		*hop_limit = netdev_hop_limit(&route, to->family);
	sockaddr_make(src_out, from->family, from->bytes, owner->dev_id);
	*dev = owner;
	return 0;
}

int netdev_route(const struct sockaddr *dst, const struct sockaddr *src_hint,
		 struct sockaddr_storage *src_out, const struct netdev **dev, uint8_t *hop_limit)
{
	struct parts to, hint, *from = NULL;
	struct route_info route;
	uint32_t scope_id;
	int error = parts_of(dst, &to);

	if (error)
		return error;
	if (src_hint && src_hint->sa_family != AF_UNSPEC) {
		error = parts_of(src_hint, &hint);
		if (error)
			return error;
		if (hint.family != to.family)
			return -EAFNOSUPPORT;
		if (!hint.is_wildcard) {
			if (!netdev_route_owner_of(src_hint, &hint))
				return -EADDRNOTAVAIL;
			from = &hint;
		}
	}
	if (to.is_group && from)
		return route_group(&to, from, src_hint, src_out, dev, hop_limit);
	scope_id = to.scope_id ? to.scope_id : from ? from->scope_id : 0;
	error = netdev_query_route(netdev_query_socket(), to.family, to.bytes,
				   from ? from->bytes : NULL, scope_id, &route);
	if (error == -EINVAL)
		return -ENETUNREACH;
	if (error)
		return error;
	if (hop_limit)
		*hop_limit = netdev_hop_limit(&route, to.family);
	if (route.is_local)
		return route_local(dst, &to, from, src_out, dev);
	return route_out(&to, &route, from, src_out, dev);
}
