/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer_shard.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/engine/wake.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/revoke.h"
#include "local/ring.h"

/*
 * The peers of shards (core/engine/shard.h). A process has one FIFO in each direction for each pair
 * of shards, because a FIFO has one writer and one reader, and each of them is guarded by the lock
 * of its shard. For the functions of this module, each of these pairs is a peer: they differ from
 * the peer of shard 0 only in that they have no datagrams, and in what belongs to it.
 */

static struct ring_shared *ring_of(const struct peer *peer, bool is_tx)
{
	struct ring_pair *pairs = peer->pair->pairs;
	uint32_t ours = peer->our_shard, theirs = peer->their_shard;

	/* From one of our QPs to another one, in a FIFO that both shards find. */
	if (peer->side == PEER_SELF)
		return is_tx ? &pairs[ours * SHARDS + theirs].rings[0] :
			       &pairs[theirs * SHARDS + ours].rings[0];
	if (peer->side)
		return &pairs[theirs * SHARDS + ours].rings[is_tx];
	return &pairs[ours * SHARDS + theirs].rings[!is_tx];
}

/* The number of the peer's pair in pair_memory. */
static uint32_t pair_number(const struct peer *peer)
{
	return peer->side == 1 ? peer->their_shard * SHARDS + peer->our_shard :
				 peer->our_shard * SHARDS + peer->their_shard;
}

void peer_enlist(struct local *local, struct peer *peer)
{
	ring_writer_init(&peer->tx, ring_of(peer, true));
	ring_reader_init(&peer->rx, ring_of(peer, false));
	atomic_store_explicit(&peer->rx.shared->reader_polls, local->is_polling,
			      memory_order_relaxed);
	peer->counters = peer->our_shard ? local->shards[peer->our_shard].counters :
					   local->counters;
	list_add_tail(&peer->node, &local->peers);
	list_add_tail(&peer->shard_node, &local->shards[peer->our_shard].peers);
	/*
	 * The engine thread may have gone to sleep before this FIFO existed, without setting its
	 * reader_sleeps.
	 */
	engine_wake(local->engine);
}

/*
 * The other process creates its peer of the same FIFOs when its engine runs next: see
 * peer_open_shards().
 */
static void announce_use(struct peer *peer)
{
	struct peer *main = peer->main;

	if (main->side == PEER_SELF)
		return;
	atomic_fetch_or(&main->tx.shared->shards_used, 1u << pair_number(peer));
	doorbell_ring_late(main->engine, main->doorbell);
}

static struct peer *peer_shard_new(struct peer *main, uint32_t our_shard, uint32_t their_shard)
{
	struct peer *peer = peer_new(main->engine, main->slot);

	if (!peer)
		return NULL;
	peer->main = main;
	peer->our_shard = our_shard;
	peer->their_shard = their_shard;
	peer->side = main->side;
	peer->pair_id = main->pair_id;
	peer->pid = main->pid;
	peer->can_reach_memory = main->can_reach_memory;
	peer->engine_tid = main->engine_tid;
	peer->life_word = main->life_word;
	peer->may_reach_ours = main->may_reach_ours;
	peer->pair = main->pair;
	peer->segment = main->segment;
	peer->doorbell = main->doorbell;
	main->links++;
	peer_enlist(local_of(main->engine), peer);
	revoke_admit_as(peer, main);
	return peer;
}

struct peer *peer_of_shards(struct peer *main, uint32_t our_shard, uint32_t their_shard)
{
	struct local *local = local_of(main->engine);
	struct peer *peer;

	engine_assert_locked(main->engine);
	shard_assert_locked(main->engine, our_shard);
	list_for_each_entry(peer, &local->shards[our_shard].peers, shard_node) {
		if (peer->main == main && peer->their_shard == their_shard)
			return peer;
	}
	peer = peer_shard_new(main, our_shard, their_shard);
	if (peer)
		announce_use(peer);
	/* FIFOs between two shards of this process have two ends in it. */
	if (peer && main->side == PEER_SELF && our_shard != their_shard &&
	    !peer_of_shards(main, their_shard, our_shard))
		log_warn("no memory for messages between two threads");
	return peer;
}

void peer_open_shards(struct peer *main)
{
	uint32_t used = atomic_load_explicit(&main->rx.shared->shards_used, memory_order_relaxed) &
			((1u << SHARDS * SHARDS) - 1);

	engine_assert_all_locked(main->engine);
	used &= ~main->shards_opened;
	while (used) {
		uint32_t number = (uint32_t)__builtin_ctz(used);
		uint32_t first = number / SHARDS, second = number % SHARDS;
		uint32_t ours = main->side ? second : first;

		used &= used - 1;
		/*
		 * No queue pair of ours belongs to that shard: a peer of another user must not make
		 * all locks of this process slower.
		 */
		if (ours && !main->engine->shards.are_open)
			continue;
		if (!peer_of_shards(main, ours, main->side ? first : second))
			return;
		main->shards_opened |= 1u << number;
	}
}

void local_shards_count(struct local *local)
{
	engine_assert_all_locked(local->engine);
	for (uint32_t i = 1; i < SHARDS; i++) {
		uint64_t *counters = local->shards[i].counters;

		for (uint32_t k = 0; k < LOCAL_COUNTER_COUNT; k++) {
			local->counters[k] += counters[k];
			counters[k] = 0;
		}
	}
}
