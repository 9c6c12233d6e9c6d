/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/counters.h"
#include "core/device.h"
#include "core/qp.h"
#include "core/transport.h"
#include "core/xrc.h"
#include "local/requester.h"

/* Cells of one peer that are executed before the next peer has its turn. */
#define RUN_CELLS 128

static const char *const counter_names[] = {
	[LOCAL_MESSAGES_SENT] = "messages sent",
	[LOCAL_MESSAGES_RECEIVED] = "messages received",
	[LOCAL_ONESIDED] = "onesided",
	[LOCAL_RNR_NAKS_SENT] = "rnr naks sent",
	[LOCAL_RNR_NAKS_RECEIVED] = "rnr naks received",
	[LOCAL_RETRIES] = "retries",
	[LOCAL_QP_ERRORS] = "queue pair errors",
	[LOCAL_BAD_CELLS] = "dropped: malformed",
	[LOCAL_DATAGRAMS_LOST] = "datagrams without a way out",
	[LOCAL_DATAGRAMS_UNKNOWN_QPN] = "dropped: unknown qpn",
	[LOCAL_DATAGRAMS_NOT_UD] = "dropped: opcode of another service",
	[LOCAL_DATAGRAMS_QP_STATE] = "dropped: queue pair not ready",
	[LOCAL_DATAGRAMS_QKEY] = "dropped: wrong q_key",
	[LOCAL_DATAGRAMS_NO_RECV] = "dropped: no receive",
	[LOCAL_DATAGRAMS_RECV_TOO_SHORT] = "dropped: receive too short",
	[LOCAL_DATAGRAMS_BAD_RECV] = "dropped: bad receive",
};
static_assert(sizeof(counter_names) / sizeof(counter_names[0]) == LOCAL_COUNTER_COUNT,
	      "every counter has its name");

/* The segment is new, so that there is room. */
static void open_counters(struct local *local)
{
	local->counters = counters_take(local->engine, LOCAL_COUNTER_COUNT);
	assert(local->counters);
	for (int i = 0; i < LOCAL_COUNTER_COUNT; i++)
		counters_name(local->engine, &local->counters[i], "local", counter_names[i]);
}

static int local_open(struct engine *engine, int *segment_fd)
{
	struct local *local = calloc(1, sizeof(*local));
	int ret;

	if (!local)
		return -ENOMEM;
	local->engine = engine;
	list_init(&local->peers);
	ret = segment_open(local, segment_fd);
	if (ret < 0) {
		free(local);
		return ret;
	}
	open_counters(local);
	engine->transport_state = local;
	return 0;
}

static void local_close(struct engine *engine)
{
	struct local *local = local_of(engine);

	if (!local)
		return;
	peer_close_all(local);
	segment_close(local);
	free(local);
	engine->transport_state = NULL;
}

static struct local_qp *local_qp_new(struct qp *qp)
{
	struct local_qp *lqp = calloc(1, sizeof(*lqp));

	if (!lqp)
		return NULL;
	lqp->qp = qp;
	list_init(&lqp->node);
	list_init(&lqp->blocked_node);
	list_init(&lqp->answer_node);
	timer_init(&lqp->tx.timer, requester_timer);
	lqp->rx.max_jobs = qp->attr.max_dest_rd_atomic ? qp->attr.max_dest_rd_atomic : 1;
	lqp->rx.in = calloc(1, sizeof(*lqp->rx.in));
	lqp->rx.jobs = calloc(lqp->rx.max_jobs, sizeof(*lqp->rx.jobs));
	if (lqp->rx.in && lqp->rx.jobs)
		return lqp;
	free(lqp->rx.in);
	free(lqp->rx.jobs);
	free(lqp);
	return NULL;
}

/* "Same host" means that this daemon owns both QPNs, whatever addresses they go by. A QPN that nobody owns is bound all
 * the same, as a NIC would: the sends are what fails. */
