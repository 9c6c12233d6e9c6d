/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_AH_H
#define USRDMA_CORE_AH_H

#include "core/objects.h"

/*
 * An address handle: the destination of a datagram. Immutable. The application holds a reference until
 * ibv_destroy_ah(), and so does each WQE that uses the handle. An application may destroy it while sends are queued, as
 * with providers that copy the address vector into the WQE. The last reference frees it. References are guarded by
 * engine.lock.
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

/*
 * Whether an address vector can be used on the device: 0, or -EINVAL. It must have a GRH and a valid source GID index
 * (IBA A17 (RoCEv2)).
 */
int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr)
	__attribute__((warn_unused_result));

/* Take and release a reference; the last release frees the handle. engine.lock held. */
void ah_get(struct ah *ah);
void ah_put(struct ah *ah);

static inline struct ah *to_ah(struct ibv_ah *ah)
{
	return (struct ah *)ah;
}

#endif
