/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/netdev_query.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/netdev_gids.h"

#define BUFFER_BYTES  32768
#define FIRST_ROOM    16
#define REQUEST_BYTES 256

int netdev_query_open(struct mnl_socket **sock)
{
	struct mnl_socket *opened = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int error;

	if (!opened)
		return -errno;
	if (mnl_socket_bind(opened, 0, MNL_SOCKET_AUTOPID) < 0) {
		error = -errno;
		mnl_socket_close(opened);
		return error;
	}
	*sock = opened;
	return 0;
}

int netdev_query_send(struct mnl_socket *sock, struct nlmsghdr *request,
		      int (*on_message)(const struct nlmsghdr *nlh, void *ctx), void *ctx)
{
	static uint32_t last_seq;
	char buffer[BUFFER_BYTES];
	uint32_t portid = mnl_socket_get_portid(sock);
	int disposition = MNL_CB_OK;

	request->nlmsg_seq = ++last_seq;
	if (mnl_socket_sendto(sock, request, request->nlmsg_len) < 0)
		return -errno;
	while (disposition > MNL_CB_STOP) {
		ssize_t len = mnl_socket_recvfrom(sock, buffer, sizeof(buffer));

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return -errno;
		disposition = mnl_cb_run(buffer, (size_t)len, request->nlmsg_seq, portid,
					 on_message, ctx);
		/* ESRCH: the rest of the reply to a preceding request; it is skipped. */
		if (disposition < 0 && errno == ESRCH)
			disposition = MNL_CB_OK;
		/* The reply to a request without NLM_F_DUMP is one message without NLMSG_DONE. */
		if (disposition > MNL_CB_STOP && !(request->nlmsg_flags & NLM_F_DUMP))
			break;
	}
	return disposition < 0 ? -errno : 0;
}

/* Grows the array if needed, so that it can store one more element. NULL: out of memory. */
static void *netdev_query_grow(void *array, size_t *room, size_t count, size_t element_bytes)
{
	size_t wanted = *room ? *room * 2 : FIRST_ROOM;
	void *grown;

	if (count < *room)
		return array;
	grown = realloc(array, wanted * element_bytes);
	if (grown)
		*room = wanted;
	return grown;
}

/* The kernel terminates the name of the kind by a NUL. */
static bool is_kind(const char *kind, size_t len, const char *name)
{
	return len == strlen(name) + 1 && !memcmp(kind, name, len);
}

/*
 * Each of the following callbacks processes one attribute. An attribute of an unexpected length is
 * ignored.
 */
static int on_info_attribute(const struct nlattr *attr, void *ctx)
{
	struct link_info *link = ctx;
	const char *kind = mnl_attr_get_payload(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	if (mnl_attr_get_type(attr) != IFLA_INFO_KIND)
		return MNL_CB_OK;
	link->is_dummy = is_kind(kind, len, "dummy");
	link->is_bond = is_kind(kind, len, "bond");
	return MNL_CB_OK;
}

static int on_link_attribute(const struct nlattr *attr, void *ctx)
{
	struct link_info *link = ctx;
	size_t len = mnl_attr_get_payload_len(attr);

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		if (len > 0 && len <= sizeof(link->name))
			memcpy(link->name, mnl_attr_get_payload(attr), len - 1);
		return MNL_CB_OK;
	case IFLA_MTU:
		if (len == sizeof(uint32_t))
			link->mtu_bytes = mnl_attr_get_u32(attr);
		return MNL_CB_OK;
	case IFLA_ADDRESS:
		if (len <= sizeof(link->mac)) {
			memcpy(link->mac, mnl_attr_get_payload(attr), len);
			link->mac_len = len;
		}
		return MNL_CB_OK;
	case IFLA_LINKINFO:
		return mnl_attr_parse_nested(attr, on_info_attribute, link);
	default:
		return MNL_CB_OK;
	}
}

