/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/trace_points.h"
#include "base/user_copy.h"
#include "core/engine/engine.h"
#include "core/engine/qp_lock.h"
#include "core/memory/mw.h"
#include "core/object/opcode.h"
#include "core/qp/qp.h"
#include "core/queue/failure_call.h"
#include "core/queue/post.h"
#include "core/queue/wr_batch.h"
#include "core/report/probe.h"

/*
 * The extended posting interface, ibv_wr_post(3), with a batch of WQEs (core/queue/wr_batch.h). The
 * builders append WQEs to the batch, and the setters complete the last WQE. The first error is
 * stored in batch.error; wr_complete then discards the whole batch.
 */

static struct qp *ex_to_qp(struct ibv_qp_ex *ex)
{
	return to_qp(&ex->qp_base);
}

static void batch_fail_wr(struct qp *qp, int error, uint64_t wr_id, enum ibv_wr_opcode opcode)
{
	if (!qp->batch.error) {
		qp->batch.error = error;
		qp->batch.failed_wr_id = wr_id;
		qp->batch.failed_opcode = opcode;
	}
	qp->batch.current = NULL;
}

/* A setter failed for the current WQE. */
static void batch_fail(struct qp *qp, int error)
{
	const struct send_wqe *wqe = qp->batch.current;

	batch_fail_wr(qp, error, wqe ? wqe->wr_id : 0,
		      wqe ? (enum ibv_wr_opcode)wqe->opcode : IBV_WR_SEND);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = ex_to_qp(ex);

	if (!wr_batch_open(qp))
		batch_fail_wr(qp, -EINVAL, ex->wr_id, IBV_WR_SEND);
}

/* Whether each WQE of a UD QP has an address handle. */
static bool batch_is_addressed(const struct qp *qp)
{
	if (qp->type != IBV_QPT_UD)
		return true;
	for (uint32_t i = 0; i < qp->batch.count; i++) {
		if (!wr_batch_wqe(qp, i)->ah)
			return false;
	}
	return true;
}

/* Checks what may have changed since wr_start, and the fault rules; stores the first error. */
static void batch_check(struct qp *qp)
{
	if (!qp->batch.owner || qp->batch.is_stale || !batch_is_addressed(qp))
		batch_fail(qp, -EINVAL);
	for (uint32_t i = 0; i < qp->batch.count && !qp->batch.error; i++) {
		const struct send_wqe *wqe = wr_batch_wqe(qp, i);
		int error = post_check_opcode(qp, wqe->opcode);

		if (error)
			batch_fail_wr(qp, error, wqe->wr_id, wqe->opcode);
	}
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = ex_to_qp(ex);
	enum qp_lock lock = qp_lock(qp);
	int error;

	batch_check(qp);
	error = qp->batch.error;
	if (error) {
		wr_batch_drop(qp);
		failure_wr_complete(qp, qp->batch.failed_wr_id, qp->batch.failed_opcode, error);
	} else if (qp->batch.count) {
		for (uint32_t i = 0; i < qp->batch.count; i++)
			sq_append(qp, wr_batch_wqe(qp, i));
		post_kick(qp);
	}
	wr_batch_end(qp);
	qp_unlock(qp, lock);
	if (error)
		trace_call_failed("ibv_wr_complete", -error, qp->qpn);
	return -error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct qp *qp = ex_to_qp(ex);
	enum qp_lock lock = qp_lock(qp);

	wr_batch_drop(qp);
	wr_batch_end(qp);
	qp_unlock(qp, lock);
}

/* Appends a WQE without data to the batch. NULL: the batch has failed. */
static struct send_wqe *wr_begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe;

	if (qp->batch.error)
		return NULL;
	if (!(qp->send_ops_flags & wr_opcodes[opcode].send_ops_flag)) {
		batch_fail_wr(qp, -EINVAL, ex->wr_id, opcode);
		return NULL;
	}
	wqe = wr_batch_next_wqe(qp);
	if (!wqe) {
		batch_fail_wr(qp, -ENOMEM, ex->wr_id, opcode);
		return NULL;
	}
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = ex->wr_id;
	wqe->opcode = (uint8_t)opcode;
	/*
	 * The data setters determine whether the data are inline; IBV_SEND_INLINE in wr_flags is
	 * ignored.
	 */
	wqe->send_flags = ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE;
	wqe->state = SEND_WQE_POSTED;
	qp->batch.current = wqe;
	qp->batch.count++;
	return wqe;
}

static void wr_begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			  uint64_t remote_addr, __be32 imm_data)
{
	struct send_wqe *wqe = wr_begin(ex, opcode);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->imm_data_be = imm_data;
}

static void wr_begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			    uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct send_wqe *wqe = wr_begin(ex, opcode);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->compare_add = compare_add;
	wqe->swap = swap;
}

