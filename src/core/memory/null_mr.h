/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_NULL_MR_H
#define USRDMA_CORE_MEMORY_NULL_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A memory region at any address that discards written data and reads as zeros; for local access
 * only.
 */
struct ibv_mr *null_mr_alloc(struct ibv_pd *pd);

/*
 * Memory for null MRs, as large as one SGE permits: writable for discarded data, or readable as
 * zeros. Valid after null_mr_alloc().
 */
uint8_t *null_mr_memory(bool is_written);

#endif
