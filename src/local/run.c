/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes the cells that peers have written, and continues what waited for space in their FIFOs.
 */
#include "local/run.h"

#include <string.h>

#include "base/fault.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "local/ack_wait.h"
#include "local/channel_copy.h"
#include "local/datagram.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/peer_map.h"
#include "local/peer_shard.h"
#include "local/probe.h"
#include "local/qp.h"
#include "local/requester.h"
#include "local/responder.h"
#include "local/ring.h"
#include "local/share.h"
#include "local/xrc_forward.h"

/* Cells of one peer that are executed before those of the next peer. */
#define RUN_CELLS 128
/*
 * Cells of all peers of other users that are executed in one run. The next run begins with the next
 * peer.
 */
#define RUN_FOREIGN_CELLS 1024

/* The QP may be in local.seeking. */
static void join_late(struct local_qp *lqp, struct peer *peer)
{
	engine_lock_base(peer->engine);
	list_del(&lqp->blocked_node);
	local_join(lqp, peer);
	list_add_tail(&lqp->blocked_node, &peer->blocked);
	engine_unlock_base(peer->engine);
}

/* The destination QP of a cell; NULL: it does not exist or is not connected to the sender. */
static struct local_qp *find_qp(struct peer *peer, const struct cell *cell)
{
	struct qp *qp = qp_find(peer->engine, cell->dst_qpn);
	struct local_qp *lqp;

	if (!qp || qp->shard != peer->our_shard || qp->transport != &local_transport ||
	    qp->attr.dest_qp_num != cell->src_qpn || cell->src_qpn >> IPC_SLOT_SHIFT != peer->slot)
		return NULL;
	lqp = local_qp_of(qp);
	if (!lqp->peer) {
		if (!peer_may_be_late(peer) || qpn_shard(cell->src_qpn) != peer->their_shard)
			return NULL;
		join_late(lqp, peer);
	}
	return lqp->peer == peer ? lqp : NULL;
}

static bool is_of_main(const struct cell *cell)
{
	return cell->type == CELL_DATAGRAM || cell->type == CELL_XRC_FORWARD;
}

static void local_dispatch(struct peer *peer, const struct cell *cell)
{
	const uint8_t *payload = ring_payload(&peer->rx, cell);
	struct local_qp *lqp;

	if (!payload || cell->type == CELL_NONE || cell->type >= CELL_TYPE_COUNT) {
		peer_count(peer, LOCAL_BAD_CELLS);
		return;
	}
	if (cell->type == CELL_SHARE_REQUEST) {
		engine_lock_base(peer->engine);
		share_resolve(peer, cell->rkey);
		engine_unlock_base(peer->engine);
		return;
	}
	if (cell->type == CELL_CHANNEL_REQUEST) {
		engine_lock_base(peer->engine);
		channel_copy_answer(peer, cell->rkey);
		engine_unlock_base(peer->engine);
		return;
	}
	if (cell->type == CELL_SHARE_GONE) {
		peer_map_sweep(peer);
		return;
	}
	if (is_of_main(cell) && peer->main != peer) {
		peer_count(peer, LOCAL_BAD_CELLS);
		return;
	}
	if (cell->type == CELL_DATAGRAM) {
		local_datagram_receive(peer, cell, payload);
		return;
	}
	if (cell->type == CELL_XRC_FORWARD) {
		local_xrc_forward_receive(peer, cell, payload);
		return;
	}
	lqp = find_qp(peer, cell);
	if (cell->type >= CELL_ACK) {
		if (lqp)
			completer_response(lqp, cell, payload);
	} else if (lqp) {
		responder_request(lqp, cell, payload);
	} else {
		responder_refuse(peer, cell);
	}
}

/* local_dispatch() with the point "drop". */
PROBE_COLD static void dispatch_traced(struct peer *peer, const struct cell *cell)
{
	uint64_t before[LOCAL_COUNTER_COUNT];

	memcpy(before, peer->counters, sizeof(before));
	local_dispatch(peer, cell);
	if (trace_is_on())
		local_emit_drop(peer, before, cell);
}

/* local_dispatch() with the points fifo.receive and "fifo element received". */
PROBE_COLD static void dispatch_probed(struct peer *peer, const struct cell *cell)
{
	const struct fault_subject subject = {.qpn = cell->dst_qpn};
	struct cell copy;
	struct fault fault;

	if (trace_is_on() && trace_wants_element(cell))
		emit_fifo(TRACE_FIFO_RECEIVED, cell, ring_payload(&peer->rx, cell), 0);
	if (!fault_due(FAULT_FIFO_RECEIVE, &subject, &fault)) {
		dispatch_traced(peer, cell);
		return;
	}
	if (fault.action == FAULT_DROP)
		return;
	copy = *cell;
	if (fault.action == FAULT_CORRUPT)
		fault_corrupt(&fault, &copy, sizeof(copy));
	else
		dispatch_traced(peer, cell);
	dispatch_traced(peer, &copy);
}

static unsigned int execute_cells(struct peer *peer, unsigned int max)
{
	unsigned int done = 0;
	struct cell cell;

	while (done < max && ring_next(&peer->rx, &cell)) {
		if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
			dispatch_probed(peer, &cell);
		else
			local_dispatch(peer, &cell);
		ring_release(&peer->rx, &cell);
		done++;
	}
	ring_publish(&peer->rx);
	return done;
}

