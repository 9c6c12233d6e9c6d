/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/device/device.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "roce/probe.h"
#include "roce/xrc_forward.h"

/* ECN field, RFC 3168: ECT(0), a router may mark the packet instead of dropping it. */
#define ECN_CAPABLE 0x02

void roce_timer_add(struct roce *roce, struct timer *timer, uint64_t deadline_ns)
{
	timer_add(&roce->engine->timers, timer, deadline_ns);
	engine_timer_added(roce->engine);
}

void roce_send_later(struct roce_qp *rqp)
{
	if (!list_is_linked(&rqp->send_node))
		list_add_tail(&rqp->send_node, &rqp->roce->sending);
}

void roce_set_link(struct engine *engine, struct link *link, uint64_t (*clock)(void *arg),
		   void *clock_arg)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	vendor_acks_close(roce);
	roce->link = link;
	roce->clock = clock;
	roce->clock_arg = clock_arg;
}

bool roce_is_held(const struct engine *engine)
{
	return roce_of(engine) && roce_of(engine)->batch.is_held;
}

static int roce_open(struct engine *engine, int *segment_fd)
{
	struct roce *roce = calloc(1, sizeof(*roce));

	engine_assert_all_locked(engine);
	(void)segment_fd;
	if (!roce)
		return -ENOMEM;
	if (roce_xrc_open(&roce->xrc)) {
		free(roce);
		return -ENOMEM;
	}
	roce->engine = engine;
	roce->cc = &cc_westwood;
	list_init(&roce->sending);
	list_init(&roce->responding);
	list_init(&roce->sent);
	list_init(&roce->delayed);
	timer_init(&roce->held_timer, batch_timer);
	timer_init(&roce->ack_timer, ack_wait_timer);
	timer_init(&roce->pace_timer, roce_datagram_pace_timer);
	vendor_acks_init(&roce->vendor_acks);
	lanes_begin(&roce->batch.lanes);
	icrc_solver_init(&roce->solver);
	list_init(&roce->datagrams.paths);
	roce_open_counters(roce);
	engine->transport_state[ROCE_TRANSPORT] = roce;
	engine->xrc_forward.user = &roce_xrc_forward;
	return 0;
}

static void roce_close(struct engine *engine)
{
	struct roce *roce = roce_of(engine);

	engine_assert_all_locked(engine);
	if (!roce)
		return;
	timer_cancel(&engine->timers, &roce->held_timer);
	timer_cancel(&engine->timers, &roce->ack_timer);
	timer_cancel(&engine->timers, &roce->pace_timer);
	vendor_acks_close(roce);
	roce_drop_delayed(roce);
	roce_xrc_close(&roce->xrc);
	free(roce);
	engine->transport_state[ROCE_TRANSPORT] = NULL;
	engine->xrc_forward.user = NULL;
}

/* Packets that wait for the next call of ibv_post_send() may refer to the region. */
static int roce_revoke_mr(struct engine *engine, const struct mr *mr)
{
	struct roce *roce = roce_of(engine);

	engine_assert_all_locked(engine);
	(void)mr;
	if (roce)
		batch_flush(roce);
	return 0;
}

/* If the link does not accept the packets that wait, they become copies. */
static int roce_revoke_qp(struct qp *qp)
{
	engine_assert_all_locked(qp->context->engine);
	if (qp->transport != &roce_transport)
		return 0;
	batch_flush(roce_of(qp->context->engine));
	response_revoke(roce_qp_of(qp));
	return 0;
}

static void roce_daemon_lost(struct engine *engine)
{
	const struct roce *roce = roce_of(engine);

	engine_assert_all_locked(engine);
	if (roce && roce->link)
		link_stop_receiving(roce->link);
}

static void roce_disown(struct engine *engine)
{
	struct link *link = roce_of(engine) ? roce_of(engine)->link : NULL;

	if (link && link->ops->disown)
		link->ops->disown(link);
}

