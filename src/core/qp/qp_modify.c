/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "base/librdmacm_calls.h"
#include "base/trace_points.h"
#include "base/util.h"
#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/device/path.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/object/qp_state.h"
#include "core/qp/qp.h"
#include "core/qp/xrc_remote.h"
#include "core/queue/datagram.h"
#include "core/queue/failure_call.h"
#include "core/queue/qp_error.h"
#include "core/report/fault_points.h"
#include "core/report/probe.h"
#include "wire/grh.h"

#define TIMEOUT_MAX 31
#define RETRY_MAX   7

static int path_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct device *device = qp->context->device;
	struct ah_refusal refusal;
	struct ipc_gid source;

	if ((mask & IBV_QP_PORT) && attr->port_num != 1)
		return -EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0)
		return -EINVAL;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > device_path_mtu(device)))
		return -EINVAL;
	if ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > MASK_24)
		return -EINVAL;
	if (mask & IBV_QP_AV)
		return ah_attr_check(device, &attr->ah_attr, &source, &refusal);
	return 0;
}

static int retry_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct profile *profile = qp->context->device->profile;

	if ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > RNR_TIMER_MAX)
		return -EINVAL;
	if ((mask & IBV_QP_TIMEOUT) && attr->timeout > TIMEOUT_MAX)
		return -EINVAL;
	if ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > RETRY_MAX)
		return -EINVAL;
	if ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > RETRY_MAX)
		return -EINVAL;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) &&
	    attr->max_rd_atomic >
		    profile_limit(profile, PROFILE_MAX_QP_INIT_RD_ATOM, MAX_RD_ATOMIC))
		return -EINVAL;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic >
		    profile_limit(profile, PROFILE_MAX_QP_RD_ATOM, MAX_RD_ATOMIC))
		return -EINVAL;
	return 0;
}

/*
 * Whether a QP with these attributes sends its packets in the same way. The other fields have no
 * effect on Ethernet.
 */
static bool path_is_same(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
	return !memcmp(&a->grh.dgid, &b->grh.dgid, sizeof(a->grh.dgid)) &&
	       a->grh.sgid_index == b->grh.sgid_index &&
	       !((a->grh.flow_label ^ b->grh.flow_label) & GRH_FLOW_LABEL_MAX) &&
	       a->grh.hop_limit == b->grh.hop_limit && a->grh.traffic_class == b->grh.traffic_class;
}

/*
 * A transport opens the path and allocates the responder resources in bind(). The responder
 * continues in SQD, so that a change there could affect requests in progress.
 */
static int bound_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (qp->state != IBV_QPS_SQD)
		return 0;
	if ((mask & IBV_QP_AV) && !path_is_same(&attr->ah_attr, &qp->attr.ah_attr))
		return -EOPNOTSUPP;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic != qp->attr.max_dest_rd_atomic)
		return -EOPNOTSUPP;
	return 0;
}

/*
 * The device does not report IBV_DEVICE_AUTO_PATH_MIG: a QP has one path and its migration state is
 * always MIGRATED.
 */
static int migration_check(const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if ((mask & IBV_QP_PATH_MIG_STATE) && attr->path_mig_state != IBV_MIG_MIGRATED)
		return -EINVAL;
	return 0;
}

static int modify_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			enum ibv_qp_state to)
{
	int ret;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
		return -EINVAL;
	ret = qp_state_check(qp->type, qp->state, to, mask);
	if (!ret)
		ret = path_check(qp, attr, mask);
	if (!ret)
		ret = retry_check(qp, attr, mask);
	if (!ret)
		ret = bound_check(qp, attr, mask);
	if (!ret)
		ret = migration_check(attr, mask);
	return ret;
}

static void path_apply(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_QKEY)
		to->qkey = from->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_AV) {
		to->ah_attr = from->ah_attr;
		to->ah_attr.grh.flow_label &= GRH_FLOW_LABEL_MAX;
	}
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_PATH_MIG_STATE)
		to->path_mig_state = from->path_mig_state;
	/* A PSN has 24 bits, but applications pass random 32-bit values. */
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn & MASK_24;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn & MASK_24;
}

static void retry_apply(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
}

/* Binds the QP to the first transport that supports its path and that USRDMA_TRANSPORT permits. */
static int qp_bind(struct qp *qp)
{
	int ret = -EOPNOTSUPP;

	/* A UD QP has no peer; the transport is a property of each address handle. */
	if (qp->type == IBV_QPT_UD)
		return 0;
	for (int i = 0; transports[i] && ret == -EOPNOTSUPP; i++) {
		if (!transport_is_chosen(qp->context->engine, transports[i]))
			continue;
		ret = transports[i]->bind(qp);
		if (!ret)
			qp->transport = transports[i];
	}
	/* A transport that has shards has chosen the lock. */
	if (!ret && qp->shard && !qp->transport->run_shard)
		qp_set_lock(qp, QP_LOCK_BASE);
	if (ret == -EOPNOTSUPP)
		transport_explain(qp->context->engine);
	return ret;
}

static void qp_ready(struct qp *qp)
{
	qp_set_state(qp, IBV_QPS_RTS);
	if (qp->type == IBV_QPT_UD)
		datagram_kick(qp);
	else if (qp->transport && qp->transport->ready)
		qp->transport->ready(qp);
}