/* imm: immediate data in network byte order, or the rkey to invalidate. */
static void wr_begin_send(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct send_wqe *wqe = wr_begin(ex, opcode);

	if (wqe)
		wqe->imm_data_be = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	wr_begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_begin_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	wr_begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	wr_begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_begin_send(ex, IBV_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	wr_begin_send(ex, IBV_WR_SEND_WITH_IMM, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	wr_begin_send(ex, IBV_WR_SEND_WITH_INV, invalidate_rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	wr_begin_send(ex, IBV_WR_LOCAL_INV, invalidate_rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe = wr_begin(ex, IBV_WR_BIND_MW);
	int error;

	if (!wqe)
		return;
	/* An earlier bind of the window, which another thread executes now, changes its rkey. */
	engine_lock_base(qp->context->engine);
	error = mw_fill_bind(wqe, mw, rkey, info);
	engine_unlock_base(qp->context->engine);
	if (error)
		batch_fail(qp, error);
}

/* The 8 bytes are copied into the WQE, so the caller may reuse the buffer when the call returns. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct send_wqe *wqe = wr_begin(ex, IBV_WR_ATOMIC_WRITE);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->is_inline = true;
	wqe->length_bytes = sizeof(uint64_t);
	if (!user_copy_from(wqe->data, atomic_wr, sizeof(uint64_t)))
		batch_fail(ex_to_qp(ex), -EFAULT);
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct send_wqe *wqe = wr_begin(ex, IBV_WR_FLUSH);

	if (!wqe)
		return;
	if (!type || (type & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)) || level > IBV_FLUSH_MR ||
	    (level == IBV_FLUSH_RANGE && len > UINT32_MAX)) {
		batch_fail(ex_to_qp(ex), -EINVAL);
		return;
	}
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->flush_length_bytes = level == IBV_FLUSH_RANGE ? len : 0;
	wqe->flush_types = type;
	wqe->flush_level = level;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe = qp->batch.current;
	uint64_t length = 0;

	if (!wqe)
		return;
	/* The data of an operand are a parameter of the builder. */
	if (num_sge > qp->sq.max_sge || !post_fits_sges(&qp->sq, wqe, (uint32_t)num_sge) ||
	    wqe_info(wqe)->data == WR_DATA_OPERAND) {
		batch_fail(qp, -EINVAL);
		return;
	}
	for (size_t i = 0; i < num_sge; i++) {
		wqe->sge[i] = sg_list[i];
		length += sg_list[i].length;
	}
	wqe->is_inline = false;
	wqe->num_sge = (uint8_t)num_sge;
	/*
	 * A length above max_msg_sz is reported when the WQE is processed (LOC_LEN_ERR), so
	 * saturation is sufficient.
	 */
	wqe->length_bytes = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe = qp->batch.current;
	uint32_t length = 0;

	if (!wqe)
		return;
	/*
	 * Inline data are only allowed for operations that send a payload (ibv_wr_post(3)), not for
	 * READ and atomics.
	 */
	if (wqe_info(wqe)->data != WR_DATA_GATHER) {
		batch_fail(qp, -EINVAL);
		return;
	}
	for (size_t i = 0; i < num_buf; i++) {
		if (buf_list[i].length > qp->sq.max_inline_bytes - length) {
			batch_fail(qp, -EINVAL);
			return;
		}
		if (!user_copy_from(wqe->data + length, buf_list[i].addr, buf_list[i].length)) {
			batch_fail(qp, -EFAULT);
			return;
		}
		length += (uint32_t)buf_list[i].length;
	}
	wqe->send_flags |= IBV_SEND_INLINE;
	wqe->is_inline = true;
	wqe->num_sge = 0;
	wqe->length_bytes = length;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe = qp->batch.current;
	enum qp_lock lock;

	if (!wqe)
		return;
	/* post_address() takes a reference to the AH. */
	lock = qp_lock(qp);
	if (qp->type != IBV_QPT_UD || wqe->ah || post_address(wqe, ah, remote_qpn, remote_qkey))
		batch_fail(qp, -EINVAL);
	qp_unlock(qp, lock);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct qp *qp = ex_to_qp(ex);
	struct send_wqe *wqe = qp->batch.current;

	if (!wqe)
		return;
	if (qp->type != IBV_QPT_XRC_SEND || post_name_srq(wqe, remote_srqn))
		batch_fail(qp, -EINVAL);
}

/*
 * An operation that no QP of this device supports. Applications call the function pointers without
 * a NULL check, so the pointer is set and the call makes the batch fail.
 */

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_bytes, uint16_t mss)
{
	(void)hdr;
	(void)hdr_bytes;
	(void)mss;
	batch_fail_wr(ex_to_qp(ex), -EOPNOTSUPP, ex->wr_id, IBV_WR_TSO);
}

void qp_init_ex(struct qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	/*
	 * As with rxe, only if they were requested: librpma concludes from the pointers what the QP
	 * supports.
	 */
	if (qp->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (qp->send_ops_flags & IBV_QP_EX_WITH_FLUSH)
		ex->wr_flush = wr_flush;
}
