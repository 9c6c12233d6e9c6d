/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_TABLES_H
#define USRDMA_CORE_ENGINE_ENGINE_TABLES_H

#include <stdint.h>

#include "base/id_table.h"
#include "base/list.h"
#include "base/random.h"
#include "core/engine/qp_table.h"
#include "core/engine/qpn.h"

/*
 * The verbs objects of the process, except those of XRC (struct engine_xrc). Part of struct engine.
 * `mrs`, `mr_changes` and `qps` change with all locks held (shard.h), and are read with engine.lock
 * or the lock of a shard held. engine.lock guards the other members.
 */
struct engine_tables {
	struct list_head contexts;
	struct list_head cqs;
	struct random random; /* source of keys, QPNs and XRC SRQ numbers */
	struct id_table mrs;  /* key -> struct mr; at most MAX_MRS, MR_KEY_BITS */
	/* number of MRs that were changed or removed (core/object/sge_cache.h) */
	uint64_t mr_changes;
	struct id_table mws; /* handle -> struct mw; MW_HANDLE_BITS */
	struct id_table pds; /* id -> struct pd_body; 32-bit handles */
	struct id_table dms; /* handle -> struct dm_body; 32-bit handles */
	struct qp_table qps;
	struct qpn_history qpns;
	unsigned int cq_count;
	unsigned int srq_count;
	unsigned int comp_cntr_count;
	uint32_t comp_cntr_handle; /* of the next completion counter */
};

#endif
