/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_DEVICE_H
#define USRDMA_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct rcm_session;

/*
 * An open device, shared by all ids of the process: one context, one default PD, and the limits of
 * connection parameters. Opened by the first id that is bound to it, or by rdma_get_devices().
 * Entry of its session's list, which devices_lock guards. Constant once it is in the list (except
 * xrcd, also guarded by devices_lock); never freed.
 */
struct rcm_device {
	struct list_head node;
	uint32_t dev_id; /* of usrdma_device_id() */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	/* for ids without an XRC domain of the application; created when first needed */
	struct ibv_xrcd *xrcd;
	uint8_t max_responder_resources;
	uint8_t max_initiator_depth;
	/* the GID table has two entries for each of the daemon's: RoCE v1, RoCE v2 */
	bool has_gid_pairs;
};

/*
 * The index in the device's GID table of the GID with index `index` in the daemon's table. The
 * tables differ if the process has selected a profile (profile/gid_layout.h). device: NULL if the
 * id has none.
 */
static inline uint8_t rcm_device_gid_index(const struct rcm_device *device, uint32_t index)
{
	return (uint8_t)(device && device->has_gid_pairs ? 2 * index + 1 : index);
}

/*
 * Gets the device with the daemon's dev_id; opens it if necessary. 0, -ENODEV if libibverbs has no
 * such device, or -errno.
 */
int rcm_device_get(struct rcm_session *session, uint32_t dev_id, struct rcm_device **device)
	__attribute__((warn_unused_result));

/* Gets the device's default XRC domain, which is private to this process. 0 or -errno. */
int rcm_device_xrcd(struct rcm_session *session, struct rcm_device *device, struct ibv_xrcd **xrcd)
	__attribute__((warn_unused_result));

#endif
