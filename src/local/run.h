/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_RUN_H
#define USRDMA_LOCAL_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "local/peer.h"

struct engine;

/* The message loop: run.c receives, and sleep.c ends a turn. */

void local_drain(struct peer *peer); /* executes the cells that have arrived */
unsigned int local_run(struct engine *engine);
unsigned int local_run_shard(struct engine *engine, uint32_t number);

/* Whether something could not be sent to the peer yet. */
static inline bool peer_has_leftover(const struct peer *peer)
{
	return !list_is_empty(&peer->blocked) || !list_is_empty(&peer->responding) ||
	       peer->refusal_count || peer->blocked_since_ns || peer->xrc_forward_waits ||
	       peer->share_notice_waits;
}

void local_finish_turn(struct peer *peer);
bool local_sleep(struct engine *engine, bool want_doorbell); /* the transport's sleep() */

#endif
