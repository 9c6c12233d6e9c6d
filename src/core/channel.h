/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_CHANNEL_H
#define USRDMA_CORE_CHANNEL_H

#include "core/objects.h"

/* Queues one completion event of the CQ on its channel. Any lock but the channel's own may be held. */
void channel_post(struct comp_channel *channel, struct cq *cq);

/* Takes back the events of a CQ that nobody fetched; for ibv_destroy_cq. */
void channel_forget(struct comp_channel *channel, struct cq *cq);

#endif
