/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/comp_cntr.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/report/call_failed.h"

#define OPS_ALL ((1u << QP_COMP_CNTR_OPS) - 1)
#define OPS_UC                                                               \
	(IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RECV | \
	 IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE)
#define OPS_UD (IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RECV)
#define OPS_XRC_SEND                                                              \
	(IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ | \
	 IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE)

static_assert(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE == 1 << (QP_COMP_CNTR_OPS - 1),
	      "a QP has a place for each operation");

static struct comp_cntr *to_comp_cntr(struct ibv_comp_cntr *comp_cntr)
{
	return (struct comp_cntr *)comp_cntr;
}

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	const struct ibv_comp_cntr_caps full = {
		.max_value = UINT64_MAX,
		.max_counters = MAX_COMP_CNTRS,
		.supported_qp_attach_ops = OPS_ALL,
	};

	(void)context;
	/* Fields of a newer program that this library does not support are 0. */
	memset(caps, 0, caps_size);
	memcpy(caps, &full, caps_size < sizeof(full) ? caps_size : sizeof(full));
	return 0;
}

static int comp_cntr_attr_check(const struct ibv_comp_cntr_init_attr *attr)
{
	if (attr->comp_mask || attr->flags)
		return -EINVAL;
	return attr->type == IBV_COMP_CNTR_TYPE_WRS || attr->type == IBV_COMP_CNTR_TYPE_BYTES ?
		       0 :
		       -EINVAL;
}

/* engine.lock held. */
static int comp_cntr_register(struct engine *engine, struct comp_cntr *comp_cntr)
{
	int ret = engine_usable(engine);

	engine_assert_locked(engine);
	if (ret)
		return ret;
	if (engine->tables.comp_cntr_count >= MAX_COMP_CNTRS)
		return -ENOMEM;
	engine->tables.comp_cntr_count++;
	comp_cntr->pub.handle = engine->tables.comp_cntr_handle++;
	context_get(comp_cntr->context);
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *ibcontext,
					   struct ibv_comp_cntr_init_attr *attr)
{
	struct context *context = to_context(ibcontext);
	struct comp_cntr *comp_cntr;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	ret = comp_cntr_attr_check(attr);
	if (ret)
		goto err_attr;
	comp_cntr = calloc(1, sizeof(*comp_cntr));
	if (!comp_cntr)
		return NULL;
	comp_cntr->pub.context = ibcontext;
	comp_cntr->context = context;
	comp_cntr->counts_bytes = attr->type == IBV_COMP_CNTR_TYPE_BYTES;
	engine_lock(context->engine);
	ret = comp_cntr_register(context->engine, comp_cntr);
	engine_unlock(context->engine);
	if (!ret)
		return &comp_cntr->pub;
	free(comp_cntr);
err_attr:
	call_failed(context, __func__, ret);
	errno = -ret;
	return NULL;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *ibcomp_cntr)
{
	struct comp_cntr *comp_cntr = to_comp_cntr(ibcomp_cntr);
	struct engine *engine = comp_cntr->context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (comp_cntr->users) {
		engine_unlock(engine);
		return call_failed_busy(comp_cntr->context, __func__, comp_cntr->users);
	}
	engine->tables.comp_cntr_count--;
	context_put(comp_cntr->context);
	engine_unlock(engine);
	free(comp_cntr);
	return 0;
}

static uint32_t supported_ops(const struct qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_RC:
		return OPS_ALL;
	case IBV_QPT_UC:
		return OPS_UC;
	case IBV_QPT_UD:
		return OPS_UD;
	case IBV_QPT_XRC_SEND:
		return OPS_XRC_SEND;
	default:
		/*
		 * Requests to an XRC_RECV QP may be executed by another process, which owns the
		 * SRQ.
		 */
		return 0;
	}
}

