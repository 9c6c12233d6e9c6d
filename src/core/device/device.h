/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_DEVICE_H
#define USRDMA_CORE_DEVICE_DEVICE_H

#include "core/object/objects.h"

/*
 * Attributes of the interfaces, as last reported by the daemon. Queries are answered from this
 * copy.
 */

/*
 * The daemon reported a change of an interface: queues the contexts' events and marks the device,
 * so that the next query asks the daemon. engine.lock held; does not block.
 */
void device_notice(struct engine *engine, const struct ipc_device_notice *notice);

/* Updates the device from the daemon if it changed; may block. No lock held. */
void device_refresh(struct engine *engine, struct device *device);

/*
 * The present device of the interface with this name, number and node GUID, or NULL. Asks the
 * daemon. If the view has several, the one with this rail; if none has it, any of them.
 */
struct device *device_known_as(struct engine *engine, const char *name, uint32_t dev_id,
			       uint64_t node_guid, unsigned int rail);

/* Whether the daemon still reports the device. */
bool device_is_present(struct device *device);

/* Copies the device's attributes. */
void device_info(struct device *device, struct ipc_device_reply *info);

/* The type of the GID at index (enum ibv_gid_type). */
uint8_t device_gid_type(struct device *device, uint32_t index);

/*
 * CPU instructions execute the atomics, so that they are atomic with respect to every thread of the
 * host (IBV_ATOMIC_GLOB). Programs that know only the value of most NICs and rxe do not use the
 * atomics of a device with another one: UCX 1.13, for example.
 */
#define ATOMIC_CAP IBV_ATOMIC_HCA

/* Whether the profile of the device permits atomic operations. */
static inline bool device_has_atomics(const struct device *device)
{
	return profile_value(device->profile, PROFILE_ATOMIC_CAP, ATOMIC_CAP) != IBV_ATOMIC_NONE;
}

/* The number of entries of the GID table, empty ones included. */
uint32_t device_gid_table_len(const struct device *device);

/*
 * The GID at index: 0; -EINVAL: beyond the table; -ENODATA: empty entry. engine.lock may be held.
 */
int device_gid(struct device *device, uint32_t index, struct ipc_gid *gid)
	__attribute__((warn_unused_result));

/*
 * The index of this GID in the table of the device, of type RoCE v2 if there are two entries; -1:
 * not found.
 */
int device_gid_index(struct device *device, const uint8_t raw[16]);

/*
 * Counts an object of the device, for the limits of its profile: 0, or -ENOMEM if the device has
 * the maximum. Each object that was counted is dropped once. engine.lock held.
 */
int device_count_add(struct engine *engine, struct device *device, enum device_object object)
	__attribute__((warn_unused_result));
void device_count_drop(struct engine *engine, struct device *device, enum device_object object);

/*
 * Whether the GID belongs to any device of this host according to the last report. The same daemon
 * then serves its QPs.
 */
bool device_owns_gid(struct engine *engine, const union ibv_gid *gid);

/*
 * The same, but also true if a GID table changed after the daemon was last asked. engine.lock may
 * be held.
 */
bool device_may_own_gid(struct engine *engine, const union ibv_gid *gid);

/*
 * The same as device_owns_gid(), but asks the daemon before it returns false. Blocks until the
 * daemon replies: engine.lock must not be held.
 */
bool device_find_gid(struct engine *engine, const union ibv_gid *gid);

/*
 * Called by the fork handler of the engine in the child of a fork(). The child's copy of the
 * devices may be incomplete, because another thread of the parent may have held device_lock.
 */
void device_after_fork_in_child(void);

/*
 * The largest path MTU that the interface's MTU permits, and the active MTU of the port, which can
 * be smaller (ADR 0073).
 */
enum ibv_mtu device_path_mtu(struct device *device);
enum ibv_mtu device_active_mtu(struct device *device);

#endif
