/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_CHANNEL_H
#define USRDMA_CORE_CHANNEL_H

#include "core/objects.h"

/* Queues one completion event of the CQ on its channel. The caller may hold any lock except channel.lock. */
void channel_post(struct comp_channel *channel, struct cq *cq);

/* Removes the CQ's events that were not fetched; for ibv_destroy_cq(). */
void channel_forget(struct comp_channel *channel, struct cq *cq);

#endif
