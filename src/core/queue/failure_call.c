/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/failure_call.h"

#include <errno.h>
#include <string.h>

#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/object/opcode.h"
#include "core/object/qp_state.h"
#include "wire/gid.h"

/*
 * Finds out after a call has failed which of its arguments is invalid. The errno alone does not say
 * it.
 */

static void because(struct ipc_failure *failure, enum ipc_failure_reason reason, uint64_t first,
		    uint64_t second)
{
	failure->reason = reason;
	failure->numbers[0] = first;
	failure->numbers[1] = second;
}

static bool is_above(struct ipc_failure *failure, bool is_set, enum ipc_failure_reason reason,
		     uint64_t value, uint64_t max)
{
	if (!is_set || value <= max)
		return false;
	because(failure, reason, value, max);
	return true;
}

static bool explain_transition(struct ipc_failure *failure, const struct qp *qp,
			       const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	int missing = 0, surplus = 0;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
		because(failure, IPC_REASON_CUR_STATE, attr->cur_qp_state, qp->state);
	else if (!qp_state_mask(qp->type, qp->state, to, mask, &missing, &surplus))
		because(failure, IPC_REASON_TRANSITION, qp->state, to);
	else if (missing)
		because(failure, IPC_REASON_ATTR_MISSING, (uint64_t)missing, to);
	else if (surplus)
		because(failure, IPC_REASON_ATTR_SURPLUS, (uint64_t)surplus, to);
	else
		return false;
	return true;
}

static bool explain_path(struct ipc_failure *failure, const struct qp *qp,
			 const struct ibv_qp_attr *attr, int mask)
{
	struct device *device = qp->context->device;
	const struct ibv_global_route *grh = &attr->ah_attr.grh;
	struct ah_refusal refusal;
	struct ipc_gid gid;

	if ((mask & IBV_QP_PATH_MTU) && attr->path_mtu < IBV_MTU_256) {
		because(failure, IPC_REASON_MTU, attr->path_mtu, device_path_mtu(device));
		return true;
	}
	if (is_above(failure, mask & IBV_QP_PATH_MTU, IPC_REASON_MTU, attr->path_mtu,
		     device_path_mtu(device)) ||
	    is_above(failure, mask & IBV_QP_DEST_QPN, IPC_REASON_DEST_QPN, attr->dest_qp_num,
		     0xffffff))
		return true;
	if ((mask & IBV_QP_PORT) && attr->port_num != 1) {
		because(failure, IPC_REASON_PORT, attr->port_num, 1);
		return true;
	}
	if (!(mask & IBV_QP_AV))
		return false;
	if (!ah_attr_check(device, &attr->ah_attr, &gid, &refusal) || !refusal.reason)
		return false;
	because(failure, refusal.reason, refusal.numbers[0], refusal.numbers[1]);
	memcpy(failure->peer_gid, &grh->dgid, sizeof(failure->peer_gid));
	return true;
}

static bool explain_retries(struct ipc_failure *failure, const struct profile *profile,
			    const struct ibv_qp_attr *attr, int mask)
{
	return is_above(failure, mask & IBV_QP_TIMEOUT, IPC_REASON_TIMEOUT, attr->timeout, 31) ||
	       is_above(failure, mask & IBV_QP_RETRY_CNT, IPC_REASON_RETRY_CNT, attr->retry_cnt,
			7) ||
	       is_above(failure, mask & IBV_QP_RNR_RETRY, IPC_REASON_RNR_RETRY, attr->rnr_retry,
			7) ||
	       is_above(failure, mask & IBV_QP_MIN_RNR_TIMER, IPC_REASON_RNR_TIMER,
			attr->min_rnr_timer, RNR_TIMER_MAX) ||
	       is_above(failure, mask & IBV_QP_MAX_QP_RD_ATOMIC, IPC_REASON_RD_ATOMIC,
			attr->max_rd_atomic,
			profile_limit(profile, PROFILE_MAX_QP_INIT_RD_ATOM, MAX_RD_ATOMIC)) ||
	       is_above(failure, mask & IBV_QP_MAX_DEST_RD_ATOMIC, IPC_REASON_RD_ATOMIC,
			attr->max_dest_rd_atomic,
			profile_limit(profile, PROFILE_MAX_QP_RD_ATOM, MAX_RD_ATOMIC));
}

void failure_modify(const struct qp *qp, const struct ibv_qp_attr *attr, int mask, int error,
		    const struct ipc_gid *unreachable)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_CALL, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	if (unreachable)
		failure_unreachable(&failure, unreachable, &attr->ah_attr.grh.dgid);
	else if (!explain_transition(&failure, qp, attr, mask) &&
		 !explain_path(&failure, qp, attr, mask))
		(void)explain_retries(&failure, qp->context->device->profile, attr, mask);
	if (mask & IBV_QP_DEST_QPN)
		failure.peer_qpn = attr->dest_qp_num;
	failure_call(engine, &failure, "ibv_modify_qp", error);
}

