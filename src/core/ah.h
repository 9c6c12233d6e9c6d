/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_AH_H
#define USRDMA_CORE_AH_H

#include "core/objects.h"

/* An address handle: where a datagram goes. Owned by the application; never changes; dies in ibv_destroy_ah. */
struct ah {
	struct ibv_ah pub;
	struct pd *pd;
	struct ibv_ah_attr attr;
};

/* Whether an address vector can be used on the device: 0, or -EINVAL. Over RoCE it has a GRH, and a source GID that is
 * there (IBA A17 (RoCEv2)). */
int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr)
	__attribute__((warn_unused_result));

static inline struct ah *to_ah(struct ibv_ah *ah)
{
	return (struct ah *)ah;
}

#endif
