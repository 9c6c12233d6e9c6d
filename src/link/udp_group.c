/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_group.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/udp_socket.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* Holds memberships that the receiving socket had no room for. Dies with the last of them. */
struct extra_socket {
	struct list_head node; /* udp_groups.extras */
	int fd;
	unsigned int groups;
};

void udp_groups_init(struct udp_groups *groups, int fd)
{
	groups->fd = fd;
	list_init(&groups->extras);
}

static void extra_free(struct extra_socket *extra)
{
	list_del(&extra->node);
	close(extra->fd);
	free(extra);
}

void udp_groups_fini(struct udp_groups *groups)
{
	struct extra_socket *extra, *tmp;

	list_for_each_entry_safe(extra, tmp, &groups->extras, node)
		extra_free(extra);
}

static int set_group(int fd, int name, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	int level = gid_is_ipv4(group) ? IPPROTO_IP : IPPROTO_IPV6;
	struct group_req request = {.gr_interface = ifindex};

	gid_to_sockaddr(group, &request.gr_group);
	return setsockopt(fd, level, name, &request, sizeof(request)) ? -errno : 0;
}

int udp_group_join(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	return set_group(fd, MCAST_JOIN_GROUP, ifindex, group);
}

int udp_group_leave(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	return set_group(fd, MCAST_LEAVE_GROUP, ifindex, group);
}

/*
 * The option for IPv6 is of Linux 4.20. Older kernels have every group in every socket, which costs time and nothing
 * else.
 */
int udp_group_hear_all(int fd, bool hears_all)
{
	int value = hears_all;

	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &value, sizeof(value)))
		return -errno;
	if (!setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &value, sizeof(value)) ||
	    errno == ENOPROTOOPT)
		return 0;
	return -errno;
}

/* Out of room for memberships in one socket: a count for IPv4, memory for IPv6. */
static bool is_full(int error)
{
	return error == -ENOBUFS || error == -ENOMEM;
}

static int extra_new(struct udp_groups *groups, struct extra_socket **made)
{
	struct extra_socket *extra = calloc(1, sizeof(*extra));
	int ret;

	if (!extra)
		return -ENOMEM;
	extra->fd = udp_socket_open();
	if (extra->fd < 0) {
		ret = extra->fd;
		goto err_socket;
	}
	ret = udp_group_hear_all(groups->fd, true);
	if (ret)
		goto err_hear;
	list_add_tail(&extra->node, &groups->extras);
	*made = extra;
	return 0;

err_hear:
	close(extra->fd);
err_socket:
	free(extra);
	return ret;
}

static void extra_drop(struct udp_groups *groups, struct extra_socket *extra)
{
	extra_free(extra);
	/* If the kernel will not, the socket goes on hearing what its owner then has no use for. */
	if (list_is_empty(&groups->extras))
		udp_group_hear_all(groups->fd, false);
}

static int extra_join(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct extra_socket *extra;
	int ret;

	list_for_each_entry(extra, &groups->extras, node) {
		ret = udp_group_join(extra->fd, ifindex, group);
		if (!ret)
			extra->groups++;
		if (!is_full(ret))
			return ret;
	}
	ret = extra_new(groups, &extra);
	if (ret)
		return ret;
	ret = udp_group_join(extra->fd, ifindex, group);
	if (ret)
		extra_drop(groups, extra);
	else
		extra->groups++;
	return ret;
}

int udp_groups_join(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	int ret = udp_group_join(groups->fd, ifindex, group);

	return is_full(ret) ? extra_join(groups, ifindex, group) : ret;
}

void udp_groups_leave(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct extra_socket *extra;

	if (!udp_group_leave(groups->fd, ifindex, group))
		return;
	list_for_each_entry(extra, &groups->extras, node) {
		if (udp_group_leave(extra->fd, ifindex, group))
			continue;
		if (--extra->groups == 0)
			extra_drop(groups, extra);
		return;
	}
}
