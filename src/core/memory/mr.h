/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_MR_H
#define USRDMA_CORE_MEMORY_MR_H

#include "core/object/objects.h"

/*
 * The MR with this key, or NULL. engine.lock or the lock of a shard held: the table changes with
 * all locks held.
 */
struct mr *mr_find(struct engine *engine, uint32_t key);

/*
 * The local address of [iova, iova + length) of the MR, or NULL if the range exceeds the MR. A
 * length of 0 is always valid (IBA 1.x §10.6.3).
 */
uint8_t *mr_translate(const struct mr *mr, uint64_t iova, uint64_t length);

/* An access of a peer: [addr, addr + bytes) of the region or window `rkey`. */
struct remote_range {
	uint64_t addr;
	uint64_t bytes;
	uint32_t rkey;
	unsigned int access; /* the required rights (enum ibv_access_flags) */
};

/* A null MR (null_mr.h), or NULL with errno. */
struct ibv_mr *mr_register_null(struct ibv_pd *pd);

/*
 * The mapping of a file descriptor, for an MR that owns the mapping. `addr` is the first byte of
 * the MR in it.
 */
struct mr_mapping {
	uint8_t *start;
	uint64_t bytes;
	uint8_t *addr;
	bool is_reachable; /* peers of this host may access it with the one-sided path */
};

/*
 * Registers an MR that owns the mapping and unmaps it at deregistration. NULL with errno: the
 * caller still owns the mapping.
 */
struct ibv_mr *mr_register_mapping(struct ibv_pd *pd, const struct mr_mapping *mapping,
				   size_t length, uint64_t iova, unsigned int access);

/* Unpublishes all MRs of a context that is being closed. All locks held. */
void mr_revoke_all(struct context *context);

#endif
