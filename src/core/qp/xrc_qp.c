/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "core/device/async.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/qp/xrc_remote.h"
#include "core/report/call_failed.h"

/*
 * The handles of an XRC receive QP. ibv_open_qp() adds a handle with its own events; all handles
 * refer to the same QP. The QP is freed with its last handle, which need not be the handle of its
 * creator (ibv_open_qp(3)).
 */

static int open_attr_check(const struct context *context, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				IBV_QP_OPEN_ATTR_TYPE;

	if ((attr->comp_mask & needed) != needed ||
	    attr->comp_mask & ~(uint32_t)(IBV_QP_OPEN_ATTR_RESERVED - 1))
		return -EINVAL;
	if (attr->qp_type != IBV_QPT_XRC_RECV || !attr->xrcd ||
	    attr->xrcd->context != &context->pub.context)
		return -EINVAL;
	return 0;
}

static struct qp *xrc_handle_new(struct context *context, const struct ibv_qp_open_attr *attr)
{
	struct qp *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->context = context;
	handle->type = IBV_QPT_XRC_RECV;
	handle->xrcd = to_xrcd(attr->xrcd);
	handle->pub.context = &context->pub.context;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		handle->pub.qp_context = attr->qp_context;
	handle->pub.qp_type = IBV_QPT_XRC_RECV;
	pthread_mutex_init(&handle->pub.mutex, NULL);
	pthread_cond_init(&handle->pub.cond, NULL);
	list_init(&handle->handles);
	list_init(&handle->memberships);
	list_init(&handle->remote_clients);
	return handle;
}

static void xrc_handle_free(struct qp *handle)
{
	pthread_mutex_destroy(&handle->pub.mutex);
	pthread_cond_destroy(&handle->pub.cond);
	free(handle);
}

static int xrc_handle_open_own(struct qp *handle, uint32_t qpn)
{
	struct qp *qp = qp_find(handle->context->engine, qpn);

	if (!qp || qp->type != IBV_QPT_XRC_RECV || qp->xrc_domain != handle->xrcd->domain)
		return -EINVAL;
	handle->opened = qp;
	handle->pub.state = qp->state;
	list_add_tail(&handle->handle_node, &qp->handles);
	return 0;
}

/* engine.lock held. */
static int xrc_handle_open(struct qp *handle, uint32_t qpn)
{
	struct engine *engine = handle->context->engine;
	int ret = engine_usable(engine);

	engine_assert_locked(handle->context->engine);
	if (ret)
		return ret;
	/* Keeps the domain open while xrc_remote_open() waits for another process. */
	handle->xrcd->users++;
	handle->qpn = qpn;
	handle->pub.qp_num = qpn;
	handle->pub.handle = qpn;
	ret = xrc_remote_is_possible(engine, handle->xrcd->domain, qpn) ?
		      xrc_remote_open(handle, qpn) :
		      xrc_handle_open_own(handle, qpn);
	if (ret) {
		handle->xrcd->users--;
		return ret;
	}
	context_get(handle->context);
	return 0;
}

/*
 * Connects to the process that created the QP. Called without engine.lock: a slow daemon delays
 * only this caller.
 */
static int connect_creator(struct engine *engine, const struct ibv_qp_open_attr *attr)
{
	const struct xrc_domain *domain = to_xrcd(attr->xrcd)->domain;

	engine_assert_unlocked(engine);
	return xrc_remote_is_possible(engine, domain, attr->qp_num) ?
		       xrc_remote_connect(engine, attr->qp_num) :
		       0;
}

struct ibv_qp *xrc_open_qp(struct ibv_context *ibcontext, struct ibv_qp_open_attr *attr)
{
	struct context *context = to_context(ibcontext);
	struct qp *handle;
	int ret;

	if (fault_call_fails("ibv_open_qp"))
		return NULL;
	ret = open_attr_check(context, attr);
	if (!ret)
		ret = connect_creator(context->engine, attr);
	if (ret)
		goto err_attr;
	handle = xrc_handle_new(context, attr);
	if (!handle)
		return NULL;
	engine_lock(context->engine);
	ret = xrc_handle_open(handle, attr->qp_num);
	engine_unlock(context->engine);
	if (!ret)
		return &handle->pub;
	xrc_handle_free(handle);
err_attr:
	call_failed(context, "ibv_open_qp", ret);
	errno = -ret;
	return NULL;
}

int xrc_destroy_remote(struct qp *handle)
{
	struct context *context = handle->context;
	struct engine *engine = context->engine;

	engine_lock(engine);
	xrc_remote_close(handle);
	handle->xrcd->users--;
	engine_unlock(engine);
	if (!engine->is_orphan) {
		async_forget(context, handle);
		async_wait_acks(handle->context, &handle->pub.mutex, &handle->pub.cond,
				&handle->pub.events_completed, handle->events_fetched,
				"ibv_destroy_qp() waits for ibv_ack_async_event()");
	}
	engine_lock(engine);
	context_put(context);
	engine_unlock(engine);
	xrc_handle_free(handle);
	return 0;
}

bool xrc_qp_put_handle(struct qp *handle)
{
	struct qp *qp = qp_of_handle(handle);

	engine_assert_locked(handle->context->engine);
	handle->xrcd->users--;
	handle->xrcd = NULL;
	if (handle == qp)
		qp->is_destroyed_by_creator = true;
	else
		list_del(&handle->handle_node);
	return xrc_qp_is_orphaned(qp);
}

bool xrc_qp_is_orphaned(const struct qp *qp)
{
	return qp->is_destroyed_by_creator && list_is_empty(&qp->handles) &&
	       list_is_empty(&qp->remote_clients);
}
