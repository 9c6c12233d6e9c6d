/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/memory.h"
#include "core/qp.h"
#include "core/transport.h"
#include "core/xrc.h"
#include "local/channel_copy.h"
#include "local/fault.h"
#include "local/peer_map.h"
#include "local/probe.h"
#include "local/requester.h"
#include "local/share.h"

/* Cells of one peer that are executed before those of the next peer. */
#define RUN_CELLS 128
/* Cells of all peers of other users that are executed in one run. The next run begins with the next peer. */
#define RUN_FOREIGN_CELLS 1024

static const char *const counter_names[] = {
	[LOCAL_MESSAGES_SENT] = "messages sent",
	[LOCAL_MESSAGES_RECEIVED] = "messages received",
	[LOCAL_ONESIDED] = "onesided",
	[LOCAL_MAPPED] = "onesided in mapped memory",
	[LOCAL_MAPPED_FAULTS] = "faults in mapped memory",
	[LOCAL_RNR_NAKS_SENT] = "rnr naks sent",
	[LOCAL_RNR_NAKS_RECEIVED] = "rnr naks received",
	[LOCAL_RETRIES] = "retries",
	[LOCAL_QP_ERRORS] = "queue pair errors",
	[LOCAL_BAD_CELLS] = "dropped: malformed",
	[LOCAL_DATAGRAMS_LOST] = "datagrams without a way out",
	[LOCAL_DATAGRAMS_SOURCE] = "dropped: foreign source address",
	[LOCAL_DATAGRAMS_UNKNOWN_QPN] = "dropped: unknown qpn",
	[LOCAL_DATAGRAMS_NOT_UD] = "dropped: opcode of another service",
	[LOCAL_DATAGRAMS_QP_STATE] = "dropped: queue pair not ready",
	[LOCAL_DATAGRAMS_QKEY] = "dropped: wrong q_key",
	[LOCAL_DATAGRAMS_NO_RECV] = "dropped: no receive",
	[LOCAL_DATAGRAMS_RECV_TOO_SHORT] = "dropped: receive too short",
	[LOCAL_DATAGRAMS_BAD_RECV] = "dropped: bad receive",
};
static_assert(COUNT(counter_names) == LOCAL_COUNTER_COUNT, "every counter has its name");

static int local_open(struct engine *engine, int *segment_fd)
{
	struct local *local = calloc(1, sizeof(*local));
	int ret;

	if (!local)
		return -ENOMEM;
	local->engine = engine;
	list_init(&local->peers);
	for (size_t i = 0; i < COUNT(local->shards); i++)
		list_init(&local->shards[i].peers);
	list_init(&local->seeking);
	list_init(&local->delayed);
	timer_init(&local->not_taken_timer, peer_not_taken_timer);
	timer_init(&local->ack_timer, local_ack_timer);
	timer_init(&local->peer_connect_timer, peer_connect_timer);
	ret = segment_open(local, segment_fd);
	if (ret < 0)
		goto err_local;
	ret = peer_register_notices(engine);
	if (ret)
		goto err_segment;
	local->counters = counters_register(engine, "local", counter_names, LOCAL_COUNTER_COUNT,
					    local->unshown);
	engine->transport_state[LOCAL_TRANSPORT] = local;
	engine->xrc_forward.carrier = &local_xrc_forward;
	return 0;

err_segment:
	segment_close(local);
err_local:
	free(local);
	return ret;
}

static void local_close(struct engine *engine)
{
	struct local *local = local_of(engine);

	if (!local)
		return;
	local_fault_drop_datagrams(local);
	peer_close_all(local);
	segment_close(local);
	free(local->arena_kept);
	free(local);
	engine->transport_state[LOCAL_TRANSPORT] = NULL;
}

static void local_disown(struct engine *engine)
{
	if (local_of(engine))
		peer_disown_all(local_of(engine));
}

static struct local_qp *local_qp_new(struct qp *qp)
{
	struct local_qp *lqp = calloc(1, sizeof(*lqp));

