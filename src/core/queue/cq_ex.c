/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/fault.h"
#include "core/engine/engine.h"
#include "core/queue/cq.h"

/*
 * Polling with readers: start_poll and next_poll dequeue one completion into cq.current, from which
 * the readers read. The caller holds no lock of the engine between these calls, so that a program
 * may post while it polls. poll_lock excludes other polling threads until end_poll.
 */

#define WC_FLAGS_BUILT                                                           \
	((uint64_t)IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct cq *ex_to_cq(struct ibv_cq_ex *ex)
{
	return to_cq(ibv_cq_ex_to_cq(ex));
}

static int take_current(struct cq *cq)
{
	if (!cq_pop(cq, &cq->current))
		return -ENOENT;
	cq->ex.wr_id = cq->current.wc.wr_id;
	cq->ex.status = cq->current.wc.status;
	return 0;
}

static void poll_unlock(struct cq *cq)
{
	if (!cq->is_single_threaded)
		pthread_mutex_unlock(&cq->poll_lock);
}

static int cq_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq *cq = ex_to_cq(ex);
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	/* In a fork()ed child poll_lock may be held by a thread of the parent. */
	if (cq->context->engine->is_orphan)
		return EIO;
	if (!cq->is_single_threaded)
		pthread_mutex_lock(&cq->poll_lock);
	ret = take_current(cq);
	/* After an error the application does not call end_poll (ibv_create_cq_ex(3)). */
	if (ret)
		poll_unlock(cq);
	return -ret;
}

static int cq_next_poll(struct ibv_cq_ex *ex)
{
	return -take_current(ex_to_cq(ex));
}

static void cq_end_poll(struct ibv_cq_ex *ex)
{
	poll_unlock(ex_to_cq(ex));
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.byte_len;
}

/* verbs.h also reads the invalidated rkey with this function. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.timestamp_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.wallclock_ns;
}

/* Readers whose flag was not requested remain NULL. */
static void cq_init_readers(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
	ex->start_poll = cq_start_poll;
	ex->next_poll = cq_next_poll;
	ex->end_poll = cq_end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

static int cq_ex_init_attr_check(const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return -EINVAL;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags &
	     ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)))
		return -EINVAL;
	/* The parent domain determines which threads use the CQ; this has no effect here. */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !to_pd(attr->parent_domain)->base))
		return -EINVAL;
	return attr->wc_flags & ~WC_FLAGS_BUILT ? -EOPNOTSUPP : 0;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct cq *cq = NULL;
	int ret;

	if (fault_call_fails("ibv_create_cq_ex"))
		return NULL;
	ret = cq_ex_init_attr_check(attr);
	if (!ret)
		ret = cq_create(to_context(context), attr, &cq);
	if (ret) {
		cq_create_failed(to_context(context), "ibv_create_cq_ex", attr->cqe, ret);
		errno = -ret;
		return NULL;
	}
	cq_init_readers(&cq->ex, attr->wc_flags);
	return &cq->ex;
}
