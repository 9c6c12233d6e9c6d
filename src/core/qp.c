/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/trace_points.h"
#include "core/async.h"
#include "core/call_failed.h"
#include "core/comp_cntr.h"
#include "core/context.h"
#include "core/cq.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/mcast.h"
#include "core/mw.h"
#include "core/opcode.h"
#include "core/pd.h"
#include "core/probe.h"
#include "core/qpn.h"
#include "core/transport.h"
#include "core/usage.h"
#include "core/wq.h"
#include "core/wr_batch.h"
#include "core/xrc_remote.h"

struct qp *qp_find(struct engine *engine, uint32_t qpn)
{
	return qp_table_get(&engine->qps, qpn);
}

void qp_unstarve(struct qp *qp)
{
	if (!qp->is_waiting_recv)
		return;
	qp->is_waiting_recv = false;
	list_del(&qp->waiting_recv_node);
}

void qp_publish(struct qp *qp)
{
	for (int i = 0; transports[i]; i++) {
		if (transports[i]->publish_qp)
			transports[i]->publish_qp(qp);
	}
}

int qp_revoke(struct qp *qp)
{
	int ret = 0;

	for (int i = 0; !ret && transports[i]; i++) {
		if (transports[i]->revoke_qp)
			ret = transports[i]->revoke_qp(qp);
	}
	return ret;
}

/* Removes the CQEs of the QP that were not polled. Their results are not reported; the application sees message loss. */
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
	bool before = engine->checks_mappings;
	uint32_t under_way;

	qp_unstarve(qp);
	if (!engine->is_orphan)
		timer_cancel(&engine->timers, &qp->lost_timer);
	/* The transport may execute messages that have arrived. */
	engine->checks_mappings = true;
	memory_forget(&engine->checked);
	if (qp->transport && qp->transport->unbind)
		qp->transport->unbind(qp);
	engine->checks_mappings = before;
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

/* The supported enum ibv_qp_create_flags of a QP type. */
static uint32_t create_flags_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

/* Checks the fields that comp_mask selects: 0, -EINVAL (invalid) or -EOPNOTSUPP (not supported by this device). */
static int init_attr_check_ex(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (attr->comp_mask & ~known)
		return -EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)
			return -EINVAL;
	} else if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd ||
		   attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) {
		return -EINVAL;
	}
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH))
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags & ~create_flags_of(attr->qp_type))
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && attr->max_tso_header)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    (attr->send_ops_flags & ~wr_send_ops(attr->qp_type)))
		return -EOPNOTSUPP;
	return 0;
}

/* Checks the PD, CQs and SRQ. */
static int init_attr_check_parts(const struct ibv_context *context,
				 const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->pd->context != context || !attr->send_cq || attr->send_cq->context != context)
		return -EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		return 0;
	if (!attr->recv_cq || attr->recv_cq->context != context)
		return -EINVAL;
	if (!attr->srq)
		return 0;
	/* An XRC SRQ is used only through XRC receive QPs of its domain. */
	if (attr->srq->context != context || to_srq(attr->srq)->xrcd)
		return -EINVAL;
	/* IBA 1.x §10.2.9.1: SRQs are supported for RC and UD only. */
	return attr->qp_type == IBV_QPT_UC ? -EINVAL : 0;
}

