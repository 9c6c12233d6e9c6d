/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/device/device.h"
#include "roce/qp.h"

/*
 * Replaces link-local GIDs of two QPs of this host by 127.0.0.1. Every device has a link-local GID
 * 0, but the kernel may not have that address: `lo` has no link-local address. Within one host any
 * address can be used, and 127.0.0.1 always exists. It also connects link-local GIDs of two
 * devices.
 */
static void loop_back(struct engine *engine, struct link_path *path)
{
	const struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
	union ibv_gid remote;

	memcpy(remote.raw, path->remote_gid, GID_BYTES);
	if (!gid_is_link_local(path->local_gid) || !gid_is_link_local(path->remote_gid) ||
	    !device_owns_gid(engine, &remote))
		return;
	gid_from_ipv4(path->local_gid, &loopback);
	gid_from_ipv4(path->remote_gid, &loopback);
}

static int path_set(struct link_path *path, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
		    const struct ibv_global_route *route)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->local_gid, local_gid, GID_BYTES);
	memcpy(path->remote_gid, route->dgid.raw, GID_BYTES);
	if (gid_is_ipv4(path->local_gid) != gid_is_ipv4(path->remote_gid))
		return -EINVAL;
	path->ifindex = ifindex;
	path->flow_label = route->flow_label;
	path->traffic_class = (uint8_t)(route->traffic_class & ~ROCE_ECN_MASK);
	path->hop_limit = route->hop_limit ? route->hop_limit : ROCE_HOP_LIMIT_DEFAULT;
	return 0;
}

int path_fill(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
	      const struct ibv_global_route *route, struct link_path *path)
{
	int ret = path_set(path, local_gid, ifindex, route);

	if (!ret)
		loop_back(roce->engine, path);
	return ret;
}

/*
 * The receiver of a datagram finds the addresses in the GRH, and may ignore those of other devices.
 * Connected QPs do not see them, and compare them: the kernel may have assigned the address between
 * the calls of the two sides.
 */
int path_fill_datagram(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
		       const struct ibv_global_route *route, struct link_path *path)
{
	int ret = path_set(path, local_gid, ifindex, route);

	/* link_has_address() costs system calls. */
	if (!ret && !(gid_is_link_local(path->local_gid) &&
		      !memcmp(path->local_gid, path->remote_gid, GID_BYTES) &&
		      link_has_address(roce->link, path->local_gid, ifindex)))
		loop_back(roce->engine, path);
	return ret;
}
