/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/lock_check.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "local/run.h"

/* What this process requests from its peers: doorbells while it sleeps, none while it polls. */

/*
 * To be called after a function that may have written cells. Rings the peer's doorbell. If a
 * message could not be sent and no thread polls, requests a doorbell from the reader when it frees
 * space. If space is available already, wakes the engine thread, which sends the message.
 */
void local_finish_turn(struct peer *peer)
{
	if (peer->has_sent)
		peer_ring_doorbell(peer);
	if (!peer_has_leftover(peer) || engine_is_polled(peer->engine))
		return;
	atomic_store(&peer->tx.shared->writer_waits, 1);
	/*
	 * Either this thread finds the space, or the reader finds writer_waits. Pairs with
	 * answer_waiting_writer().
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		engine_wake(peer->engine);
}

/*
 * Relaxed: a peer that finds 0 late rings a doorbell too many. barrier_processes() follows if it
 * must not find 1 late (ring_reader_polls()).
 */
static void set_reader_polls(struct local *local, bool polls)
{
	struct peer *peer;

	list_for_each_entry(peer, &local->peers, node)
		atomic_store_explicit(&peer->rx.shared->reader_polls, polls, memory_order_relaxed);
	local->is_polling = polls;
}

bool local_sleep(struct engine *engine, bool want_doorbell)
{
	struct local *local = local_of(engine);
	bool is_busy = false;
	struct peer *peer;

	engine_assert_locked(engine);
	if (want_doorbell)
		engine_assert_all_locked(engine);
	if (!want_doorbell && atomic_load(&barrier_has_processes)) {
		set_reader_polls(local, true);
	} else if (local->is_polling) {
		set_reader_polls(local, false);
		barrier_processes();
	}
	list_for_each_entry(peer, &local->peers, node) {
		atomic_store_explicit(&peer->rx.shared->reader_sleeps, want_doorbell,
				      memory_order_relaxed);
		if (want_doorbell && peer_has_leftover(peer))
			atomic_store_explicit(&peer->tx.shared->writer_waits, 1,
					      memory_order_relaxed);
	}
	if (!want_doorbell)
		return false;
	/*
	 * The flags are stored before the FIFOs are checked again. The counterpart is in
	 * peer_ring_doorbell().
	 */
	atomic_thread_fence(memory_order_seq_cst);
	list_for_each_entry(peer, &local->peers, node) {
		if (ring_has_next(&peer->rx) ||
		    (peer_has_leftover(peer) && ring_has_space(&peer->tx, RING_FRAGMENT_BYTES)))
			is_busy = true;
	}
	return is_busy;
}
