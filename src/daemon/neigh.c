/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/neigh.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/netdev.h"
#include "daemon/netdev_query.h"

#define DISCARD_PORT  9
#define MONITOR_BYTES 32768
#define REQUEST_BYTES 256

/*
 * The neighbour watch of this process's network namespace. Opened by the first start, closed by
 * neigh_close().
 */
static struct {
	struct mnl_socket *sock; /* NULL: not open */
	uv_poll_t poll;
	void (*on_change)(void *ctx, const struct neigh_hop *hop, enum neigh_state state);
	void *ctx;
} watch;

static socklen_t addr_bytes(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

static const void *ip_of(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)addr)->sin_addr;
	return &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
}

/* 0: not a link-local address. */
static uint32_t scope_of(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;

	return addr->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ?
		       in6->sin6_scope_id :
		       0;
}

static void gid_from_ip(uint8_t gid[GID_BYTES], int family, const void *ip)
{
	struct in_addr in;

	if (family == AF_INET) {
		memcpy(&in, ip, sizeof(in));
		gid_from_ipv4(gid, &in);
	} else {
		memcpy(gid, ip, GID_BYTES);
	}
}

bool neigh_hop_to(const struct sockaddr *dst, const struct sockaddr *src, struct neigh_hop *hop)
{
	const struct netdev *dev;
	struct route_info route;
	uint8_t gid[GID_BYTES];

	if (!gid_from_sockaddr(gid, dst) || gid_is_multicast(gid) || netdev_by_gid(gid, NULL))
		return false;
	if (netdev_query_route(netdev_query_socket(), dst->sa_family, ip_of(dst), ip_of(src),
			       scope_of(dst) ? scope_of(dst) : scope_of(src), &route))
		return false;
	dev = netdev_by_id(route.ifindex);
	if (route.is_local || (dev && dev->has_no_neighbours))
		return false;
	hop->ifindex = route.ifindex;
	if (route.gateway_family)
		gid_from_ip(hop->gid, route.gateway_family, route.gateway);
	else
		memcpy(hop->gid, gid, GID_BYTES);
	return true;
}

static enum neigh_state state_of(uint16_t nud)
{
	if (nud & (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE))
		return NEIGH_VALID;
	return nud & NUD_FAILED ? NEIGH_FAILED : NEIGH_UNKNOWN;
}

static int on_entry(const struct nlmsghdr *nlh, void *ctx)
{
	enum neigh_state *state = ctx;

	if (nlh->nlmsg_type == RTM_NEWNEIGH)
		*state = state_of(((const struct ndmsg *)mnl_nlmsg_get_payload(nlh))->ndm_state);
	return MNL_CB_OK;
}

enum neigh_state neigh_state(const struct neigh_hop *hop)
{
	char buffer[REQUEST_BYTES] __attribute__((aligned(8))) = {0};
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	enum neigh_state state = NEIGH_UNKNOWN;
	bool is_ipv4 = gid_is_ipv4(hop->gid);
	struct ndmsg *entry;
	int error;

	nlh->nlmsg_type = RTM_GETNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	entry = mnl_nlmsg_put_extra_header(nlh, sizeof(*entry));
	entry->ndm_family = is_ipv4 ? AF_INET : AF_INET6;
	entry->ndm_ifindex = (int)hop->ifindex;
	mnl_attr_put(nlh, NDA_DST, is_ipv4 ? 4 : GID_BYTES, hop->gid + (is_ipv4 ? 12 : 0));
	error = netdev_query_send(netdev_query_socket(), nlh, on_entry, &state);
	return error && error != -ENOENT ? NEIGH_VALID : state;
}

static int set_one_hop(int fd, int family)
{
	const int one = 1;

	return family == AF_INET ?
		       setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof(one)) :
		       setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof(one));
}

static void set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