static int on_link(const struct nlmsghdr *nlh, void *ctx)
{
	struct snapshot *snapshot = ctx;
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct link_info link = {.ifindex = (uint32_t)info->ifi_index, .flags = info->ifi_flags};
	struct link_info *links;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	if (mnl_attr_parse(nlh, sizeof(*info), on_link_attribute, &link) < 0)
		return MNL_CB_OK;
	links = netdev_query_grow(snapshot->links, &snapshot->link_room, snapshot->link_count,
				  sizeof(link));
	if (!links) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	snapshot->links = links;
	links[snapshot->link_count++] = link;
	return MNL_CB_OK;
}

/*
 * False during duplicate address detection and after it failed. An optimistic address is usable
 * during the detection.
 */
static bool is_usable(uint32_t flags)
{
	return !(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) || (flags & IFA_F_OPTIMISTIC);
}

struct addr_attributes {
	size_t len; /* bytes of an address of this family */
	const void *address;
	const void *local;
	uint32_t flags;
};

static int on_addr_attribute(const struct nlattr *attr, void *ctx)
{
	struct addr_attributes *found = ctx;
	uint16_t type = mnl_attr_get_type(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	if (type == IFA_FLAGS && len == sizeof(uint32_t))
		found->flags = mnl_attr_get_u32(attr);
	else if (type == IFA_ADDRESS && len == found->len)
		found->address = mnl_attr_get_payload(attr);
	else if (type == IFA_LOCAL && len == found->len)
		found->local = mnl_attr_get_payload(attr);
	return MNL_CB_OK;
}

static int on_addr(const struct nlmsghdr *nlh, void *ctx)
{
	struct snapshot *snapshot = ctx;
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(nlh);
	struct addr_info addr = {.ifindex = info->ifa_index};
	struct addr_attributes found = {
		.len = info->ifa_family == AF_INET ? 4 : 16,
		.flags = info->ifa_flags,
	};
	struct addr_info *addrs;
	const void *address;

	if (nlh->nlmsg_type != RTM_NEWADDR)
		return MNL_CB_OK;
	if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)
		return MNL_CB_OK;
	if (mnl_attr_parse(nlh, sizeof(*info), on_addr_attribute, &found) < 0)
		return MNL_CB_OK;
	/* On a point-to-point link IFA_ADDRESS is the address of the peer. */
	address = found.local ? found.local : found.address;
	if (!address || !is_usable(found.flags))
		return MNL_CB_OK;
	if (info->ifa_family == AF_INET)
		gid_from_ipv4(addr.gid, address);
	else
		memcpy(addr.gid, address, sizeof(addr.gid));
	addrs = netdev_query_grow(snapshot->addrs, &snapshot->addr_room, snapshot->addr_count,
				  sizeof(addr));
	if (!addrs) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	snapshot->addrs = addrs;
	addrs[snapshot->addr_count++] = addr;
	return MNL_CB_OK;
}

static int dump(struct mnl_socket *sock, uint16_t type, size_t header_bytes, mnl_cb_t on_message,
		struct snapshot *snapshot)
{
	char buffer[REQUEST_BYTES] __attribute__((aligned(8))) = {0};
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(nlh, header_bytes);
	return netdev_query_send(sock, nlh, on_message, snapshot);
}

int netdev_query_all(struct mnl_socket *sock, struct snapshot *snapshot)
{
	int error;

	*snapshot = (struct snapshot){0};
	error = dump(sock, RTM_GETLINK, sizeof(struct ifinfomsg), on_link, snapshot);
	if (!error)
		error = dump(sock, RTM_GETADDR, sizeof(struct ifaddrmsg), on_addr, snapshot);
	if (error)
		snapshot_free(snapshot);
	return error;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->links);
	free(snapshot->addrs);
	*snapshot = (struct snapshot){0};
}

struct route_reply {
	struct route_info *route;
	size_t addr_bytes;
	int error;
};

