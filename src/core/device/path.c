/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/path.h"

#include "core/device/av_call.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "wire/gid.h"

/* Of packets to an address of this host, whose route has the kernel's default hop limit. */
#define HOP_LIMIT_LOCAL 64

/* Whether a QP or a datagram of this process can reach other hosts. */
static bool is_routed(const struct engine *engine)
{
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->is_routed && transport_is_chosen(engine, transports[i]))
			return !engine->client.hello.wire_errno;
	}
	return false;
}

/*
 * Linux derives the MAC address from a link-local destination if the source GID is of type RoCE v1,
 * and resolves all other destinations. Only the GID tables of profiles contain this type.
 */
static bool is_derived(struct device *device, const struct ibv_global_route *grh)
{
	return gid_is_link_local(grh->dgid.raw) &&
	       device_gid_type(device, grh->sgid_index) == IBV_GID_TYPE_ROCE_V1;
}

int transports_open_path(struct engine *engine, struct device *device, struct ibv_ah_attr *attr,
			 const struct ipc_gid *source, uint32_t qpn, bool route_only)
{
	struct ibv_global_route *grh = &attr->grh;
	bool is_local = device_owns_gid(engine, &grh->dgid);
	bool is_resolved = !is_local && is_routed(engine) && !is_derived(device, grh);

	engine_assert_unlocked(engine);
	if (gid_is_multicast(grh->dgid.raw))
		return 0;
	if (is_resolved) {
		int ret = av_call_resolve(engine, source, &grh->dgid, route_only, &is_local,
					  &grh->hop_limit);

		if (ret || !is_local)
			return ret;
	}
	if (is_local)
		grh->hop_limit = HOP_LIMIT_LOCAL;
	/* Also queries the daemon, so that an address that was added recently is found. */
	if (!device_find_gid(engine, &grh->dgid))
		return 0;
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->connect_peer && transport_is_chosen(engine, transports[i]))
			transports[i]->connect_peer(engine, qpn);
	}
	return 0;
}
