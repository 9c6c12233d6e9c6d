/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/udp_group.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "link/udp_socket.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/*
 * A socket with memberships for which the receiving socket had no room. Closed with the last of
 * them.
 */
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
	sys_close(extra->fd);
	free(extra);
}

void udp_groups_fini(struct udp_groups *groups)
{
	struct extra_socket *extra, *tmp;

	list_for_each_entry_safe(extra, tmp, &groups->extras, node)
		extra_free(extra);
}

void udp_groups_disown(struct udp_groups *groups)
{
	struct extra_socket *extra;

	list_for_each_entry(extra, &groups->extras, node) {
		sys_close(extra->fd);
		extra->fd = -1;
	}
}

static int udp_group_set_group(int fd, int name, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	int level = gid_is_ipv4(group) ? IPPROTO_IP : IPPROTO_IPV6;
	struct group_req request = {.gr_interface = ifindex};

	gid_to_sockaddr(group, &request.gr_group);
	return setsockopt(fd, level, name, &request, sizeof(request)) ? -errno : 0;
}

int udp_group_join(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	return udp_group_set_group(fd, MCAST_JOIN_GROUP, ifindex, group);
}

int udp_group_leave(int fd, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	return udp_group_set_group(fd, MCAST_LEAVE_GROUP, ifindex, group);
}

/*
 * IPV6_MULTICAST_ALL exists since Linux 4.20. Older kernels deliver every group of the host to
 * every socket; the library drops what it did not join.
 */
int udp_group_receive_all(int fd, bool receives_all)
{
	int value = receives_all;

	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &value, sizeof(value)))
		return -errno;
	if (!setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &value, sizeof(value)) ||
	    errno == ENOPROTOOPT)
		return 0;
	return -errno;
}

/*
 * The errors that mean that one socket has no room for another membership: a count for IPv4, memory
 * for IPv6.
 */
static bool udp_group_is_full(int error)
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
	ret = udp_group_receive_all(groups->fd, true);
	if (ret)
		goto err_hear;
	list_add_tail(&extra->node, &groups->extras);
	*made = extra;
	return 0;

err_hear:
	sys_close(extra->fd);
err_socket:
	free(extra);
	return ret;
}

static void extra_drop(struct udp_groups *groups, struct extra_socket *extra)
{
	extra_free(extra);
	/*
	 * If this fails, the socket goes on receiving groups that the link did not join; its owner
	 * drops them.
	 */
	if (list_is_empty(&groups->extras))
		udp_group_receive_all(groups->fd, false);
}

static int extra_join(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct extra_socket *extra;
	int ret;

	list_for_each_entry(extra, &groups->extras, node) {
		ret = udp_group_join(extra->fd, ifindex, group);
		if (!ret)
			extra->groups++;
		if (!udp_group_is_full(ret))
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

	return udp_group_is_full(ret) ? extra_join(groups, ifindex, group) : ret;
}

int udp_groups_leave(struct udp_groups *groups, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct extra_socket *extra;

	if (!udp_group_leave(groups->fd, ifindex, group))
		return 0;
	list_for_each_entry(extra, &groups->extras, node) {
		if (udp_group_leave(extra->fd, ifindex, group))
			continue;
		if (--extra->groups == 0)
			extra_drop(groups, extra);
		return 0;
	}
	return -EADDRNOTAVAIL;
}
