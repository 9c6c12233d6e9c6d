/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "core/device/async.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/mcast.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/memory/mw.h"
#include "core/qp/xrc_remote.h"
#include "core/queue/comp_cntr.h"
#include "core/queue/cq.h"
#include "core/queue/wq.h"
#include "core/queue/wr_batch.h"
#include "core/report/call_failed.h"
#include "core/report/probe.h"

void qp_unstarve(struct qp *qp)
{
	if (!qp->is_waiting_recv)
		return;
	qp->is_waiting_recv = false;
	list_del(&qp->waiting_recv_node);
}

void qp_publish(struct qp *qp)
{
	engine_assert_locked(qp->context->engine);
	qp_assert_locked(qp);
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->publish_qp)
			transports[i]->publish_qp(qp);
	}
}

int qp_revoke(struct qp *qp)
{
	int ret = 0;

	engine_assert_once_locked(qp->context->engine);
	for (int i = 0; !ret && transports[i]; i++) {
		if (transports[i]->revoke_qp)
			ret = transports[i]->revoke_qp(qp);
	}
	return ret;
}

/*
 * Removes the CQEs of the QP that were not polled. Their results are not reported; the application
 * sees message loss.
 */
static void drop_completions(const struct qp *qp, uint32_t under_way)
{
	struct cq_purged purged = {.sends = 0};

	if (qp->send_cq)
		cq_purge_qp(qp->send_cq, qp->qpn, &purged);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_purge_qp(qp->recv_cq, qp->qpn, &purged);
	if (purged.sends || purged.receives || under_way)
		log_debug(
			"QP 0x%x is destroyed or reset: %u receive and %u send completions were not "
			"polled, %u sends are outstanding",
			qp->qpn, purged.receives, purged.sends, under_way);
}

void qp_reset(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	uint32_t under_way;

	engine_assert_all_locked(qp->context->engine);
	qp_unstarve(qp);
	if (!engine->is_orphan)
		timer_cancel(&engine->timers, &qp->lost_timer);
	/* The transport may execute messages that have arrived. */
	if (qp->transport && qp->transport->unbind)
		qp->transport->unbind(qp);
	qp->transport = NULL;
	qp->transport_qp = NULL;
	if (qp->shard)
		qp_set_lock(qp, QP_LOCK_ALL);
	datagram_forget(qp);
	under_way = qp->sq.head - qp->sq.una;
	sq_cut(qp, qp->sq.una);
	qp_set_state(qp, IBV_QPS_RESET);
	/* In a child after fork() the published state belongs to the parent. */
	if (!qp->context->engine->is_orphan)
		qp_publish(qp);
	qp->has_comm_est = false;
	qp->failure_id = qp->flushed_id = 0;
	memset(qp->reported_reasons, 0, sizeof(qp->reported_reasons));
	qp->has_lost_completion = false;
	qp->flushed_sends = qp->flushed_receives = 0;
	memset(&qp->attr, 0, sizeof(qp->attr));
	wr_batch_make_stale(qp);
	drop_completions(qp, under_way);
	send_queue_reset(&qp->sq);
	recv_queue_reset(&qp->rq);
}

void qp_set_lock(struct qp *qp, enum qp_lock lock)
{
	uint32_t shards = 1u << (lock == QP_LOCK_BASE ? 0 : qp->shard);

	atomic_store(&qp->lock, lock);
	if (qp->send_cq)
		atomic_fetch_or(&qp->send_cq->shards, shards);
	if (qp->recv_cq)
		atomic_fetch_or(&qp->recv_cq->shards, shards);
}

/* Removes the QP from the engine's tables and releases the objects that it uses. All locks held. */
static void qp_remove(struct engine *engine, struct qp *qp)
{
	engine_assert_all_locked(engine);
	/*
	 * A child after fork() shares memory with the peers of its parent, so it releases only its
	 * private copy.
	 */
	if (engine->is_orphan) {
		qp->transport = NULL;
		mcast_forget(qp);
	}
	qp_reset(qp);
	wr_batch_forget(qp);
	comp_cntr_detach_all(qp);
	mw_forget_qp(qp);
	qp_table_remove(&engine->tables.qps, qp);
	device_count_drop(qp->context->engine, qp->context->device, DEVICE_QP);
	if (qp->type == IBV_QPT_UD)
		engine->datagrams.qp_count--;
	qp_count_parts(qp, -1);
}

