/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_DEVICE_H
#define USRDMA_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"

struct rcm_session;

/*
 * A device as every id of the process sees it: one context, one default PD, and the limits that
 * connection parameters are checked against. Opened by the first id that is bound to it, or by
 * rdma_get_devices; lives in its session's list, guarded there by devices_lock, constant once it is
 * in the list, and never dies.
 */
struct rcm_device {
	struct list_head node;
	uint32_t dev_id; /* the interface index, as in ibv_get_device_index() */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd; /* of the ids that bring none of their own; made when one needs it */
	uint8_t max_responder_resources;
	uint8_t max_initiator_depth;
};

/*
 * The device that the daemon calls dev_id. 0, -ENODEV if libibverbs has no such device, or -errno.
 */
int rcm_device_get(struct rcm_session *session, uint32_t dev_id, struct rcm_device **device)
	__attribute__((warn_unused_result));

/* The device's own XRC domain, which no other process is in. 0 or -errno. */
int rcm_device_xrcd(struct rcm_session *session, struct rcm_device *device, struct ibv_xrcd **xrcd)
	__attribute__((warn_unused_result));

#endif
