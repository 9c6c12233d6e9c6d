/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_AH_H
#define USRDMA_CORE_DEVICE_AH_H

#include "core/object/objects.h"
#include "ipc/msg.h"
#include "ipc/msg_failure.h"

/*
 * An address handle: the destination of a datagram. Immutable. The application holds a reference
 * until ibv_destroy_ah(), and so does each WQE that uses the handle. An application may destroy it
 * while sends are queued, as with providers that copy the address vector into the WQE. The last
 * reference frees it. References are guarded by engine.lock.
 */
struct ah {
	struct ibv_ah pub;
	struct pd *pd; /* not valid after the application destroyed the handle */
	uint32_t pd_id;
	struct engine *engine;
	struct ibv_ah_attr attr;
	uint8_t local_gid[16];
	uint32_t ifindex; /* of local_gid */
	const struct transport *transport;
	void *transport_ah; /* the transport's state of this handle */
	unsigned int users;
};

/* Why an address vector is refused; the numbers are described in ipc/msg_failure.h. */
struct ah_refusal {
	enum ipc_failure_reason reason; /* IPC_REASON_NONE: it has none */
	uint64_t numbers[2];
};

/*
 * Whether an address vector can be used on the device: 0 and its source GID, or -EINVAL and the
 * refusal. It must have a GRH and a valid source GID index (IBA A17 (RoCEv2)), and the GIDs must
 * have one family, as with Linux.
 */
int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr, struct ipc_gid *source,
		  struct ah_refusal *refusal) __attribute__((warn_unused_result));

/* Take and release a reference; the last release frees the handle. engine.lock held. */
void ah_get(struct ah *ah);
void ah_put(struct ah *ah);

static inline struct ah *to_ah(struct ibv_ah *ah)
{
	return (struct ah *)ah;
}

#endif
