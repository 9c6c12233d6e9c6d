/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_SGE_CACHE_H
#define USRDMA_CORE_OBJECT_SGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The MR of the last SGE of a work queue that passed all checks of sge_check(). The SGEs of one
 * queue have one PD. The cached MR is valid while engine.tables.mr_changes is unchanged. Null MRs,
 * which have no memory, are not cached. Owned by the work queue, whose lock guards it. length 0:
 * empty.
 */
struct sge_cache {
	uint64_t mr_changes; /* engine.tables.mr_changes when the entry was filled */
	uint64_t iova;
	uint64_t length;
	uint8_t *addr;
	uint32_t lkey;
	bool is_writable;
};

#endif