static int core_qp_init_attr_check(const struct ibv_context *context,
				   const struct ibv_qp_init_attr_ex *attr)
{
	switch (attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
		return init_attr_check_parts(context, attr);
	case IBV_QPT_XRC_RECV:
		return attr->xrcd->context != context ? -EINVAL : 0;
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_DRIVER:
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

/*
 * Clears the attributes that XRC QPs do not have (IBA A14), whatever the caller set. An XRC send QP has no receive
 * queue. An XRC receive QP has only its XRC domain.
 */
static void drop_unresolved_parts(struct ibv_qp_init_attr_ex *attr)
{
	if (!qp_is_xrc(attr->qp_type))
		return;
	attr->recv_cq = NULL;
	attr->srq = NULL;
	attr->cap.max_recv_wr = 0;
	attr->cap.max_recv_sge = 0;
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		return;
	attr->pd = NULL;
	attr->send_cq = NULL;
	memset(&attr->cap, 0, sizeof(attr->cap));
}

static int qp_init_queues(struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	int ret;

	qp->cap = attr->cap;
	if (qp->srq) {
		qp->cap.max_recv_wr = 0;
		qp->cap.max_recv_sge = 0;
	}
	ret = send_queue_init(&qp->sq, &qp->cap, to_pd(attr->pd));
	if (ret)
		return ret;
	ret = recv_queue_init(&qp->rq, &qp->cap.max_recv_wr, &qp->cap.max_recv_sge, to_pd(attr->pd),
			      QUEUE_RECV);
	if (ret)
		send_queue_fini(&qp->sq);
	if (qp->srq || qp_is_xrc(qp->type))
		qp->cap.max_recv_sge = 0;
	if (qp->type == IBV_QPT_XRC_RECV)
		memset(&qp->cap, 0, sizeof(qp->cap));
	return ret;
}

static void qp_init_pub(struct qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
	qp->pub.context = &qp->context->pub.context;
	qp->pub.qp_context = attr->qp_context;
	qp->pub.pd = attr->pd;
	qp->pub.send_cq = attr->send_cq;
	qp->pub.recv_cq = attr->recv_cq;
	qp->pub.srq = attr->srq;
	qp->pub.state = IBV_QPS_RESET;
	qp->pub.qp_type = attr->qp_type;
	pthread_mutex_init(&qp->pub.mutex, NULL);
	pthread_cond_init(&qp->pub.cond, NULL);
	qp->usage = &usage_unread_qp;
}

static int qp_new(struct context *context, const struct ibv_qp_init_attr_ex *attr, struct qp **made)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	int ret;

	if (!qp)
		return -ENOMEM;
	qp->context = context;
	qp->pd = to_pd(attr->pd);
	qp->send_cq = to_cq(attr->send_cq);
	qp->recv_cq = to_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_srq(attr->srq) : NULL;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		qp->xrcd = to_xrcd(attr->xrcd);
		qp->xrc_domain = qp->xrcd->domain;
	}
	qp->type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	qp->is_sig_all = attr->sq_sig_all;
	qp->blocks_echo = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
			  attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	list_init(&qp->waiting_recv_node);
	list_init(&qp->datagram_node);
	list_init(&qp->sent_node);
	list_init(&qp->memberships);
	list_init(&qp->handles);
	qp_error_init(qp);
	list_init(&qp->remote_clients);
	ret = qp_init_queues(qp, attr);
	if (ret) {
		free(qp);
		return ret;
	}
	qp_init_pub(qp, attr);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->has_ex = true;
		qp->send_ops_flags = attr->send_ops_flags;
		qp_init_ex(qp);
	}
	*made = qp;
	return 0;
}

static void qp_free(struct qp *qp)
{
	send_queue_fini(&qp->sq);
	recv_queue_fini(&qp->rq);
	pthread_mutex_destroy(&qp->pub.mutex);
	pthread_cond_destroy(&qp->pub.cond);
	free(qp);
}

