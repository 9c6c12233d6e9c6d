/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/async.h"
#include "core/context.h"
#include "core/qp.h"
#include "core/xrc_far.h"

/*
 * The names of an XRC receive QP. ibv_open_qp() gives it another, with events of its own; what is done by any of them
 * is done to the one QP. It lives until its last name goes, which need not be that of its maker (ibv_open_qp(3)).
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

static struct qp *name_new(struct context *context, const struct ibv_qp_open_attr *attr)
{
	struct qp *name = calloc(1, sizeof(*name));

	if (!name)
		return NULL;
	name->context = context;
	name->type = IBV_QPT_XRC_RECV;
	name->xrcd = to_xrcd(attr->xrcd);
	name->pub.context = &context->pub.context;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		name->pub.qp_context = attr->qp_context;
	name->pub.qp_type = IBV_QPT_XRC_RECV;
	pthread_mutex_init(&name->pub.mutex, NULL);
	pthread_cond_init(&name->pub.cond, NULL);
	list_init(&name->names);
	list_init(&name->memberships);
	list_init(&name->holders);
	return name;
}

static void name_free(struct qp *name)
{
	pthread_mutex_destroy(&name->pub.mutex);
	pthread_cond_destroy(&name->pub.cond);
	free(name);
}

static int name_own(struct qp *name, uint32_t qpn)
{
	struct qp *qp = qp_find(name->context->engine, qpn);

	if (!qp || qp->type != IBV_QPT_XRC_RECV || qp->xrc_domain != name->xrcd->domain)
		return -EINVAL;
	name->opened = qp;
	name->pub.state = qp->state;
	list_add_tail(&name->name_node, &qp->names);
	return 0;
}

/* engine.lock held. */
static int name_add(struct qp *name, uint32_t qpn)
{
	struct engine *engine = name->context->engine;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	/* The domain stays open while another process is asked. */
	name->xrcd->users++;
	name->qpn = qpn;
	name->pub.qp_num = qpn;
	name->pub.handle = qpn;
	ret = xrc_far_may_be(engine, name->xrcd->domain, qpn) ? xrc_far_open(name, qpn) :
								name_own(name, qpn);
	if (ret) {
		name->xrcd->users--;
		return ret;
	}
	context_get(name->context);
	return 0;
}

struct ibv_qp *xrc_open_qp(struct ibv_context *ibcontext, struct ibv_qp_open_attr *attr)
{
	struct context *context = to_context(ibcontext);
	struct qp *name;
	int ret = open_attr_check(context, attr);

	if (ret)
		goto err_attr;
	name = name_new(context, attr);
	if (!name)
		return NULL;
	engine_lock(context->engine);
	ret = name_add(name, attr->qp_num);
	engine_unlock(context->engine);
	if (!ret)
		return &name->pub;
	name_free(name);
err_attr:
	errno = -ret;
	return NULL;
}

int xrc_destroy_far(struct qp *name)
{
	struct context *context = name->context;
	struct engine *engine = context->engine;

	engine_lock(engine);
	xrc_far_close(name);
	name->xrcd->users--;
	engine_unlock(engine);
	if (!engine->is_orphan) {
		async_forget(context, name);
		async_wait_acks(&name->pub.mutex, &name->pub.cond, &name->pub.events_completed,
				name->events_fetched,
				"ibv_destroy_qp() waits for ibv_ack_async_event()");
	}
	engine_lock(engine);
	context_put(context);
	engine_unlock(engine);
	name_free(name);
	return 0;
}

bool xrc_qp_put_name(struct qp *name)
{
	struct qp *qp = qp_of_name(name);

	name->xrcd->users--;
	name->xrcd = NULL;
	if (name == qp)
		qp->is_nameless = true;
	else
		list_del(&name->name_node);
	return xrc_qp_is_forsaken(qp);
}

bool xrc_qp_is_forsaken(const struct qp *qp)
{
	return qp->is_nameless && list_is_empty(&qp->names) && list_is_empty(&qp->holders);
}
