/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_QPN_H
#define USRDMA_CORE_QP_QPN_H

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* Sets *qpn to a free number of the shard, or of shard 0. false: all are used. engine.lock held. */
bool qpn_choose(struct engine *engine, uint32_t shard, uint32_t *qpn)
	__attribute__((warn_unused_result));

#endif
