/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_SHARD_H
#define USRDMA_LOCAL_PEER_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine/engine.h"
#include "local/peer.h"

struct local;

/* The peers of each pair of shards, and the lists of all peers. */

/*
 * The peer of these shards of both processes; NULL: no memory. engine.lock and the lock of our
 * shard held.
 */
struct peer *peer_of_shards(struct peer *main, uint32_t our_shard, uint32_t their_shard);
/* Adds a peer to the lists, and connects it with the shared memory of the process. */
void peer_enlist(struct local *local, struct peer *peer);
/* Creates the peers whose FIFOs the process has begun to use. All locks held. */
void peer_open_shards(struct peer *main);
/* Adds what the shards have counted to local.counters. All locks held. */
void local_shards_count(struct local *local);

/* Whether the thread that runs the peer's shard will poll again or reply soon. */
static inline bool peer_is_inline(const struct peer *peer)
{
	return peer->our_shard ? peer->engine->shards.each[peer->our_shard].is_inline :
				 run_by_replier(peer->engine->run_by);
}

#endif
