/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/trace_points.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/qpn.h"
#include "core/engine/shard.h"
#include "core/memory/pd.h"
#include "core/object/opcode.h"
#include "core/qp/qp.h"
#include "core/queue/cq.h"
#include "core/queue/failure_call.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"
#include "core/report/usage.h"

/* The calls that create a queue pair. */

/* The supported enum ibv_qp_create_flags of a QP type. */
static uint32_t create_flags_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

/*
 * Checks the fields that comp_mask selects: 0, -EINVAL (invalid) or -EOPNOTSUPP (not supported by
 * this device).
 */
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
 * Clears the attributes that XRC QPs do not have (IBA A14), whatever the caller set. An XRC send QP
 * has no receive queue. An XRC receive QP has only its XRC domain.
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

void qp_free(struct qp *qp)
{
	send_queue_fini(&qp->sq);
	recv_queue_fini(&qp->rq);
	pthread_mutex_destroy(&qp->pub.mutex);
	pthread_cond_destroy(&qp->pub.cond);
	free(qp);
}

void qp_count_parts(struct qp *qp, int by)
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
	if (engine->tables.qps.count >= MAX_QPS)
		return -ENOMEM;
	ret = device_count_add(qp->context->engine, qp->context->device, DEVICE_QP);
	if (ret)
		return ret;
	ret = qp_choose_qpn(engine, qp);
	if (!ret)
		ret = qp_table_add(&engine->tables.qps, qp);
	if (ret) {
		device_count_drop(qp->context->engine, qp->context->device, DEVICE_QP);
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