static void roce_qp_free(struct roce_qp *rqp)
{
	reorder_drop_all(rqp);
	free(rqp->rx.reorder_buffer);
	free(rqp->rx.in);
	free(rqp->rx.jobs);
	free(rqp->rx.atomics);
	free(rqp);
}

static struct roce_qp *roce_qp_new(struct roce *roce, struct qp *qp)
{
	struct roce_qp *rqp = calloc(1, sizeof(*rqp));

	if (!rqp)
		return NULL;
	rqp->qp = qp;
	rqp->roce = roce;
	inflow_init(&rqp->inflow);
	list_init(&rqp->send_node);
	list_init(&rqp->sent_node);
	list_init(&rqp->response_node);
	recovery_init(rqp);
	rqp->mtu_bytes = mtu_code_bytes(qp->attr.path_mtu);
	rqp->rx.psn = qp->attr.rq_psn;
	rqp->rx.max_reads = qp->attr.max_dest_rd_atomic;
	rqp->rx.max_jobs = 2 * rqp->rx.max_reads;
	rqp->rx.atomics_count = round_up_pow2(rqp->rx.max_reads);
	rqp->rx.in = calloc(1, sizeof(*rqp->rx.in));
	rqp->rx.jobs = calloc(round_up_pow2(rqp->rx.max_jobs), sizeof(*rqp->rx.jobs));
	rqp->rx.atomics = calloc(rqp->rx.atomics_count, sizeof(*rqp->rx.atomics));
	if (rqp->rx.in && rqp->rx.jobs && rqp->rx.atomics)
		return rqp;
	roce_qp_free(rqp);
	return NULL;
}

/* Opens the path of the QP's address vector. 0 or -errno. */
static int roce_set_path(struct roce_qp *rqp)
{
	const struct ibv_global_route *route = &rqp->qp->attr.ah_attr.grh;
	struct link_path *path = &rqp->path;
	struct ipc_gid gid;
	int ret = device_gid(rqp->qp->context->device, route->sgid_index, &gid);

	if (!ret)
		ret = path_fill(rqp->roce, gid.raw, gid.ifindex, route, path);
	if (ret)
		return ret;
	/* The window of a UC QP does not react to CNPs. */
	if (is_reliable(rqp))
		path->traffic_class |= ECN_CAPABLE;
	path->local_qpn = rqp->qp->qpn;
	path->remote_qpn = rqp->qp->attr.dest_qp_num;
	ret = link_path_open(rqp->roce->link, path);
	if (ret)
		return ret;
	icrc_flow_init(&rqp->tx_flow, path->local_gid, path->remote_gid, path->src_port,
		       PACKET_UDP_PORT);
	return 0;
}

/*
 * Only XRC target QPs of a domain that other processes can open forward requests. The QP of an
 * executor is not in the QP table.
 */
static int open_xrc_target(struct roce_qp *rqp)
{
	const struct qp *qp = rqp->qp;

	if (qp->type != IBV_QPT_XRC_RECV || !qp->xrc_domain->id ||
	    qp_find(rqp->roce->engine, qp->qpn) != qp)
		return 0;
	return xrc_target_open(rqp);
}

/*
 * Ends a call of the application. The engine thread sends the remaining packets if no application
 * thread polls.
 */
static void push_out(struct roce *roce)
{
	roce_requester_flush(roce);
	if (!list_is_empty(&roce->sending) && !roce->batch.is_held &&
	    !engine_is_polled(roce->engine))
		engine_wake(roce->engine);
}

static void roce_ready(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	engine_assert_all_locked(qp->context->engine);
	roce_look_at_clock(roce);
	/* After SQD or SQE the QP continues with its PSNs. */
	if (!rqp->tx.is_ready) {
		rqp->tx.is_ready = true;
		rqp->tx.una_psn = qp->attr.sq_psn;
		rqp->tx.next_psn = qp->attr.sq_psn;
		rqp->tx.max_psn = qp->attr.sq_psn;
		rqp->tx.reads_end_psn = qp->attr.sq_psn;
		recovery_start(rqp);
		pace_init(&rqp->tx.pace,
			  cc_max_cwnd_pkts(roce->link ? roce->link->rx_bytes : 0, rqp->mtu_bytes));
	}
	roce_requester_run(rqp);
	push_out(roce);
}

