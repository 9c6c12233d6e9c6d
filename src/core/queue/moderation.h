/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QUEUE_MODERATION_H
#define USRDMA_CORE_QUEUE_MODERATION_H

#include "core/object/objects.h"

/*
 * Completion event moderation: a CQ's event is delayed until `cq_count` completions are queued or
 * `cq_period` has passed since the first of them (ibv_modify_cq(3)). Only completions that the CQ
 * is armed for count; each event starts a new count. A timer of the engine ends the delay.
 */
void moderation_init(struct cq *cq);

/*
 * Counts a completion that the CQ is armed for. Returns whether its event is due. The lock of the
 * QP and cq.lock held.
 */
bool moderation_is_due(struct cq *cq);
/*
 * The event is not due: starts the timer. engine.lock held, because the CQ has a channel; cq.lock
 * not held.
 */
void moderation_wait(struct cq *cq);
/* The event was posted, or the CQ is destroyed. engine.lock held. */
void moderation_end(struct cq *cq);
/* Posts all events that wait: the engine has become fatal. engine.lock held, and no cq.lock. */
void moderation_flush(struct engine *engine);

/* Provider entry point of ibv_modify_cq(). */
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

#endif