/* Runs the requesters that used up TURN_BYTES or found the FIFO full. */
static unsigned int run_blocked(struct peer *peer)
{
	struct list_head waiting;
	unsigned int done = 0;

	if (list_is_empty(&peer->blocked) || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	list_init(&waiting);
	list_splice_tail(&peer->blocked, &waiting);
	while (!list_is_empty(&waiting)) {
		local_requester_run(list_first_entry(&waiting, struct local_qp, blocked_node));
		done++;
	}
	return done;
}

/* Sends the datagrams that found the FIFO full. */
static unsigned int run_transmit_blocked(struct peer *peer)
{
	if (!peer->blocked_since_ns || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	local_datagram_has_room(peer);
	return datagram_resume(peer->engine);
}

/* Datagrams and requests alternate in going first, because either can use up all space. */
static unsigned int local_run_waiting(struct peer *peer)
{
	unsigned int done = 0;

	peer->is_datagrams_turn = !peer->is_datagrams_turn;
	if (peer->is_datagrams_turn)
		done += run_transmit_blocked(peer);
	done += run_blocked(peer);
	done += local_xrc_forward_resume(peer);
	share_send_notice(peer);
	if (!peer->is_datagrams_turn)
		done += run_transmit_blocked(peer);
	return done;
}

/* Cells were freed: rings the doorbell of a writer that waits for space. */
static void answer_waiting_writer(struct peer *peer)
{
	/* A process that polls finds the space itself. */
	if (ring_reader_polls(&peer->tx))
		return;
	/*
	 * Orders the store of the tail before this load. Pairs with the fences after the stores of
	 * writer_waits (sleep.c).
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&peer->rx.shared->writer_waits, memory_order_relaxed)) {
		atomic_store(&peer->rx.shared->writer_waits, 0);
		peer->has_sent = true;
	}
}

static unsigned int peer_run(struct peer *peer, unsigned int max_cells)
{
	unsigned int done = execute_cells(peer, max_cells), waiting;

	if (done) {
		responder_respond_all(peer);
		answer_waiting_writer(peer);
	} else if (peer_has_leftover(peer)) {
		responder_respond_all(peer);
	}
	waiting = local_run_waiting(peer);
	if (peer->has_waiting_acks)
		peer->has_sent |= local_acks_are_due(peer);
	/* Responses only: a thread that will call again or reply soon rings the doorbell then. */
	if (peer_is_inline(peer) && peer->has_sent && !waiting)
		peer->has_deferred_doorbell = true;
	else if (peer->has_sent || peer->has_deferred_doorbell)
		peer_ring_doorbell(peer);
	peer->has_sent = false;
	return done + waiting;
}

/*
 * Limited to the size of the FIFO: a process whose connection to the daemon has ended may still be
 * running and writing.
 */
void local_drain(struct peer *peer)
{
	execute_cells(peer, RING_CELLS);
}

/*
 * The number of cells that may be executed for peers of other users, whose work must not keep the
 * threads of this process waiting for the lock. A thread that catches up needs all of them.
 */
static uint32_t foreign_cells(const struct engine *engine, uint32_t shard)
{
	/* Peers of other users are in shard 0. */
	if (shard > 0 || engine->run_by == RUN_BY_CATCH_UP)
		return UINT32_MAX;
	return RUN_FOREIGN_CELLS;
}

/*
 * Peers of other users have used up their cells: the next run begins with the peer behind this one.
 */
static void leave_rest(struct engine *engine, struct local_shard *shard, struct peer *last)
{
	engine->has_foreign_rest = true;
	list_del(&shard->peers);
	list_add(&shard->peers, &last->shard_node);
}

unsigned int local_run_shard(struct engine *engine, uint32_t number)
{
	struct local_shard *shard = &local_of(engine)->shards[number];
	uint32_t foreign_left = foreign_cells(engine, number);
	struct peer *peer, *tmp, *last = NULL;
	unsigned int done = 0;

	shard_assert_locked(engine, number);
	list_for_each_entry_safe(peer, tmp, &shard->peers, shard_node) {
		unsigned int max_cells = peer->may_reach_ours ? RUN_CELLS :
								min_u32(RUN_CELLS, foreign_left);
		unsigned int run;

		if (!ring_has_next(&peer->rx) && !peer_has_leftover(peer) &&
		    !peer->has_deferred_doorbell && !peer->has_waiting_acks)
			continue;
		run = peer_run(peer, max_cells);
		done += run;
		if (peer->may_reach_ours || !foreign_left)
			continue;
		foreign_left -= min_u32(run, foreign_left);
		if (!foreign_left)
			last = peer;
	}
	if (last)
		leave_rest(engine, shard, last);
	return done;
}

/* All locks held. */
static unsigned int local_run_shards(struct engine *engine)
{
	struct local *local = local_of(engine);
	unsigned int done = 0;
	struct peer *peer;

	engine_assert_all_locked(engine);
	list_for_each_entry(peer, &local->peers, node) {
		if (peer->main == peer && !peer->is_gone)
			peer_open_shards(peer);
	}
	if (!engine->shards.are_open)
		return 0;
	for (uint32_t i = 1; i < SHARDS; i++) {
		engine->shards.each[i].is_inline = run_by_replier(engine->run_by);
		done += local_run_shard(engine, i);
		engine->shards.each[i].is_inline = false;
	}
	local_shards_count(local);
	return done;
}

unsigned int local_run(struct engine *engine)
{
	unsigned int done = local_run_shard(engine, 0);

	engine_assert_locked(engine);
	if (engine->shards.all_depth)
		done += local_run_shards(engine);
	if (!list_is_empty(&engine->datagrams.waiting))
		done += datagram_resume(engine);
	return done;
}
