/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_DM_H
#define USRDMA_CORE_MEMORY_DM_H

#include "core/object/objects.h"

/*
 * Device memory: memory on the board of a NIC. Here it is anonymous memory of the process. The
 * application can access it only through the copy calls and MRs, with the restrictions of such
 * devices: multiples of 4 bytes, zero-based MRs.
 */
struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);
struct ibv_mr *dm_reg_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			 unsigned int access);
/* An MR of the device memory was deregistered. engine.lock held. */
void dm_put(struct dm_body *body);

#endif
