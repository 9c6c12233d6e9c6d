/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DM_H
#define USRDMA_CORE_DM_H

#include "core/objects.h"

/*
 * Device memory: what a NIC has on its own board. Here it is memory of the process that the application reaches through the
 * copy calls and MRs alone, under the rules of the devices that have it: 4-byte steps, zero-based MRs.
 */
struct ibv_dm *dm_alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free(struct ibv_dm *dm);
struct ibv_mr *dm_reg_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			 unsigned int access);
/* An MR of it is deregistered. engine.lock held. */
void dm_put(struct dm_body *body);

#endif