	if (!lqp)
		return NULL;
	lqp->qp = qp;
	list_init(&lqp->node);
	list_init(&lqp->blocked_node);
	list_init(&lqp->response_node);
	list_init(&lqp->ack_node);
	timer_init(&lqp->tx.timer, local_requester_timer);
	lqp->rx.ssn = ring_first_ssn(qp->attr.rq_psn);
	lqp->rx.max_jobs = qp->attr.max_dest_rd_atomic ? qp->attr.max_dest_rd_atomic : 1;
	lqp->rx.jobs_mask = round_up_pow2(lqp->rx.max_jobs) - 1;
	lqp->rx.in = calloc(1, sizeof(*lqp->rx.in));
	lqp->rx.jobs = calloc(lqp->rx.jobs_mask + 1, sizeof(*lqp->rx.jobs));
	if (lqp->rx.in && lqp->rx.jobs)
		return lqp;
	free(lqp->rx.in);
	free(lqp->rx.jobs);
	free(lqp);
	return NULL;
}

void local_join(struct local_qp *lqp, struct peer *peer)
{
	lqp->peer = peer;
	lqp->tx.cells_end = peer->tx.tail;
	list_add_tail(&lqp->node, &peer->qps);
	if (lqp->qp->shard)
		qp_set_lock(lqp->qp, QP_LOCK_SHARD);
}

/*
 * Before a QP is bound: the cells that have arrived for it belong to an earlier connection with the same peer. Its responses are
 * dropped and its requests are refused. A NIC drops both.
 */
static void drop_earlier_cells(struct peer *peer)
{
	struct engine *engine = peer->engine;
	bool before = engine->checks_mappings;

	if (peer->is_gone)
		return;
	/* Messages for other QPs are executed, as in qp_reset(). */
	engine->checks_mappings = true;
	memory_forget(&engine->checked);
	local_drain(peer);
	engine->checks_mappings = before;
	responder_respond_all(peer);
	local_finish_turn(peer);
}

/*
 * The transport applies if the destination GID belongs to this host. A QP whose remote QPN is not owned by any process is
 * bound, too, as with a NIC: only its sends fail.
 */
static int local_bind(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	struct peer *main, *peer;
	struct local_qp *lqp;

	/* This transport does not support the SRQ number of XRC requests: XRC uses the network transport, also on one host. */
	if (qp_is_xrc(qp->type) || !device_owns_gid(engine, &qp->attr.ah_attr.grh.dgid))
		return -EOPNOTSUPP;
	lqp = local_qp_new(qp);
	if (!lqp)
		return -ENOMEM;
	main = peer_find(engine, qp->attr.dest_qp_num >> IPC_SLOT_SHIFT);
	peer = main ? peer_of_shards(main, qp->shard, qpn_shard(qp->attr.dest_qp_num)) : NULL;
	if (peer) {
		drop_earlier_cells(peer);
		local_join(lqp, peer);
	}
	qp->transport_qp = lqp;
	return 0;
}

static void local_connect_peer(struct engine *engine, uint32_t qpn)
{
	peer_request(engine, qpn >> IPC_SLOT_SHIFT);
}

static void push_on(struct local_qp *lqp)
{
	local_requester_run(lqp);
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

static void local_ready(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);

	/* Not at the return from SQD. */
	if (!lqp->tx.has_ssn)
		lqp->tx.ssn = ring_first_ssn(qp->attr.sq_psn);
	lqp->tx.has_ssn = true;
	lqp->tx.rnr_left = qp->attr.rnr_retry;
	lqp->tx.rnr_code = RNR_CODE_NONE;
	lqp->tx.rnr_naks = 0;
	lqp->tx.rnr_waited_ns = 0;
	lqp->tx.rnr_until_ns = 0;
	lqp->tx.retries_left = qp->attr.retry_cnt;
	push_on(lqp);
}

static void local_kick(struct qp *qp)
{
	push_on(local_qp_of(qp));
}

static void local_halt(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);

	timer_cancel(&qp->context->engine->timers, &lqp->tx.timer);
	lqp->tx.wait = WAIT_NOTHING;
	local_fault_reset(lqp);
	list_del(&lqp->blocked_node);
	responder_abandon(lqp);
	local_ack_wait_end(lqp);
	if (lqp->peer)
		local_finish_turn(lqp->peer);
	segment_publish_qp(qp);
	local_qp_count(lqp, LOCAL_QP_ERRORS);
}

