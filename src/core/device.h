/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_H
#define USRDMA_CORE_DEVICE_H

#include "core/objects.h"

/*
 * What the daemon says of an interface, kept here so that queries are answered without asking it.
 */

/* The daemon pushed that an interface changed: contexts get their event, and the next query asks anew. engine.lock
 * held; does not block. */
void device_notice(struct engine *engine, const struct ipc_device_notice *notice);

/* Brings the device up to date if it changed; may block on the daemon. No lock held. */
void device_refresh(struct engine *engine, struct device *device);

/* The device that another process, or this one, knows by these, or NULL. Asks the daemon. */
struct device *device_known_as(struct engine *engine, const char *name, uint32_t dev_id,
			       uint64_t node_guid);

/* Whether the daemon still has it. */
bool device_is_present(struct device *device);

/* A copy of all that is known of the device. */
void device_info(struct device *device, struct ipc_device_reply *info);

/* The GID at index: 0, -EINVAL beyond the table, -ENODATA for an empty entry. engine.lock may be held. */
int device_gid(struct device *device, uint32_t index, struct ipc_gid *gid)
	__attribute__((warn_unused_result));

/* Whether the GID is one of this host's, on whatever device: its QPs are then served by the same daemon. May block on
 * the daemon; engine.lock may be held. */
bool device_owns_gid(struct engine *engine, const union ibv_gid *gid);

/* The largest path MTU that fits the interface. */
enum ibv_mtu device_active_mtu(struct device *device);

#endif