/* Changes the user counts of the QP's objects by 1 or -1. For XRC_RECV the only object is the xrcd of the handle. */
static void qp_count_parts(struct qp *qp, int by)
{
	if (qp->pd && by > 0)
		qp->pd->users++;
	if (qp->pd && by < 0)
		pd_put(qp->pd);
	if (qp->send_cq) {
		qp->send_cq->users += (unsigned int)by;
		cq_demand(qp->send_cq, by * (int64_t)qp->wanted_sends);
	}
	if (qp->recv_cq) {
		qp->recv_cq->users += (unsigned int)by;
		cq_demand(qp->recv_cq, by * (int64_t)qp->wanted_receives);
	}
	if (qp->srq)
		qp->srq->users += (unsigned int)by;
	if (qp->xrcd)
		qp->xrcd->users += (unsigned int)by;
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

static int qp_choose_qpn(struct engine *engine, struct qp *qp)
{
	uint32_t shard = shard_choose(qp);

	if (shard && !shards_open(engine))
		shard = 0;
	if (!qpn_choose(engine, shard, &qp->qpn))
		return -ENOMEM;
	qp->shard = qpn_shard(qp->qpn);
	qp_set_lock(qp, qp->shard ? QP_LOCK_ALL : QP_LOCK_BASE);
	return 0;
}

/* Assigns a QPN and enters the QP into the engine's table. */
static int qp_add(struct engine *engine, struct qp *qp)
{
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (engine->qps.count >= MAX_QPS)
		return -ENOMEM;
	ret = device_count_add(qp->context->device, DEVICE_QP);
	if (ret)
		return ret;
	ret = qp_choose_qpn(engine, qp);
	if (!ret)
		ret = qp_table_add(&engine->qps, qp);
	if (ret) {
		device_count_drop(qp->context->device, DEVICE_QP);
		return ret;
	}
	if (qp->type == IBV_QPT_UD)
		engine->datagrams.qp_count++;
	qp->pub.qp_num = qp->qpn;
	qp->pub.handle = qp->qpn;
	qp_count_parts(qp, 1);
	usage_show_cqs(engine, qp);
	context_get(qp->context);
	return 0;
}

static int qp_create(struct context *context, struct ibv_qp_init_attr_ex *attr, struct qp **made)
{
	struct engine *engine = context->engine;
	struct ibv_qp_init_attr_ex own = *attr;
	const struct ibv_qp_cap wanted = attr->cap;
	int ret = init_attr_check_ex(attr);

	if (!ret)
		ret = core_qp_init_attr_check(&context->pub.context, attr);
	drop_unresolved_parts(&own);
	if (!ret)
		ret = qp_new(context, &own, made);
	if (ret)
		return ret;
	(*made)->wanted_sends = wanted.max_send_wr;
	(*made)->wanted_receives = (*made)->srq ? 0 : wanted.max_recv_wr;
	engine_lock(engine);
	ret = qp_add(engine, *made);
	engine_unlock(engine);
	if (ret)
		qp_free(*made);
	else
		attr->cap = (*made)->cap;
	return ret;
}

/* `call`: the name of the public call. */
static struct ibv_qp *qp_create_for(const char *call, struct ibv_context *context,
				    struct ibv_qp_init_attr_ex *attr)
{
	struct qp *qp = NULL;
	int ret = fault_call(call);

	if (!ret)
		ret = qp_create(to_context(context), attr, &qp);

	if (!ret)
		return &qp->pub;
	failure_create_qp(to_context(context), attr, ret);
	errno = -ret;
	trace_call_failed(call, -ret, 0);
	return NULL;
}

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return qp_create_for("ibv_create_qp_ex", context, attr);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = qp_create_for(__func__, pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct qp *qp = to_qp(ibqp);

	return qp->has_ex ? &qp->ex : NULL;
}

/* Removes the QP from the engine's tables and releases the objects that it uses. engine.lock held. */
static void qp_remove(struct engine *engine, struct qp *qp)
{
	/* A child after fork() shares memory with the peers of its parent, so it releases only its private copy. */
	if (engine->is_orphan) {
		qp->transport = NULL;
		mcast_forget(qp);
	}
	qp_reset(qp);
	wr_batch_forget(qp);
	comp_cntr_detach_all(qp);
	mw_forget_qp(qp);
	qp_table_remove(&engine->qps, qp);
	device_count_drop(qp->context->device, DEVICE_QP);
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
 * Removes a handle of a QP, and the QP with its last handle. Only XRC_RECV QPs can have several handles. Returns
 * the QP that the caller must free, or NULL. engine.lock held.
 */
static struct qp *qp_end(struct engine *engine, struct qp *handle)
{
	struct qp *qp = qp_of_handle(handle);

	if (qp->type == IBV_QPT_XRC_RECV && !xrc_qp_put_handle(handle))
		return NULL;
	qp_remove(engine, qp);
	return qp;
}

void qp_free_orphaned(struct qp *qp)
{
	struct engine *engine = qp->context->engine;

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
	/* Only the last handle of an XRC_RECV QP ends the QP. The transport of such a QP ends the accesses in unbind(). */
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
	/* The mask is a lower bound (ibv_query_qp(3)); all attributes are returned because none is expensive. */
	engine_lock(engine);
	ret = engine->is_orphan ? EIO : 0;
	if (!ret && qp->remote)
		ret = -xrc_remote_query(qp, &full);
	else if (!ret)
		qp_fill_attr(qp, &full);
	if (!ret) {
		memcpy(attr, &full, QP_ATTR_COMPAT_BYTES);
		/* Applications compare the state with that of their last call, which only a query of the state changes. */
		if (attr_mask & IBV_QP_STATE)
			ibqp->state = full.qp_state;
		qp_fill_init_attr(qp, init_attr);
		init_attr->qp_context = ibqp->qp_context;
	}
	engine_unlock(engine);
	return ret;
}
