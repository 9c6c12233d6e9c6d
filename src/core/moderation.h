/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MODERATION_H
#define USRDMA_CORE_MODERATION_H

#include "core/objects.h"

/*
 * Completion events of a CQ held back until several completions are there, or the oldest of them has waited long enough
 * (ibv_modify_cq(3)). Only completions that the CQ is armed for count, and each event begins a new count. The engine's
 * timer ends the waiting, so that nobody is awake for it.
 */
void moderation_init(struct cq *cq);

/* One more completion that the CQ is armed for: whether its event is due. engine.lock held. */
bool moderation_is_due(struct cq *cq);
/* It is not: it will be when the time is over. engine.lock held, and not cq.lock. */
void moderation_wait(struct cq *cq);
/* The event is posted, or the CQ dies. engine.lock held. */
void moderation_end(struct cq *cq);

/* What ibv_modify_cq calls. */
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

#endif