static void local_unbind(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);
	struct peer *peer = lqp->peer;

	/* Requests that arrived before the QP is closed are executed and acknowledged, as with a NIC. */
	if (peer && !peer->is_gone)
		local_drain(peer);
	segment_unpublish_qp(qp);
	timer_cancel(&qp->context->engine->timers, &lqp->tx.timer);
	local_fault_reset(lqp);
	if (peer && !peer->is_gone) {
		responder_respond_all(peer);
		responder_unbind(lqp);
	}
	/* These responses may have begun a wait. */
	local_ack_wait_end(lqp);
	list_del(&lqp->node);
	list_del(&lqp->blocked_node);
	list_del(&lqp->response_node);
	if (peer) {
		local_finish_turn(peer);
		peer_unref_if_gone(peer);
	}
	free(lqp->tx.hold);
	free(lqp->rx.in);
	free(lqp->rx.jobs);
	free(lqp);
	qp->transport_qp = NULL;
}

static void local_recv_posted(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);

	responder_recv_posted(lqp);
	if (lqp->peer) {
		responder_respond_all(lqp->peer);
		local_finish_turn(lqp->peer);
	}
}

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

/* Limited to the size of the FIFO: a process whose connection to the daemon has ended may still be running and writing. */
void local_drain(struct peer *peer)
{
	execute_cells(peer, RING_CELLS);
}

/*
 * The number of cells that may be executed for peers of other users, whose work must not keep the threads of this process waiting
 * for the lock. A thread that catches up needs all of them.
 */
static uint32_t foreign_cells(const struct engine *engine, uint32_t shard)
{
	/* Peers of other users are in shard 0. */
	if (shard > 0 || (engine->is_catching_up && !engine->is_thread_turn))
		return UINT32_MAX;
	return RUN_FOREIGN_CELLS;
}

/* Peers of other users have used up their cells: the next run begins with the peer behind this one. */
static void leave_rest(struct engine *engine, struct local_shard *shard, struct peer *last)
{
	engine->has_foreign_rest = true;
	list_del(&shard->peers);
	list_add(&shard->peers, &last->shard_node);
}

static unsigned int local_run_shard(struct engine *engine, uint32_t number)
{
	struct local_shard *shard = &local_of(engine)->shards[number];
	uint32_t foreign_left = foreign_cells(engine, number);
	struct peer *peer, *tmp, *last = NULL;
	unsigned int done = 0;

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

/* All locks are held. */
static unsigned int local_run_shards(struct engine *engine)
{
	struct local *local = local_of(engine);
	unsigned int done = 0;
	struct peer *peer;

	list_for_each_entry(peer, &local->peers, node) {
		if (peer->main == peer && !peer->is_gone)
			peer_open_shards(peer);
	}
	if (!engine->shards.are_open)
		return 0;
	for (uint32_t i = 1; i < SHARDS; i++) {
		engine->shards.each[i].is_inline = engine->is_inline;
		done += local_run_shard(engine, i);
		engine->shards.each[i].is_inline = false;
	}
	local_shards_count(local);
	return done;
}

static unsigned int local_run(struct engine *engine)
{
	unsigned int done = local_run_shard(engine, 0);

	if (engine->shards.all_depth)
		done += local_run_shards(engine);
	if (!list_is_empty(&engine->datagrams.waiting))
		done += datagram_resume(engine);
	return done;
}

const struct transport local_transport = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.disown = local_disown,
	.connect_peer = local_connect_peer,
	.bind = local_bind,
	.ready = local_ready,
	.halt = local_halt,
	.unbind = local_unbind,
	.kick = local_kick,
	.recv_posted = local_recv_posted,
	.thread_begins = segment_thread_begins,
	.thread_ends = segment_thread_ends,
	.publish_qp = segment_publish_qp,
	.publish_mr = segment_publish_mr,
	.revoke_mr = revoke_mr,
	.revoke_qp = revoke_qp,
	.describe = local_describe,
	.ah_open = local_ah_open,
	.send_datagram = local_datagram_send,
	.run = local_run,
	.run_shard = local_run_shard,
	.sleep = local_sleep,
};
