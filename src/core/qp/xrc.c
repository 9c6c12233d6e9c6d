/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fault.h"
#include "core/device/context.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/report/call_failed.h"

static int xrc_init_attr_check(const struct ibv_xrcd_init_attr *attr)
{
	if (attr->comp_mask != (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS))
		return -EINVAL;
	if (attr->oflags & ~(O_CREAT | O_EXCL))
		return -EINVAL;
	return attr->fd == -1 && !(attr->oflags & O_CREAT) ? -EINVAL : 0;
}

static int open_domain(struct xrcd *xrcd, const struct ibv_xrcd_init_attr *attr)
{
	struct context *context = xrcd->context;
	struct engine *engine = context->engine;
	int ret;

	engine_lock(engine);
	ret = engine_usable(engine);
	engine_unlock(engine);
	if (!ret)
		ret = xrc_domain_open(engine, context->device, attr->fd, attr->oflags,
				      &xrcd->domain);
	if (ret)
		return ret;
	engine_lock(engine);
	context_get(context);
	engine_unlock(engine);
	return 0;
}

static int xrcd_new(struct context *context, const struct ibv_xrcd_init_attr *attr,
		    struct xrcd **made)
{
	struct xrcd *xrcd;
	int ret = xrc_init_attr_check(attr);

	if (ret)
		return ret;
	/* An XRC target QP delivers to SRQs only. */
	if (!profile_value(context->device->profile, PROFILE_MAX_SRQ, MAX_SRQS))
		return -EOPNOTSUPP;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return -ENOMEM;
	xrcd->pub.context = &context->pub.context;
	xrcd->context = context;
	ret = open_domain(xrcd, attr);
	if (ret)
		free(xrcd);
	else
		*made = xrcd;
	return ret;
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct xrcd *xrcd = NULL;
	int ret;

	if (fault_call_fails("ibv_open_xrcd"))
		return NULL;
	ret = xrcd_new(to_context(context), attr, &xrcd);
	if (!ret)
		return &xrcd->pub;
	call_failed(to_context(context), "ibv_open_xrcd", ret);
	errno = -ret;
	return NULL;
}

int xrcd_close(struct ibv_xrcd *ibxrcd)
{
	struct xrcd *xrcd = to_xrcd(ibxrcd);
	struct engine *engine = xrcd->context->engine;
	struct xrc_domain *closed;

	if (fault_call_fails("ibv_close_xrcd"))
		return errno;
	engine_lock(engine);
	if (xrcd->users) {
		engine_unlock(engine);
		return call_failed_busy(xrcd->context, "ibv_close_xrcd", xrcd->users);
	}
	closed = xrc_domain_put(engine, xrcd->domain);
	context_put(xrcd->context);
	engine_unlock(engine);
	if (closed)
		xrc_domain_close(engine, closed);
	free(xrcd);
	return 0;
}

/*
 * Assigns the next free SRQ number. Cyclic assignment delays reuse, so that a request for a
 * destroyed SRQ does not reach a new SRQ. 0 or -errno.
 */
static int xrc_take_number(struct engine *engine, struct srq *srq)
{
	uint32_t low;

	if (!engine->xrc.srqs)
		engine->xrc.srqs = calloc(XRC_SRQNS, sizeof(struct srq *));
	if (!engine->xrc.srqs || engine->xrc.srq_count == XRC_SRQNS - 1)
		return -ENOMEM;
	do {
		low = 1 + engine->xrc.srqn_cursor++ % (XRC_SRQNS - 1);
	} while (engine->xrc.srqs[low]);
	engine->xrc.srqs[low] = srq;
	engine->xrc.srq_count++;
	srq->number = engine->slot << IPC_SLOT_SHIFT | low;
	return 0;
}

int xrc_srq_add(struct srq *srq)
{
	int ret = xrc_take_number(srq->context->engine, srq);

	engine_assert_locked(srq->context->engine);
	if (ret)
		return ret;
	srq->xrcd->users++;
	srq->cq->users++;
	return 0;
}

void xrc_srq_remove(struct srq *srq)
{
	struct engine *engine = srq->context->engine;

	engine_assert_locked(srq->context->engine);
	engine->xrc.srqs[srq->number % XRC_SRQNS] = NULL;
	engine->xrc.srq_count--;
	srq->xrcd->users--;
	srq->cq->users--;
}

static struct srq *find_srq(const struct engine *engine, uint32_t srqn)
{
	struct srq *srq = engine->xrc.srqs ? engine->xrc.srqs[srqn % XRC_SRQNS] : NULL;

	return srq && srq->number == srqn ? srq : NULL;
}

bool xrc_aim(struct qp *qp, uint32_t srqn)
{
	struct srq *srq = find_srq(qp->context->engine, srqn);

	engine_assert_locked(qp->context->engine);
	if (!srq || srq->xrcd->domain != qp->xrc_domain) {
		xrc_unaim(qp);
		return false;
	}
	qp->srq = srq;
	qp->pd = srq->pd;
	qp->recv_cq = srq->cq;
	return true;
}

void xrc_unaim(struct qp *qp)
{
	engine_assert_locked(qp->context->engine);
	qp->srq = NULL;
	qp->pd = NULL;
	qp->recv_cq = NULL;
}