static int local_bind(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	struct local_qp *lqp;

	/* What is one-sided here knows no SRQs: XRC takes the network's way, also on one host. */
	if (qp_is_xrc(qp->type) || !device_owns_gid(engine, &qp->attr.ah_attr.grh.dgid))
		return -EOPNOTSUPP;
	lqp = local_qp_new(qp);
	if (!lqp)
		return -ENOMEM;
	lqp->peer = peer_get(engine, qp->attr.dest_qp_num >> IPC_SLOT_SHIFT);
	if (lqp->peer)
		list_add_tail(&lqp->node, &lqp->peer->qps);
	qp->transport_qp = lqp;
	return 0;
}

static void push_on(struct local_qp *lqp)
{
	requester_run(lqp);
	if (lqp->peer)
		local_finish_turn(lqp->peer);
}

static void local_ready(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);

	lqp->tx.rnr_left = qp->attr.rnr_retry;
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
	list_del(&lqp->blocked_node);
	responder_abandon(lqp);
	segment_publish_qp(qp);
	local_count(qp->context->engine, LOCAL_QP_ERRORS);
}

static unsigned int execute_cells(struct peer *peer, unsigned int max);

static void local_unbind(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);
	struct peer *peer = lqp->peer;

	/* What came before the end was received: its sender is told so, as a NIC would have. */
	if (peer && !peer->is_gone)
		execute_cells(peer, RING_CELLS);
	segment_withdraw_qp(qp);
	timer_cancel(&qp->context->engine->timers, &lqp->tx.timer);
	if (peer && !peer->is_gone)
		responder_answer_all(peer);
	list_del(&lqp->node);
	list_del(&lqp->blocked_node);
	list_del(&lqp->answer_node);
	if (peer) {
		local_finish_turn(peer);
		peer_unref_if_gone(peer);
	}
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
		responder_answer_all(lqp->peer);
		local_finish_turn(lqp->peer);
	}
}

/* The QP that a cell is for, if it is this peer's to speak to. */
static struct local_qp *find_qp(struct peer *peer, const struct cell *cell)
{
	struct qp *qp = qp_find(peer->engine, cell->dst_qpn);
	struct local_qp *lqp;

	if (!qp || qp->transport != &local_transport || qp->attr.dest_qp_num != cell->src_qpn ||
	    cell->src_qpn >> IPC_SLOT_SHIFT != peer->slot)
		return NULL;
	lqp = local_qp_of(qp);
	if (!lqp->peer) {
		/* Bound before anybody owned the peer's QPN. */
		lqp->peer = peer;
		list_add_tail(&lqp->node, &peer->qps);
	}
	return lqp->peer == peer ? lqp : NULL;
}

static void dispatch(struct peer *peer, const struct cell *cell)
{
	const uint8_t *payload = ring_payload(&peer->rx, cell);
	struct local_qp *lqp;

	if (!payload || cell->type == CELL_NONE || cell->type >= CELL_TYPE_COUNT) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	if (cell->type == CELL_DATAGRAM) {
		local_datagram_receive(peer, cell, payload);
		return;
	}
	if (cell->type == CELL_RELAY) {
		local_relay_receive(peer, cell, payload);
		return;
	}
	lqp = find_qp(peer, cell);
	if (cell->type >= CELL_ACK) {
		if (lqp)
			completer_answer(lqp, cell, payload);
	} else if (lqp) {
		responder_request(lqp, cell, payload);
	} else {
		responder_refuse(peer, cell);
	}
}

static unsigned int execute_cells(struct peer *peer, unsigned int max)
{
	unsigned int done = 0;
	struct cell cell;

	while (done < max && ring_next(&peer->rx, &cell)) {
		dispatch(peer, &cell);
		ring_release(&peer->rx, &cell);
		done++;
	}
	ring_publish(&peer->rx);
	return done;
}