/* Frees a handle of ibv_open_qp(). No event refers to it any more. */
static void qp_handle_free(struct qp *handle)
{
	pthread_mutex_destroy(&handle->pub.mutex);
	pthread_cond_destroy(&handle->pub.cond);
	free(handle);
}

/*
 * Removes a handle of a QP, and the QP with its last handle. Only XRC_RECV QPs can have several
 * handles. Returns the QP that the caller must free, or NULL. engine.lock held.
 */
static struct qp *qp_end(struct engine *engine, struct qp *handle)
{
	struct qp *qp = qp_of_handle(handle);

	engine_assert_all_locked(engine);
	if (qp->type == IBV_QPT_XRC_RECV && !xrc_qp_put_handle(handle))
		return NULL;
	qp_remove(engine, qp);
	return qp;
}

void qp_free_orphaned(struct qp *qp)
{
	struct engine *engine = qp->context->engine;

	engine_assert_all_locked(qp->context->engine);
	qp_remove(engine, qp);
	context_put(qp->context);
	qp_free(qp);
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct qp *handle = to_qp(ibqp);
	struct context *context = handle->context;
	struct engine *engine = context->engine;
	struct qp *ended;

	if (fault_call_fails(__func__))
		return errno;
	if (handle->remote)
		return xrc_destroy_remote(handle);
	engine_lock(engine);
	/* IBA 1.x §11.2.5.4: a QP that is attached to a multicast group cannot be destroyed. */
	if (mcast_is_attached(handle) && !engine->is_orphan) {
		engine_unlock(engine);
		return call_result(context, __func__, -EBUSY);
	}
	/*
	 * Only the last handle of an XRC_RECV QP ends the QP. The transport of such a QP ends the
	 * accesses in unbind().
	 */
	if (!engine->is_orphan && handle->type != IBV_QPT_XRC_RECV && qp_revoke(handle)) {
		engine_unlock(engine);
		return call_result(context, __func__, -EBUSY);
	}
	ended = qp_end(engine, handle);
	engine_unlock(engine);
	if (!engine->is_orphan) {
		async_forget(context, handle);
		async_wait_acks(context, &ibqp->mutex, &ibqp->cond, &ibqp->events_completed,
				handle->events_fetched,
				"ibv_destroy_qp() waits for ibv_ack_async_event()");
	}
	engine_lock(engine);
	if (ended && ended != handle)
		context_put(ended->context);
	if (handle->opened || ended)
		context_put(context);
	engine_unlock(engine);
	if (handle->opened)
		qp_handle_free(handle);
	if (ended)
		qp_free(ended);
	return 0;
}

static void qp_fill_init_attr(const struct qp *qp, struct ibv_qp_init_attr *attr)
{
	attr->send_cq = qp->pub.send_cq;
	attr->recv_cq = qp->pub.recv_cq;
	attr->srq = qp->pub.srq;
	attr->cap = qp->cap;
	attr->qp_type = qp->type;
	attr->sq_sig_all = qp->is_sig_all;
}

void qp_fill_attr(const struct qp *qp, struct ibv_qp_attr *attr)
{
	qp_assert_locked(qp);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	attr->sq_draining = qp->state == IBV_QPS_SQD && qp->sq.una != qp->sq.begun;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr)
{
	struct qp *qp = qp_of_handle(to_qp(ibqp));
	struct engine *engine = qp->context->engine;
	struct ibv_qp_attr full;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	/*
	 * The mask is a lower bound (ibv_query_qp(3)); all attributes are returned because none is
	 * expensive.
	 */
	engine_lock(engine);
	ret = engine->is_orphan ? EIO : 0;
	if (!ret && qp->remote)
		ret = -xrc_remote_query(qp, &full);
	else if (!ret)
		qp_fill_attr(qp, &full);
	if (!ret) {
		memcpy(attr, &full, QP_ATTR_COMPAT_BYTES);
		/*
		 * Applications compare the state with that of their last call, which only a query
		 * of the state changes.
		 */
		if (attr_mask & IBV_QP_STATE)
			ibqp->state = full.qp_state;
		qp_fill_init_attr(qp, init_attr);
		init_attr->qp_context = ibqp->qp_context;
	}
	engine_unlock(engine);
	return ret;
}
