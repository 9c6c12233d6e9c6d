/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/transport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/av_call.h"
#include "core/device.h"
#include "core/engine.h"
#include "core/lock_check.h"
#include "wire/gid.h"

#define NAMES_BYTES 64
/* Of packets to an address of this host, whose route has the kernel's default hop limit. */
#define HOP_LIMIT_LOCAL 64

static void complain(const char *wanted)
{
	static atomic_flag has_complained = ATOMIC_FLAG_INIT;
	char names[NAMES_BYTES] = "";

	if (atomic_flag_test_and_set(&has_complained))
		return;
	for (size_t i = 0; transports[i]; i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used ? " or " : "",
			 transports[i]->name);
	}
	log_user("invalid USRDMA_TRANSPORT '%s': no RDMA devices; use %s", wanted, names);
}

int transport_choose(struct engine *engine)
{
	const char *wanted = secure_getenv("USRDMA_TRANSPORT");

	engine->only_transport = NULL;
	if (!wanted || !*wanted)
		return 0;
	for (size_t i = 0; transports[i]; i++) {
		if (!strcmp(wanted, transports[i]->name))
			engine->only_transport = transports[i];
	}
	if (engine->only_transport)
		return 0;
	complain(wanted);
	return -EINVAL;
}

void transport_explain(const struct engine *engine)
{
	static atomic_flag is_explained = ATOMIC_FLAG_INIT;

	if (!engine->only_transport || engine->client.hello.wire_errno)
		ipc_explain_wire(engine->client.hello.wire_errno);
	else if (!atomic_flag_test_and_set(&is_explained))
		log_user("USRDMA_TRANSPORT=%s: this transport does not reach the peer",
			 engine->only_transport->name);
}

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

bool transport_is_chosen(const struct engine *engine, const struct transport *transport)
{
	return !engine->only_transport || engine->only_transport == transport;
}
