/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_QPN_H
#define USRDMA_CORE_ENGINE_QPN_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"

struct engine;

/* The last LAST_QPNS assigned QPNs are not assigned again. */
#define LAST_QPNS 256u

/* The last assigned QPNs. Part of struct engine_tables. */
struct qpn_history {
	uint16_t last[LAST_QPNS];	    /* their low bits */
	uint32_t cursor;		    /* next entry of `last` */
	uint8_t is_last[IPC_SLOT_QPNS / 8]; /* bit map: the numbers in `last` */
};

/* Sets *qpn to a free number of the shard, or of shard 0. false: all are used. engine.lock held. */
bool qpn_choose(struct engine *engine, uint32_t shard, uint32_t *qpn)
	__attribute__((warn_unused_result));

#endif