static int attach_check(const struct qp *qp, const struct comp_cntr *comp_cntr,
			const struct ibv_qp_attach_comp_cntr_attr *attr)
{
	int ret = engine_usable(qp->context->engine);

	if (ret)
		return ret;
	if (attr->comp_mask || !attr->op_mask || comp_cntr->context != qp->context)
		return -EINVAL;
	if (attr->op_mask & ~supported_ops(qp))
		return -EOPNOTSUPP;
	if (qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
		return -EINVAL;
	return attr->op_mask & qp->comp_cntr_ops ? -EBUSY : 0;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *ibqp, struct ibv_comp_cntr *ibcomp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	struct comp_cntr *comp_cntr = to_comp_cntr(ibcomp_cntr);
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	ret = attach_check(qp, comp_cntr, attr);
	if (!ret && !qp->comp_cntrs) {
		qp->comp_cntrs = calloc(QP_COMP_CNTR_OPS, sizeof(*qp->comp_cntrs));
		ret = qp->comp_cntrs ? 0 : -ENOMEM;
	}
	if (!ret) {
		for (unsigned int i = 0; i < QP_COMP_CNTR_OPS; i++) {
			if (!(attr->op_mask & 1u << i))
				continue;
			qp->comp_cntrs[i] = comp_cntr;
			comp_cntr->users++;
		}
		qp->comp_cntr_ops |= attr->op_mask;
	}
	engine_unlock(engine);
	return -ret;
}

void comp_cntr_detach_all(struct qp *qp)
{
	engine_assert_all_locked(qp->context->engine);
	for (unsigned int i = 0; qp->comp_cntrs && i < QP_COMP_CNTR_OPS; i++) {
		if (qp->comp_cntrs[i])
			qp->comp_cntrs[i]->users--;
	}
	free(qp->comp_cntrs);
	qp->comp_cntrs = NULL;
	qp->comp_cntr_ops = 0;
}

void comp_cntr_add(const struct qp *qp, enum ibv_qp_attach_comp_cntr_op op, bool is_success,
		   uint32_t wrs, uint64_t bytes)
{
	struct comp_cntr *comp_cntr = qp->comp_cntrs[__builtin_ctz(op)];

	/*
	 * Release: a thread that reads the new count also sees the data of the message
	 * (ibv_read_comp_cntr()).
	 */
	if (!is_success)
		__atomic_fetch_add(&comp_cntr->failed, wrs, __ATOMIC_RELEASE);
	else
		__atomic_fetch_add(&comp_cntr->done, comp_cntr->counts_bytes ? bytes : wrs,
				   __ATOMIC_RELEASE);
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	if (fault_call_fails(__func__))
		return errno;
	__atomic_store_n(&to_comp_cntr(comp_cntr)->done, value, __ATOMIC_RELAXED);
	return 0;
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	if (fault_call_fails(__func__))
		return errno;
	__atomic_store_n(&to_comp_cntr(comp_cntr)->failed, value, __ATOMIC_RELAXED);
	return 0;
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	if (fault_call_fails(__func__))
		return errno;
	__atomic_fetch_add(&to_comp_cntr(comp_cntr)->done, amount, __ATOMIC_RELAXED);
	return 0;
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	if (fault_call_fails(__func__))
		return errno;
	__atomic_fetch_add(&to_comp_cntr(comp_cntr)->failed, amount, __ATOMIC_RELAXED);
	return 0;
}

/* Runs the engine, as ibv_poll_cq() does, and returns the value. */
static uint64_t read_value(struct comp_cntr *comp_cntr, const uint64_t *value)
{
	engine_poll(comp_cntr->context->engine, SHARDS_ALL);
	return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *ibcomp_cntr, uint64_t *value)
{
	struct comp_cntr *comp_cntr = to_comp_cntr(ibcomp_cntr);

	if (fault_call_fails(__func__))
		return errno;
	*value = read_value(comp_cntr, &comp_cntr->done);
	return 0;
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *ibcomp_cntr, uint64_t *value)
{
	struct comp_cntr *comp_cntr = to_comp_cntr(ibcomp_cntr);

	if (fault_call_fails(__func__))
		return errno;
	*value = read_value(comp_cntr, &comp_cntr->failed);
	return 0;
}