/* Stores the gateway address, which follows `offset` bytes of the attribute's payload. */
static void set_gateway(struct route_info *route, int family, const struct nlattr *attr,
			size_t offset)
{
	const uint8_t *bytes = mnl_attr_get_payload(attr);
	size_t len = family == AF_INET ? 4 : 16;

	if ((family != AF_INET && family != AF_INET6) ||
	    mnl_attr_get_payload_len(attr) < offset + len)
		return;
	route->gateway_family = family;
	memcpy(route->gateway, bytes + offset, len);
}

static int on_route_metric(const struct nlattr *attr, void *ctx)
{
	struct route_info *route = ctx;

	if (mnl_attr_get_type(attr) == RTAX_HOPLIMIT &&
	    mnl_attr_get_payload_len(attr) == sizeof(uint32_t))
		route->hop_limit = (uint8_t)mnl_attr_get_u32(attr);
	return MNL_CB_OK;
}

static int on_route_attribute(const struct nlattr *attr, void *ctx)
{
	struct route_reply *response = ctx;
	uint16_t type = mnl_attr_get_type(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	if (type == RTA_OIF && len == sizeof(uint32_t))
		response->route->ifindex = mnl_attr_get_u32(attr);
	if (type == RTA_PREFSRC && len == response->addr_bytes) {
		memcpy(response->route->src, mnl_attr_get_payload(attr), len);
		response->route->has_src = true;
	}
	if (type == RTA_GATEWAY && len == response->addr_bytes)
		set_gateway(response->route, len == 4 ? AF_INET : AF_INET6, attr, 0);
	if (type == RTA_VIA && len > sizeof(struct rtvia))
		set_gateway(response->route, *(const uint16_t *)mnl_attr_get_payload(attr), attr,
			    offsetof(struct rtvia, rtvia_addr));
	if (type == RTA_METRICS)
		return mnl_attr_parse_nested(attr, on_route_metric, response->route);
	return MNL_CB_OK;
}

static int on_route(const struct nlmsghdr *nlh, void *ctx)
{
	struct route_reply *response = ctx;
	const struct rtmsg *info = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	/* Routes of other types (broadcast, blackhole, ...) lead to no RDMA peer. */
	if (info->rtm_type != RTN_UNICAST && info->rtm_type != RTN_LOCAL &&
	    info->rtm_type != RTN_MULTICAST)
		return MNL_CB_OK;
	response->route->is_local = info->rtm_type == RTN_LOCAL;
	if (mnl_attr_parse(nlh, sizeof(*info), on_route_attribute, response) < 0)
		return MNL_CB_OK;
	response->error = 0;
	return MNL_CB_OK;
}

int netdev_query_route(struct mnl_socket *sock, int family, const void *dst, const void *src,
		       uint32_t ifindex, struct route_info *route)
{
	char buffer[REQUEST_BYTES] __attribute__((aligned(8))) = {0};
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	size_t addr_bytes = family == AF_INET ? 4 : 16;
	struct route_reply response = {
		.route = route,
		.addr_bytes = addr_bytes,
		.error = -ENETUNREACH,
	};
	struct rtmsg *info;
	int error;

	*route = (struct route_info){0};
	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	info->rtm_family = (uint8_t)family;
	info->rtm_dst_len = (uint8_t)(addr_bytes * 8);
	mnl_attr_put(nlh, RTA_DST, addr_bytes, dst);
	if (src) {
		info->rtm_src_len = (uint8_t)(addr_bytes * 8);
		mnl_attr_put(nlh, RTA_SRC, addr_bytes, src);
	}
	if (ifindex)
		mnl_attr_put_u32(nlh, RTA_OIF, ifindex);
	error = netdev_query_send(sock, nlh, on_route, &response);
	return error ? error : response.error;
}

uint32_t netdev_query_speed(const char *name)
{
	struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
	struct ifreq request = {.ifr_data = (void *)&command};
	uint32_t speed = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	memcpy(request.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		/* Not ethtool_cmd_speed(), which shifts a bit into the sign of an int. */
		speed = (uint32_t)command.speed_hi << 16 | command.speed;
	close(fd);
	return speed == (uint32_t)SPEED_UNKNOWN || speed == UINT16_MAX ? 0 : speed;
}
