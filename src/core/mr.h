/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MR_H
#define USRDMA_CORE_MR_H

#include "core/objects.h"

/* The MR that has this key now, or NULL. engine.lock held. */
struct mr *mr_find(struct engine *engine, uint32_t key);

/* Where [iova, iova + length) of the MR lies in memory, or NULL if it is not all inside. A length of 0 is inside
 * wherever it points (IBA 1.x §10.6.3). */
uint8_t *mr_translate(const struct mr *mr, uint64_t iova, uint64_t length);

/* Whether the pages of what mr_translate() answered are there; asked of those alone that may come and go (on demand). */
bool mr_is_there(const struct mr *mr, const void *at, uint64_t length, bool is_written);

/* A null MR (null_mr.h), or NULL with errno. */
struct ibv_mr *mr_register_null(struct ibv_pd *pd);

/* What a descriptor was mapped to, for an MR that owns the mapping: `addr` is where the MR begins in it. */
struct mr_mapping {
	uint8_t *start;
	uint64_t bytes;
	uint8_t *addr;
	bool is_reachable; /* peers of this host may move bytes there themselves */
};

/* An MR of it, which is unmapped with it; or NULL with errno, and the mapping is still the caller's. */
struct ibv_mr *mr_register_mapping(struct ibv_pd *pd, const struct mr_mapping *mapping,
				   size_t length, uint64_t iova, unsigned int access);

/* Takes all MRs of a context that is being closed from its peers. engine.lock held. */
void mr_revoke_all(struct context *context);

#endif
