/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_AH_H
#define USRDMA_CORE_AH_H

#include "core/objects.h"

/*
 * An address handle: where a datagram goes. Never changes. Owned by the application until ibv_destroy_ah, and by every
 * WQE that names it: an application may destroy it with sends queued, as on providers that copy the vector into the
 * WQE. The last one frees it. References are guarded by engine.lock.
 */
struct ah {
	struct ibv_ah pub;
	struct pd *pd; /* of no use once the application has destroyed it */
	uint32_t pd_id;
	struct engine *engine;
	struct ibv_ah_attr attr;
	uint8_t local_gid[16];
	uint32_t ifindex; /* of local_gid */
	const struct transport *transport;
	void *transport_ah; /* its own state */
	unsigned int users;
};

/* Whether an address vector can be used on the device: 0, or -EINVAL. Over RoCE it has a GRH, and a source GID that is
 * there (IBA A17 (RoCEv2)). */
int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr)
	__attribute__((warn_unused_result));

/* One more user, and one less: the last one frees it. engine.lock held. */
void ah_get(struct ah *ah);
void ah_put(struct ah *ah);

static inline struct ah *to_ah(struct ibv_ah *ah)
{
	return (struct ah *)ah;
}

#endif
