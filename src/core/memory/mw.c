/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/memory/mr.h"
#include "core/memory/pd.h"
#include "core/queue/post.h"
#include "core/queue/wr_batch.h"
#include "core/report/call_failed.h"
#include "core/report/probe.h"
#include "ipc/msg_failure.h"
#include "ipc/segment.h"

#define KEY_BITS      8 /* bits of an rkey that change with each bind */
#define KEY_MASK      ((1u << KEY_BITS) - 1)
#define BIND_FLAGS    (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)
#define WINDOW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The window of an rkey, low bits ignored; or NULL. */
static struct mw *window_of(struct engine *engine, uint32_t rkey)
{
	return rkey & SEGMENT_WINDOW_KEY ?
		       id_table_get(&engine->tables.mws, (rkey & ~SEGMENT_WINDOW_KEY) >> KEY_BITS) :
		       NULL;
}

/* The window that is bound with exactly this rkey, or NULL. */
static struct mw *bound_window_of(struct engine *engine, uint32_t rkey)
{
	struct mw *mw = window_of(engine, rkey);

	return mw && mw->mr && mw->key == rkey ? mw : NULL;
}

static void unbind(struct mw *mw)
{
	if (mw->mr)
		mw->mr->windows--;
	if (mw->qp)
		mw->qp->windows--;
	mw->mr = NULL;
	mw->qp = NULL;
}

static int mw_add(struct engine *engine, struct mw *mw)
{
	uint64_t handle;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	ret = device_count_add(mw->pd->context->engine, mw->pd->context->device, DEVICE_MW);
	if (ret)
		return ret;
	ret = id_table_add(&engine->tables.mws, mw, &handle);
	if (ret) {
		device_count_drop(mw->pd->context->engine, mw->pd->context->device, DEVICE_MW);
		return ret == -ENOSPC ? -ENOMEM : ret;
	}
	mw->pub.handle = (uint32_t)handle;
	mw->pub.rkey = SEGMENT_WINDOW_KEY | (uint32_t)handle << KEY_BITS |
		       (random_u32(&engine->tables.random) & KEY_MASK);
	mw->pd->users++;
	return 0;
}

struct ibv_mw *mw_alloc(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;
	struct mw *mw;
	int ret = -EINVAL;

	if (fault_call_fails("ibv_alloc_mw"))
		return NULL;
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		goto err_type;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	mw->pub.context = ibpd->context;
	mw->pub.pd = ibpd;
	mw->pub.type = type;
	mw->pd = pd;
	engine_lock(engine);
	ret = mw_add(engine, mw);
	engine_unlock(engine);
	if (!ret)
		return &mw->pub;
	free(mw);
err_type:
	call_failed(pd->context, "ibv_alloc_mw", ret);
	errno = -ret;
	return NULL;
}

int mw_dealloc(struct ibv_mw *ibmw)
{
	struct mw *mw = to_mw(ibmw);
	struct engine *engine = mw->pd->context->engine;

	if (fault_call_fails("ibv_dealloc_mw"))
		return errno;
	engine_lock(engine);
	/* A bound window may be deallocated; its rkey becomes invalid (IBA 1.x §11.2.10.13). */
	unbind(mw);
	id_table_remove(&engine->tables.mws, mw->pub.handle);
	device_count_drop(mw->pd->context->engine, mw->pd->context->device, DEVICE_MW);
	pd_put(mw->pd);
	engine_unlock(engine);
	free(mw);
	return 0;
}

static void fill_bind(struct send_wqe *wqe, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	wqe->rkey = rkey;
	wqe->remote_addr = info->addr;
	wqe->bind_length_bytes = info->length;
	wqe->bind_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind_access = info->mw_access_flags;
	wqe->length_bytes = 0;
	wqe->num_sge = 0;
	wqe->is_inline = false;
}

