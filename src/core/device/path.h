/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_PATH_H
#define USRDMA_CORE_DEVICE_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct device;
struct engine;
struct ipc_gid;

/*
 * To be called before bind() or ah_open() with an address vector that ah_attr_check() has accepted,
 * and its source GID: finds out from the daemon whether the destination belongs to this host. If
 * so, requests a connection to the owner of the QPN (0: none). Otherwise resolves the destination
 * if a transport is routed; a multicast group needs no resolution. Replaces the hop limit by that
 * of the route, as Linux does for every destination that it resolves. route_only: as in
 * av_call_resolve(), whose -errno is returned: -EIO if the daemon has ended, any other one if the
 * destination cannot be reached. Called without locks, so that a daemon or a kernel
 * that does not reply delays only the caller.
 */
int transports_open_path(struct engine *engine, struct device *device, struct ibv_ah_attr *attr,
			 const struct ipc_gid *source, uint32_t qpn, bool route_only)
	__attribute__((warn_unused_result));

#endif