static void explain_send(struct ipc_failure *failure, const struct qp *qp,
			 const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; wr->num_sge <= (int)qp->sq.max_sge && i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (qp->state < IBV_QPS_RTS)
		because(failure, IPC_REASON_POST_STATE, qp->state, IBV_QPS_RTS);
	else if (!wr_opcode_of_qp(qp->type, wr->opcode))
		because(failure, IPC_REASON_POST_OPCODE, wr->opcode, qp->type);
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		because(failure, IPC_REASON_POST_SGES, (uint64_t)wr->num_sge, qp->sq.max_sge);
	else if ((wr->send_flags & IBV_SEND_INLINE) && length > qp->sq.max_inline_bytes)
		because(failure, IPC_REASON_POST_INLINE, length, qp->sq.max_inline_bytes);
	else if (qp->sq.head - qp->sq.una >= qp->sq.max_wr)
		because(failure, IPC_REASON_POST_FULL, qp->sq.max_wr, 0);
	failure->opcode = wr->opcode;
	failure->wr_id = wr->wr_id;
}

void failure_post_send(struct qp *qp, const struct ibv_send_wr *wr, int error)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_CALL, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	explain_send(&failure, qp, wr);
	if (failure_is_first(qp, failure.reason))
		failure_call(engine, &failure, "ibv_post_send", error);
}

void failure_wr_complete(struct qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode, int error)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = opcode};
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_CALL, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	explain_send(&failure, qp, &wr);
	if (error == -EINVAL && failure.reason == IPC_REASON_NONE &&
	    !(qp->send_ops_flags & wr_opcodes[opcode].send_ops_flag))
		because(&failure, IPC_REASON_SEND_OPS, qp->send_ops_flags, 0);
	if (failure_is_first(qp, failure.reason))
		failure_call(engine, &failure, "ibv_wr_complete", error);
}

void failure_post_recv(struct qp *qp, const struct ibv_recv_wr *wr, int error)
{
	struct ipc_failure failure;
	struct engine *engine = failure_begin(qp, IPC_FAILURE_CALL, &failure);

	qp_assert_locked(qp);
	if (!engine)
		return;
	failure.flags |= IPC_FAILURE_IS_RECV;
	failure.wr_id = wr->wr_id;
	if (qp->state == IBV_QPS_RESET)
		because(&failure, IPC_REASON_POST_STATE, qp->state, IBV_QPS_INIT);
	else if (qp->srq)
		because(&failure, IPC_REASON_POST_SRQ, 0, 0);
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->rq.max_sge)
		because(&failure, IPC_REASON_POST_SGES, (uint64_t)wr->num_sge, qp->rq.max_sge);
	else if (qp->rq.head - qp->rq.tail >= qp->rq.max_wr)
		because(&failure, IPC_REASON_POST_FULL, qp->rq.max_wr, 0);
	if (failure_is_first(qp, failure.reason))
		failure_call(engine, &failure, "ibv_post_recv", error);
}

void failure_reg_mr(const struct context *context, uint64_t addr, uint64_t length,
		    unsigned int access, int error)
{
	const unsigned int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct ipc_failure failure = {
		.local_addr = addr, .length = length, .region_access = access};
	struct engine *engine;

	engine_lock(context->engine);
	engine = failure_begin_context(context, IPC_FAILURE_CALL, &failure);
	if (!engine) {
		engine_unlock(context->engine);
		return;
	}
	if ((access & remote) && !(access & IBV_ACCESS_LOCAL_WRITE))
		because(&failure, IPC_REASON_MR_ACCESS, access, 0);
	else if (error == -EOPNOTSUPP)
		because(&failure, IPC_REASON_MR_ACCESS_UNSUPPORTED, access, 0);
	else if (error == -EFAULT)
		because(&failure, IPC_REASON_MR_UNMAPPED, addr, length);
	failure_call(engine, &failure, "ibv_reg_mr", error);
	engine_unlock(context->engine);
}

static void explain_cap(struct ipc_failure *failure, const struct ibv_qp_cap *cap,
			const struct profile *profile)
{
	uint64_t max_wr = profile_limit(profile, PROFILE_MAX_QP_WR, MAX_QP_WR);
	uint64_t max_sge = profile_limit(profile, PROFILE_MAX_SGE, MAX_SGE);
	uint64_t max_inline = profile_limit(profile, PROFILE_MAX_INLINE_DATA, MAX_INLINE_BYTES);

	if (!is_above(failure, true, IPC_REASON_CAP_WR, cap->max_send_wr, max_wr) &&
	    !is_above(failure, true, IPC_REASON_CAP_WR, cap->max_recv_wr, max_wr) &&
	    !is_above(failure, true, IPC_REASON_CAP_SGE, cap->max_send_sge, max_sge) &&
	    !is_above(failure, true, IPC_REASON_CAP_SGE, cap->max_recv_sge, max_sge))
		(void)is_above(failure, true, IPC_REASON_CAP_INLINE, cap->max_inline_data,
			       max_inline);
}

void failure_create_qp(const struct context *context, const struct ibv_qp_init_attr_ex *attr,
		       int error)
{
	struct ipc_failure failure = {.qp_type = attr->qp_type};
	struct engine *engine;

	engine_lock(context->engine);
	engine = failure_begin_context(context, IPC_FAILURE_CALL, &failure);
	if (!engine) {
		engine_unlock(context->engine);
		return;
	}
	if (error == -EOPNOTSUPP)
		because(&failure, IPC_REASON_QP_TYPE, attr->qp_type, 0);
	else if (error == -EINVAL)
		explain_cap(&failure, &attr->cap, context->device->profile);
	failure_call(engine, &failure, "ibv_create_qp", error);
	engine_unlock(context->engine);
}
