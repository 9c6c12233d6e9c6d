/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/srq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "core/device/async.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/memory/pd.h"
#include "core/qp/xrc.h"
#include "core/queue/wq.h"
#include "core/report/call_failed.h"

static int srq_add(struct engine *engine, struct srq *srq)
{
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (engine->tables.srq_count >= MAX_SRQS)
		return -ENOMEM;
	ret = device_count_add(srq->context->engine, srq->context->device, DEVICE_SRQ);
	if (ret)
		return ret;
	if (srq->xrcd)
		ret = xrc_srq_add(srq);
	if (ret) {
		device_count_drop(srq->context->engine, srq->context->device, DEVICE_SRQ);
		return ret;
	}
	engine->tables.srq_count++;
	srq->pd->users++;
	context_get(srq->context);
	return 0;
}

static void srq_free(struct srq *srq)
{
	recv_queue_fini(&srq->rq);
	pthread_mutex_destroy(&srq->pub.mutex);
	pthread_cond_destroy(&srq->pub.cond);
	free(srq);
}

static bool is_xrc(const struct ibv_srq_init_attr_ex *attr)
{
	return (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC;
}

static int srq_new(const struct ibv_srq_init_attr_ex *init_attr, struct ibv_srq_attr *attr,
		   struct srq **made)
{
	struct ibv_pd *pd = init_attr->pd;
	struct srq *srq;
	int ret;

	/* As a driver without SRQs does. */
	if (!profile_value(to_pd(pd)->context->device->profile, PROFILE_MAX_SRQ, MAX_SRQS))
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > MAX_SRQ_WR || attr->max_sge > MAX_SGE)
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	ret = recv_queue_init(&srq->rq, &attr->max_wr, &attr->max_sge, to_pd(pd), QUEUE_SRQ);
	if (ret) {
		free(srq);
		return ret;
	}
	srq->context = to_context(pd->context);
	srq->pd = to_pd(pd);
	list_init(&srq->waiting_recv);
	if (is_xrc(init_attr)) {
		srq->xrcd = to_xrcd(init_attr->xrcd);
		srq->cq = to_cq(init_attr->cq);
	}
	srq->pub.context = pd->context;
	srq->pub.srq_context = init_attr->srq_context;
	srq->pub.pd = pd;
	pthread_mutex_init(&srq->pub.mutex, NULL);
	pthread_cond_init(&srq->pub.cond, NULL);
	*made = srq;
	return 0;
}

static int srq_create(struct ibv_srq_init_attr_ex *init_attr, struct srq **made)
{
	struct engine *engine = to_context(init_attr->pd->context)->engine;
	struct ibv_srq_attr actual = init_attr->attr;
	int ret = srq_new(init_attr, &actual, made);

	if (ret)
		return ret;
	engine_lock(engine);
	ret = srq_add(engine, *made);
	engine_unlock(engine);
	if (ret) {
		srq_free(*made);
		return ret;
	}
	init_attr->attr.max_wr = actual.max_wr;
	init_attr->attr.max_sge = actual.max_sge;
	return 0;
}

static void srq_create_failed(const struct ibv_pd *pd, const char *call,
			      const struct ibv_srq_attr *attr, int ret)
{
	const struct context *context = to_context(pd->context);

	if (ret == -EINVAL && (!attr->max_wr || attr->max_wr > MAX_SRQ_WR))
		call_failed_because(context, call, ret, IPC_REASON_CAP_SRQ_WR, attr->max_wr,
				    MAX_SRQ_WR);
	else if (ret == -EINVAL && attr->max_sge > MAX_SGE)
		call_failed_because(context, call, ret, IPC_REASON_CAP_SRQ_SGE, attr->max_sge,
				    MAX_SGE);
	else
		call_failed(context, call, ret);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init_attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = init_attr->srq_context,
		.attr = init_attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = pd,
	};
	struct srq *srq = NULL;
	int ret;

	if (fault_call_fails(__func__))
		return NULL;
	ret = srq_create(&ex, &srq);
	if (!ret) {
		init_attr->attr = ex.attr;
		return &srq->pub;
	}
	srq_create_failed(pd, __func__, &ex.attr, ret);
	errno = -ret;
	return NULL;
}

static int init_attr_check_xrc(const struct ibv_context *context,
			       const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if ((attr->comp_mask & needed) != needed || !attr->xrcd || !attr->cq)
		return -EINVAL;
	return attr->xrcd->context != context || attr->cq->context != context ? -EINVAL : 0;
}

/*
 * Tag-matching SRQs (IBV_SRQT_TM) are not supported; the device reports no tag-matching
 * capabilities.
 */
static int core_srq_init_attr_check(const struct ibv_context *context,
				    const struct ibv_srq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1))
		return -EINVAL;
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC &&
	    attr->srq_type != IBV_SRQT_XRC)
		return attr->srq_type == IBV_SRQT_TM ? -EOPNOTSUPP : -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		return -EINVAL;
	return is_xrc(attr) ? init_attr_check_xrc(context, attr) : 0;
}

struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct srq *srq = NULL;
	int ret;

	if (fault_call_fails("ibv_create_srq_ex"))
		return NULL;
	ret = core_srq_init_attr_check(context, attr);
	if (!ret)
		ret = srq_create(attr, &srq);
	if (!ret)
		return &srq->pub;
	if (attr->pd && attr->pd->context == context)
		srq_create_failed(attr->pd, "ibv_create_srq_ex", &attr->attr, ret);
	else
		call_failed(to_context(context), "ibv_create_srq_ex", ret);
	errno = -ret;
	return NULL;
}

int get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	const struct srq *srq = to_srq(ibsrq);

	if (fault_call_fails("ibv_get_srq_num"))
		return errno;
	/* Only an XRC SRQ has an SRQ number. */
	if (!srq->xrcd)
		return EOPNOTSUPP;
	*srq_num = srq->number;
	return 0;
}

static uint32_t srq_fill(const struct srq *srq)
{
	return srq->rq.head - srq->rq.tail;
}

/* Copies the posted WQEs in order to an empty queue of another size. */
static void rq_move(const struct recv_queue *from, struct recv_queue *to)
{
	for (uint32_t i = from->tail; i != from->head; i++) {
		const struct recv_wqe *wqe = rq_wqe(from, i);

		memcpy(rq_wqe(to, to->head++), wqe,
		       sizeof(*wqe) + wqe->num_sge * sizeof(wqe->sge[0]));
	}
}

/*
 * Allocates an empty queue for srq_resize(). Called without engine.lock: the application's
 * allocator may call verbs, or wait for a thread that does.
 */
static int srq_alloc_queue(struct srq *srq, uint32_t max_wr, struct recv_queue *queue)
{
	uint32_t max_sge;

	engine_assert_unlocked(srq->context->engine);
	if (!max_wr || max_wr > MAX_SRQ_WR)
		return -EINVAL;
	engine_lock(srq->context->engine);
	max_sge = srq->rq.max_sge;
	engine_unlock(srq->context->engine);
	return recv_queue_init(queue, &max_wr, &max_sge, srq->pd, QUEUE_SRQ);
}

/*
 * Exchanges the queue of the SRQ for an empty one with the requested max_wr. The caller frees
 * *queue, the former queue.
 */
static int srq_resize(struct srq *srq, uint32_t max_wr, struct recv_queue *queue)
{
	struct recv_queue before = srq->rq;

	if (max_wr < srq_fill(srq))
		return -EINVAL;
	rq_move(&before, queue);
	srq->rq = *queue;
	*queue = before;
	return 0;
}

/*
 * IBA 1.x §11.2.3.3: if the SRQ has fewer WQEs than the limit when it is armed, the event is
 * generated immediately.
 */
static void srq_arm(struct srq *srq, uint32_t limit)
{
	srq->limit = limit;
	if (srq_fill(srq) >= limit)
		return;
	srq->limit = 0;
	async_srq_event(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

static int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask,
		      struct recv_queue *queue)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.max_wr;
	int ret;

	if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr)
		return -EINVAL;
	if ((mask & IBV_SRQ_MAX_WR) && srq->limit > max_wr && !(mask & IBV_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		ret = srq_resize(srq, attr->max_wr, queue);
		if (ret)
			return ret;
	}
	if (mask & IBV_SRQ_LIMIT)
		srq_arm(srq, attr->srq_limit);
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int attr_mask)
{
	struct srq *srq = to_srq(ibsrq);
	struct engine *engine = srq->context->engine;
	struct recv_queue queue = {0};
	int ret = 0, unusable;

	if (fault_call_fails(__func__))
		return errno;
	if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		ret = -EINVAL;
	else if (attr_mask & IBV_SRQ_MAX_WR)
		ret = srq_alloc_queue(srq, attr->max_wr, &queue);
	engine_lock(engine);
	unusable = engine_usable(engine);
	if (unusable)
		ret = unusable;
	if (!ret)
		ret = srq_modify(srq, attr, attr_mask, &queue);
	engine_unlock(engine);
	/* The former queue, or the new one if the call fails. */
	recv_queue_fini(&queue);
	return call_result(srq->context, __func__, ret);
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct srq *srq = to_srq(ibsrq);
	struct engine *engine = srq->context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (engine->is_orphan) {
		engine_unlock(engine);
		return EIO;
	}
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	engine_unlock(engine);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct srq *srq = to_srq(ibsrq);
	struct engine *engine = srq->context->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	if (srq->users) {
		engine_unlock(engine);
		return call_failed_busy(srq->context, __func__, srq->users);
	}
	if (srq->xrcd)
		xrc_srq_remove(srq);
	engine->tables.srq_count--;
	device_count_drop(srq->context->engine, srq->context->device, DEVICE_SRQ);
	pd_put(srq->pd);
	engine_unlock(engine);
	if (!engine->is_orphan) {
		async_forget(srq->context, srq);
		async_wait_acks(srq->context, &ibsrq->mutex, &ibsrq->cond, &ibsrq->events_completed,
				srq->events_fetched,
				"ibv_destroy_srq() waits for ibv_ack_async_event()");
	}
	engine_lock(engine);
	context_put(srq->context);
	engine_unlock(engine);
	srq_free(srq);
	return 0;
}
