/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/device.h"
#include "roce/qp.h"

/*
 * Replaces link-local GIDs of two QPs of this host by 127.0.0.1. Every device has a link-local GID 0, but the kernel
 * may not have that address: `lo` has no link-local address. Within one host any address can be used, and 127.0.0.1
 * always exists.
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

int path_fill(struct roce *roce, const uint8_t local_gid[GID_BYTES], uint32_t ifindex,
	      const struct ibv_global_route *route, struct link_path *path)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->local_gid, local_gid, GID_BYTES);
	memcpy(path->remote_gid, route->dgid.raw, GID_BYTES);
	if (gid_is_ipv4(path->local_gid) != gid_is_ipv4(path->remote_gid))
		return -EINVAL;
	loop_back(roce->engine, path);
	path->ifindex = ifindex;
	path->flow_label = route->flow_label;
	path->traffic_class = (uint8_t)(route->traffic_class & ~ROCE_ECN_MASK);
	path->hop_limit = route->hop_limit ? route->hop_limit : ROCE_HOP_LIMIT_DEFAULT;
	return 0;
}