/* Performs the transition after the attributes were applied. Fails only if qp_bind() fails. */
static int qp_move(struct qp *qp, enum ibv_qp_state to)
{
	int ret;

	switch (to) {
	case IBV_QPS_RTR:
		ret = qp_bind(qp);
		if (ret)
			return ret;
		qp_set_state(qp, to);
		break;
	case IBV_QPS_RTS:
		if (qp->state != to)
			qp_ready(qp);
		break;
	case IBV_QPS_SQD:
		qp_set_state(qp, to);
		qp_check_drained(qp);
		break;
	default:
		qp_set_state(qp, to);
		break;
	}
	qp_publish(qp);
	return 0;
}

/*
 * Ignores attributes that this XRC QP type does not have, as the kernel does: applications use one
 * mask for both types.
 */
static int mask_of_half(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

static int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	struct ibv_qp_attr before = qp->attr;
	int ret = modify_check(qp, attr, mask, to);

	if (ret)
		return ret;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
		ret = qp_revoke(qp);
		if (ret)
			return ret;
	}
	if (to == IBV_QPS_RESET) {
		qp_reset(qp);
		return 0;
	}
	if (to == IBV_QPS_ERR) {
		qp_enter_error(qp, QP_NO_EVENT);
		return 0;
	}
	path_apply(&qp->attr, attr, mask);
	retry_apply(&qp->attr, attr, mask);
	ret = qp_move(qp, to);
	if (ret)
		qp->attr = before;
	return ret;
}

int qp_modify_of_handle(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	engine_assert_all_locked(qp->context->engine);
	return qp_modify(qp, attr, mask_of_half(qp->type, mask));
}

/*
 * The QPN whose owner process must be connected before the transition, or 0. XRC QPs always use the
 * roce transport.
 */
static uint32_t peer_to_request(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const int needed = IBV_QP_STATE | IBV_QP_DEST_QPN;

	if ((mask & needed) != needed || attr->qp_state != IBV_QPS_RTR)
		return 0;
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC ? attr->dest_qp_num : 0;
}

/* An address vector that was resolved. */
struct resolved {
	struct ibv_qp_attr attr; /* the caller's, with the hop limit of the route */
	struct ipc_gid source;	 /* its source GID */
};

/*
 * Resolves the address vector of *attr, and then replaces *attr by resolved->attr. 0 or -errno. The
 * checks of the transition follow, as in Linux; they also refuse an invalid address vector, which
 * is not resolved.
 */
static int qp_modify_open_path(const struct qp *qp, const struct ibv_qp_attr **attr, int mask,
			       bool route_only, struct resolved *resolved)
{
	struct device *device = qp->context->device;
	struct ah_refusal refusal;
	uint32_t qpn = peer_to_request(qp, *attr, mask);

	if (!(mask & IBV_QP_AV) ||
	    ah_attr_check(device, &(*attr)->ah_attr, &resolved->source, &refusal))
		return 0;
	memcpy(&resolved->attr, *attr, QP_ATTR_COMPAT_BYTES);
	*attr = &resolved->attr;
	return transports_open_path(qp->context->engine, device, &resolved->attr.ah_attr,
				    &resolved->source, qpn, route_only);
}

static int qp_modify_public(struct ibv_qp *ibqp, const struct ibv_qp_attr *attr, int attr_mask,
			    bool route_only)
{
	struct qp *qp = qp_of_handle(to_qp(ibqp));
	struct engine *engine = qp->context->engine;
	struct resolved resolved = {.attr = {.rate_limit = 0}};
	bool is_unreachable;
	int ret;

	if (fault_call_fails("ibv_modify_qp"))
		return errno;
	if (attr_mask & (IBV_QP_AV | IBV_QP_PATH_MTU))
		device_refresh(engine, qp->context->device);
	ret = qp_modify_open_path(qp, &attr, attr_mask, route_only, &resolved);
	is_unreachable = ret && ret != -EIO;
	engine_lock(engine);
	if (!ret)
		ret = engine_usable(engine);
	if (!ret)
		ret = -fault_qp_modify(qp);
	if (!ret && (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR)
		engine_catch_up(engine);
	qp->is_of_cm |= route_only;
	if (!ret)
		ret = qp->remote ? xrc_remote_modify(qp, attr, attr_mask) :
				   qp_modify(qp, attr, mask_of_half(qp->type, attr_mask));
	if (ret)
		failure_modify(qp, attr, mask_of_half(qp->type, attr_mask), ret,
			       is_unreachable ? &resolved.source : NULL);
	if (!ret && (attr_mask & IBV_QP_STATE))
		ibqp->state = qp->remote ? attr->qp_state : qp->state;
	engine_unlock(engine);
	/* Applications check either the return value or errno. */
	if (ret) {
		errno = -ret;
		trace_call_failed("ibv_modify_qp", -ret, qp->qpn);
	}
	return -ret;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return qp_modify_public(qp, attr, attr_mask, false);
}

int usrdma_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int attr_mask)
{
	return qp_modify_public(qp, attr, attr_mask, true);
}