int mw_fill_bind(struct send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info)
{
	if (!mw || mw->type != IBV_MW_TYPE_2 || !info->mr || !info->length)
		return -EINVAL;
	/* The application chooses the low bits only. */
	if ((rkey & ~KEY_MASK) != (mw->rkey & ~KEY_MASK))
		return -EINVAL;
	if (info->mw_access_flags &
	    ~(unsigned int)(WINDOW_ACCESS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED))
		return -EINVAL;
	fill_bind(wqe, rkey, info);
	return 0;
}

static int post_bind(struct qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	struct send_wqe *wqe;
	int ret = post_check_opcode(qp, IBV_WR_BIND_MW);

	if (ret)
		return ret;
	wqe = post_next_wqe(qp);
	if (!wqe)
		return -ENOMEM;
	wqe->wr_id = bind->wr_id;
	wqe->opcode = IBV_WR_BIND_MW;
	wqe->send_flags = bind->send_flags;
	wqe->imm_data_be = 0;
	wqe->done_bytes = 0;
	wqe->state = SEND_WQE_POSTED;
	wqe->injected_status = 0;
	wqe->path = 0;
	fill_bind(wqe, ibv_inc_rkey(mw->rkey), &bind->bind_info);
	sq_append(qp, wqe);
	mw->rkey = wqe->rkey;
	post_kick(qp);
	return 0;
}

int mw_bind(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	uint32_t ticket;
	int ret;

	if (fault_call_fails("ibv_bind_mw"))
		return errno;
	if (bind->send_flags & ~(unsigned int)BIND_FLAGS)
		return call_result(qp->context, "ibv_bind_mw", -EINVAL);
	/* Only type 2 may be zero-based (IBA 1.x §10.6.7.2.3). */
	if (bind->bind_info.mw_access_flags &
	    ~(unsigned int)(WINDOW_ACCESS | IBV_ACCESS_LOCAL_WRITE))
		return call_result(qp->context, "ibv_bind_mw", -EINVAL);
	for (;;) {
		engine_lock(engine);
		ret = wr_batch_blocks(qp, &ticket);
		if (ret != -EAGAIN)
			break;
		engine_unlock(engine);
		wr_batch_wait(qp, ticket);
	}
	if (!ret)
		ret = post_bind(qp, mw, bind);
	engine_unlock(engine);
	return call_result(qp->context, "ibv_bind_mw", ret);
}