/* Those whose turn ended, or that found the ring full. */
static unsigned int run_blocked(struct peer *peer)
{
	struct list_head waiting;
	unsigned int done = 0;

	if (list_is_empty(&peer->blocked) || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	list_init(&waiting);
	list_splice_tail(&peer->blocked, &waiting);
	while (!list_is_empty(&waiting)) {
		requester_run(list_first_entry(&waiting, struct local_qp, blocked_node));
		done++;
	}
	return done;
}

static bool has_leftover(const struct peer *peer)
{
	return !list_is_empty(&peer->blocked) || !list_is_empty(&peer->answering) ||
	       peer->refusal_count || peer->stuck_since_ns || peer->relay_waits;
}

/*
 * After whatever may have written cells: rings the peer's doorbell. If something could not be sent and nobody is polling,
 * asks the reader to say when there is space; if there is space already, the thread goes on with it.
 */
void local_finish_turn(struct peer *peer)
{
	if (peer->has_sent)
		peer_ring_doorbell(peer);
	if (!has_leftover(peer) || peer->engine->is_polled)
		return;
	atomic_store(&peer->tx.shared->writer_waits, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		engine_wake(peer->engine);
}

/* Datagrams that found the ring full. */
static unsigned int run_stuck(struct peer *peer)
{
	if (!peer->stuck_since_ns || !ring_has_space(&peer->tx, RING_FRAGMENT_BYTES))
		return 0;
	local_datagram_has_room(peer);
	return datagram_resume(peer->engine);
}

/* Either could take all the space there is: they go first by turns. */
static unsigned int run_waiting(struct peer *peer)
{
	unsigned int done = 0;

	peer->is_datagrams_turn = !peer->is_datagrams_turn;
	if (peer->is_datagrams_turn)
		done += run_stuck(peer);
	done += run_blocked(peer);
	done += local_relay_resume(peer);
	if (!peer->is_datagrams_turn)
		done += run_stuck(peer);
	return done;
}

static unsigned int peer_run(struct peer *peer)
{
	unsigned int done = execute_cells(peer, RUN_CELLS);

	if (done) {
		responder_answer_all(peer);
		/* Space was given back: a writer that stopped for want of it is told. */
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&peer->rx.shared->writer_waits, memory_order_relaxed)) {
			atomic_store(&peer->rx.shared->writer_waits, 0);
			peer->has_sent = true;
		}
	} else if (has_leftover(peer)) {
		responder_answer_all(peer);
	}
	done += run_waiting(peer);
	if (peer->has_sent)
		peer_ring_doorbell(peer);
	return done;
}

/* No more than the ring holds: one that is dead to the daemon alone might go on for ever. */
void local_drain(struct peer *peer)
{
	execute_cells(peer, RING_CELLS);
}

static unsigned int local_run(struct engine *engine, uint64_t now_ns)
{
	struct local *local = local_of(engine);
	struct peer *peer, *tmp;
	unsigned int done = 0;

	(void)now_ns;
	if (local->has_strangers)
		local_relay_introduce(local);
	list_for_each_entry_safe(peer, tmp, &local->peers, node) {
		if (ring_has_next(&peer->rx) || has_leftover(peer))
			done += peer_run(peer);
	}
	return done + datagram_resume(engine);
}

static bool local_sleep(struct engine *engine, bool want_doorbell)
{
	struct local *local = local_of(engine);
	bool is_busy = false;
	struct peer *peer;

	list_for_each_entry(peer, &local->peers, node) {
		atomic_store_explicit(&peer->rx.shared->reader_sleeps, want_doorbell,
				      memory_order_relaxed);
		if (want_doorbell && has_leftover(peer))
			atomic_store_explicit(&peer->tx.shared->writer_waits, 1,
					      memory_order_relaxed);
	}
	if (!want_doorbell)
		return false;
	/* Our flags first, then the last look: the other half of peer_ring_doorbell(). */
	atomic_thread_fence(memory_order_seq_cst);
	list_for_each_entry(peer, &local->peers, node) {
		if (ring_has_next(&peer->rx) ||
		    (has_leftover(peer) && ring_has_space(&peer->tx, RING_FRAGMENT_BYTES)))
			is_busy = true;
	}
	return is_busy;
}

const struct transport local_transport = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.bind = local_bind,
	.ready = local_ready,
	.halt = local_halt,
	.unbind = local_unbind,
	.kick = local_kick,
	.recv_posted = local_recv_posted,
	.publish_qp = segment_publish_qp,
	.publish_mr = segment_publish_mr,
	.revoke_mr = segment_revoke_mr,
	.notice = peer_notice,
	.ah_open = local_ah_open,
	.send_datagram = local_datagram_send,
	.relay_send = local_relay_send,
	.run = local_run,
	.sleep = local_sleep,
};
