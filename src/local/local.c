/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "core/device/device.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/qp/qp.h"
#include "core/qp/xrc.h"
#include "core/report/counters.h"
#include "local/ack_wait.h"
#include "local/datagram.h"
#include "local/describe.h"
#include "local/fault.h"
#include "local/peer.h"
#include "local/peer_connect.h"
#include "local/peer_shard.h"
#include "local/qp.h"
#include "local/requester.h"
#include "local/responder.h"
#include "local/revoke.h"
#include "local/ring.h"
#include "local/run.h"
#include "local/segment.h"
#include "local/xrc_forward.h"

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

	engine_assert_all_locked(engine);
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

	engine_assert_all_locked(engine);
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
	lqp->rx.max_jobs = qp->attr.max_dest_rd_atomic;
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
 * Before a QP is bound: the cells that have arrived for it belong to an earlier connection with the
 * same peer. Its responses are dropped and its requests are refused. A NIC drops both.
 */
static void drop_earlier_cells(struct peer *peer)
{
	if (peer->is_gone)
		return;
	/* Messages for other QPs are executed, as in qp_reset(). */
	local_drain(peer);
	responder_respond_all(peer);
	local_finish_turn(peer);
}

/*
 * The transport applies if the destination GID belongs to this host. A QP whose remote QPN is not
 * owned by any process is bound, too, as with a NIC: only its sends fail.
 */
static int local_bind(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	struct peer *main, *peer;
	struct local_qp *lqp;

	engine_assert_all_locked(qp->context->engine);
	/*
	 * This transport does not support the SRQ number of XRC requests: XRC uses the network
	 * transport, also on one host.
	 */
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
	engine_assert_unlocked(engine);
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

	engine_assert_all_locked(qp->context->engine);
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
	lqp->tx.has_waited_last = false;
	push_on(lqp);
}

static void local_kick(struct qp *qp)
{
	qp_assert_locked(qp);
	push_on(local_qp_of(qp));
}

static void local_halt(struct qp *qp)
{
	struct local_qp *lqp = local_qp_of(qp);

	engine_assert_locked(qp->context->engine);
	qp_assert_locked(qp);
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

	engine_assert_all_locked(qp->context->engine);
	/*
	 * Requests that arrived before the QP is closed are executed and acknowledged, as with a
	 * NIC.
	 */
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

	qp_assert_locked(qp);
	responder_recv_posted(lqp);
	if (lqp->peer) {
		responder_respond_all(lqp->peer);
		local_finish_turn(lqp->peer);
	}
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