int neigh_solicit(const struct sockaddr *dst, const struct sockaddr *src)
{
	struct sockaddr_storage to = {0}, from = {0};
	int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	memcpy(&to, dst, addr_bytes(dst));
	memcpy(&from, src, addr_bytes(src));
	set_port(&to, DISCARD_PORT);
	set_port(&from, 0);
	if (set_one_hop(fd, dst->sa_family) ||
	    (bind(fd, (struct sockaddr *)&from, addr_bytes(src)) && errno != EADDRNOTAVAIL) ||
	    sendto(fd, NULL, 0, 0, (struct sockaddr *)&to, addr_bytes(dst)) < 0)
		error = -errno;
	close(fd);
	return error;
}

static int on_attribute(const struct nlattr *attr, void *ctx)
{
	const struct nlattr **found = ctx;

	if (mnl_attr_get_type(attr) == NDA_DST)
		*found = attr;
	return MNL_CB_OK;
}

static int on_message(const struct nlmsghdr *nlh, void *ctx)
{
	const struct ndmsg *entry = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *dst = NULL;
	struct neigh_hop hop;

	(void)ctx;
	if (nlh->nlmsg_type != RTM_NEWNEIGH || mnl_nlmsg_get_payload_len(nlh) < sizeof(*entry))
		return MNL_CB_OK;
	if (mnl_attr_parse(nlh, sizeof(*entry), on_attribute, &dst) < 0 || !dst)
		return MNL_CB_OK;
	if (mnl_attr_get_payload_len(dst) != (entry->ndm_family == AF_INET ? 4 : GID_BYTES) ||
	    (entry->ndm_family != AF_INET && entry->ndm_family != AF_INET6))
		return MNL_CB_OK;
	hop.ifindex = (uint32_t)entry->ndm_ifindex;
	gid_from_ip(hop.gid, entry->ndm_family, mnl_attr_get_payload(dst));
	if (state_of(entry->ndm_state) != NEIGH_UNKNOWN)
		watch.on_change(watch.ctx, &hop, state_of(entry->ndm_state));
	return MNL_CB_OK;
}

static void neigh_on_readable(uv_poll_t *poll, int status, int events)
{
	char buffer[MONITOR_BYTES] __attribute__((aligned(8)));
	ssize_t len;

	(void)poll;
	(void)status;
	(void)events;
	while ((len = mnl_socket_recvfrom(watch.sock, buffer, sizeof(buffer))) > 0)
		mnl_cb_run(buffer, (size_t)len, 0, 0, on_message, NULL);
	if (len < 0 && errno == ENOBUFS)
		watch.on_change(watch.ctx, NULL, NEIGH_UNKNOWN);
}

static int watch_open(uv_loop_t *loop)
{
	struct mnl_socket *sock = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int error;

	if (!sock)
		return -errno;
	error = mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : 0;
	if (!error)
		error = uv_poll_init(loop, &watch.poll, mnl_socket_get_fd(sock));
	if (error) {
		mnl_socket_close(sock);
		return error;
	}
	watch.sock = sock;
	return 0;
}

int neigh_watch_start(uv_loop_t *loop,
		      void (*on_change)(void *ctx, const struct neigh_hop *hop,
					enum neigh_state state),
		      void *ctx)
{
	int group = RTNLGRP_NEIGH;
	int error = watch.sock ? 0 : watch_open(loop);

	if (error)
		return error;
	watch.on_change = on_change;
	watch.ctx = ctx;
	if (mnl_socket_setsockopt(watch.sock, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)))
		return -errno;
	return uv_poll_start(&watch.poll, UV_READABLE, neigh_on_readable);
}

void neigh_watch_stop(void)
{
	int group = RTNLGRP_NEIGH;

	if (!watch.sock)
		return;
	uv_poll_stop(&watch.poll);
	if (mnl_socket_setsockopt(watch.sock, NETLINK_DROP_MEMBERSHIP, &group, sizeof(group)))
		log_debug("cannot leave the netlink group of neighbour entries: %m");
}

void neigh_close(void)
{
	if (!watch.sock)
		return;
	uv_close((uv_handle_t *)&watch.poll, NULL);
	mnl_socket_close(watch.sock);
	watch.sock = NULL;
}
