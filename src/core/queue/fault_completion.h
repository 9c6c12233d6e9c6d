/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_FAULT_COMPLETION_H
#define USRDMA_CORE_QUEUE_FAULT_COMPLETION_H

#include "base/fault.h"
#include "core/object/objects.h"

/* The fault points completion and qp.event. */

/*
 * Passes the points. Returns false if cq_deliver() is to be called; true if a fault has replaced,
 * delayed or withheld it. engine.lock held.
 */
PROBE_COLD bool fault_completion(struct cq *cq, const struct ibv_wc *wc, bool is_solicited);

void fault_completion_init(struct cq *cq);

/* Drops the delayed completions of a QP that is reset or destroyed. engine.lock held. */
PROBE_COLD void fault_completion_purge(struct cq *cq, uint32_t qpn);

/* The CQ is destroyed. engine.lock held. */
void fault_completion_fini(struct cq *cq);

#endif