/* Whether the MR permits the bind (IBA 1.x §10.6.7.2). */
static enum vendor_err bind_check(const struct qp *qp, const struct mw *mw, const struct mr *mr,
				  const struct send_wqe *wqe)
{
	if (!mr)
		return VENDOR_ERR_LKEY;
	if (mw->pd->id != qp->pd->id || mr->pd->id != mw->pd->id)
		return VENDOR_ERR_LKEY_PD;
	if (!(mr->access & IBV_ACCESS_MW_BIND))
		return VENDOR_ERR_LKEY_ACCESS;
	if ((wqe->bind_access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return VENDOR_ERR_LKEY_ACCESS;
	if (!mr_translate(mr, wqe->remote_addr, wqe->bind_length_bytes))
		return VENDOR_ERR_LKEY_BOUNDS;
	return VENDOR_ERR_NONE;
}

static enum vendor_err execute_bind(struct qp *qp, const struct send_wqe *wqe)
{
	struct engine *engine = qp->context->engine;
	struct mw *mw = window_of(engine, wqe->rkey);
	struct mr *mr = mr_find(engine, wqe->bind_lkey);
	enum vendor_err error;

	if (!mw)
		return VENDOR_ERR_WINDOW;
	if (mw->pub.type == IBV_MW_TYPE_2 && mw->mr)
		return VENDOR_ERR_WINDOW;
	if (mw->pub.type == IBV_MW_TYPE_1 && !wqe->bind_length_bytes) {
		unbind(mw);
		mw->key = wqe->rkey;
		return VENDOR_ERR_NONE;
	}
	error = bind_check(qp, mw, mr, wqe);
	if (error)
		return error;
	unbind(mw);
	mw->mr = mr;
	mr->windows++;
	if (mw->pub.type == IBV_MW_TYPE_2) {
		mw->qp = qp;
		qp->windows++;
	}
	mw->key = wqe->rkey;
	mw->access = wqe->bind_access;
	mw->length = wqe->bind_length_bytes;
	mw->mr_iova = wqe->remote_addr;
	mw->iova = wqe->bind_access & IBV_ACCESS_ZERO_BASED ? 0 : wqe->remote_addr;
	return VENDOR_ERR_NONE;
}

static enum access_result invalidate(struct qp *qp, uint32_t rkey)
{
	struct mw *mw = bound_window_of(qp->context->engine, rkey);

	if (!mw || mw->pub.type != IBV_MW_TYPE_2 || mw->qp != qp || mw->pd->id != qp->pd->id)
		return ACCESS_INVALIDATE;
	unbind(mw);
	return ACCESS_OK;
}

enum access_result mw_invalidate(struct qp *qp, uint32_t rkey)
{
	enum access_result result;

	engine_lock_base(qp->context->engine);
	result = invalidate(qp, rkey);
	engine_unlock_base(qp->context->engine);
	return result;
}

enum ibv_wc_status mw_execute(struct qp *qp, const struct send_wqe *wqe,
			      enum vendor_err *vendor_err)
{
	engine_lock_base(qp->context->engine);
	if (wqe->opcode == IBV_WR_BIND_MW)
		*vendor_err = execute_bind(qp, wqe);
	else if (invalidate(qp, wqe->imm_data_be) != ACCESS_OK)
		*vendor_err = VENDOR_ERR_NOT_INVALIDATABLE;
	else
		*vendor_err = VENDOR_ERR_NONE;
	engine_unlock_base(qp->context->engine);
	return *vendor_err ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS;
}

static enum access_result check_window(struct qp *qp, const struct remote_range *range,
				       uint8_t **at)
{
	struct mw *mw = bound_window_of(qp->context->engine, range->rkey);
	uint64_t offset;

	if (!mw)
		return ACCESS_RKEY;
	/* A type 2 window can only be used by the QP that bound it (2A, IBA 1.x §10.6.7.2.2). */
	if (mw->pd->id != qp->pd->id || (mw->qp && mw->qp != qp))
		return ACCESS_PD;
	if (!(mw->access & range->access))
		return ACCESS_RIGHTS;
	/* The region's context was closed. */
	if (mr_find(qp->context->engine, mw->mr->key) != mw->mr)
		return ACCESS_RKEY;
	offset = range->addr - mw->iova;
	if (offset >= mw->length || range->bytes > mw->length - offset)
		return ACCESS_BOUNDS;
	*at = mr_translate(mw->mr, mw->mr_iova + offset, range->bytes);
	return *at ? ACCESS_OK : ACCESS_BOUNDS;
}

enum access_result mw_check(struct qp *qp, const struct remote_range *range, uint8_t **at)
{
	enum access_result result;

	/* A QP of another shard may bind the window. */
	engine_lock_base(qp->context->engine);
	result = check_window(qp, range, at);
	engine_unlock_base(qp->context->engine);
	return result;
}

void mw_describe(struct engine *engine, uint32_t rkey, struct ipc_failure *failure)
{
	const struct mw *mw = window_of(engine, rkey);

	if (!mw)
		return;
	failure->flags |= IPC_FAILURE_IS_WINDOW;
	if (!mw->mr || mw->key != rkey)
		return;
	failure->flags |= IPC_FAILURE_HAS_REGION;
	failure->region_start = mw->iova;
	failure->region_length = mw->length;
	failure->region_access = mw->access;
	failure->region_pid = engine->pid;
	failure->numbers[0] = mw->qp ? mw->qp->qpn : 0;
}

void mw_forget_qp(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	uint32_t cursor = 0;
	struct mw *mw;

	while (qp->windows && (mw = id_table_next(&engine->tables.mws, &cursor))) {
		if (mw->qp == qp)
			unbind(mw);
	}
}