static void roce_kick(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	engine_assert_locked(qp->context->engine);
	roce_look_at_clock(roce);
	roce_requester_run(rqp);
	response_run_waited(rqp);
	if (!batch_may_wait(roce))
		push_out(roce);
}

static void roce_halt(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);

	engine_assert_locked(qp->context->engine);
	/* Packets that wait refer to memory of the application. */
	roce_requester_flush(rqp->roce);
	recovery_halt(rqp);
	list_del(&rqp->send_node);
	roce_responder_abandon(rqp);
	if (rqp->rx.xrc_target)
		xrc_target_halt(rqp);
	roce_count(rqp->roce, ROCE_QP_ERRORS);
}

static void roce_unbind(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	engine_assert_all_locked(qp->context->engine);
	roce_look_at_clock(roce);
	timer_cancel(&qp->context->engine->timers, &rqp->tx.timer);
	list_del(&rqp->send_node);
	response_revoke(rqp);
	/*
	 * Sends pending ACKs. If the link returns back-pressure, they are lost, and the peer
	 * retries.
	 */
	if (roce->link && list_is_linked(&rqp->response_node))
		response_run(rqp);
	/* No packet refers to the QP and to its path any more. */
	roce_requester_flush(roce);
	list_del(&rqp->response_node);
	if (rqp->rx.xrc_target)
		xrc_target_close(rqp);
	if (roce->link)
		link_path_close(roce->link, &rqp->path);
	roce_qp_free(rqp);
	roce->qp_count--;
	qp->transport_qp = NULL;
}

static int roce_bind(struct qp *qp)
{
	struct roce *roce = roce_of(qp->context->engine);
	struct roce_qp *rqp;
	int ret;

	engine_assert_all_locked(qp->context->engine);
	if (!roce || !roce->link || qp->type == IBV_QPT_UD)
		return -EOPNOTSUPP;
	rqp = roce_qp_new(roce, qp);
	if (!rqp)
		return -ENOMEM;
	/* The QP of an executor, which receives no packets, is not in the QP table. */
	if (qp_find(roce->engine, qp->qpn) == qp)
		roce_drop_earlier_packets(roce);
	ret = roce_set_path(rqp);
	if (!ret) {
		ret = open_xrc_target(rqp);
		if (ret)
			link_path_close(roce->link, &rqp->path);
	}
	if (ret) {
		roce_qp_free(rqp);
		return ret;
	}
	qp->transport_qp = rqp;
	roce->qp_count++;
	return 0;
}

static int roce_join(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	return roce && roce->link ? link_join(roce->link, ifindex, group->raw) : -EOPNOTSUPP;
}

static void roce_leave(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	if (roce && roce->link)
		link_leave(roce->link, ifindex, group->raw);
}

const struct transport roce_transport = {
	.name = "roce",
	.is_routed = true,
	.open = roce_open,
	.close = roce_close,
	.disown = roce_disown,
	.daemon_lost = roce_daemon_lost,
	.bind = roce_bind,
	.ready = roce_ready,
	.halt = roce_halt,
	.unbind = roce_unbind,
	.kick = roce_kick,
	.publish_qp = xrc_target_publish,
	.revoke_mr = roce_revoke_mr,
	.revoke_qp = roce_revoke_qp,
	.ah_open = roce_ah_open,
	.ah_close = roce_ah_close,
	.send_datagram = roce_datagram_send,
	.datagrams_end = roce_datagrams_end,
	.join = roce_join,
	.leave = roce_leave,
	.run = roce_run,
	.sleep = roce_sleep,
};
