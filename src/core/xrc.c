/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/context.h"

static int init_attr_check(const struct ibv_xrcd_init_attr *attr)
{
	if (attr->comp_mask != (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS))
		return -EINVAL;
	if (attr->oflags & ~(O_CREAT | O_EXCL))
		return -EINVAL;
	return attr->fd == -1 && !(attr->oflags & O_CREAT) ? -EINVAL : 0;
}

static struct xrc_domain *domain_find(const struct engine *engine, const struct device *device,
				      const struct stat *file)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &engine->xrc_domains, node) {
		if (domain->has_inode && domain->device == device &&
		    domain->st_dev == file->st_dev && domain->st_ino == file->st_ino)
			return domain;
	}
	return NULL;
}

/* file: NULL for a domain without an inode. */
static struct xrc_domain *domain_new(struct engine *engine, const struct device *device,
				     const struct stat *file)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	domain->device = device;
	if (file) {
		domain->has_inode = true;
		domain->st_dev = file->st_dev;
		domain->st_ino = file->st_ino;
	}
	list_add_tail(&domain->node, &engine->xrc_domains);
	return domain;
}

/* engine.lock held. */
static int domain_open(struct xrcd *xrcd, const struct stat *file, int oflags)
{
	struct engine *engine = xrcd->context->engine;
	const struct device *device = xrcd->context->device;
	struct xrc_domain *domain = file ? domain_find(engine, device, file) : NULL;
	int ret = engine_usable(engine);

	if (ret)
		return ret;
	if (domain && oflags == (O_CREAT | O_EXCL))
		return -EINVAL;
	/* As the kernel answers it. */
	if (!domain && !(oflags & O_CREAT))
		return -EAGAIN;
	if (!domain)
		domain = domain_new(engine, device, file);
	if (!domain)
		return -ENOMEM;
	domain->xrcds++;
	xrcd->domain = domain;
	context_get(xrcd->context);
	return 0;
}

static int xrcd_new(struct context *context, const struct ibv_xrcd_init_attr *attr,
		    struct xrcd **made)
{
	struct stat file;
	struct xrcd *xrcd;
	int ret = init_attr_check(attr);

	if (ret)
		return ret;
	if (attr->fd != -1 && fstat(attr->fd, &file))
		return -errno;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return -ENOMEM;
	xrcd->pub.context = &context->pub.context;
	xrcd->context = context;
	engine_lock(context->engine);
	ret = domain_open(xrcd, attr->fd == -1 ? NULL : &file, attr->oflags);
	engine_unlock(context->engine);
	if (ret)
		free(xrcd);
	else
		*made = xrcd;
	return ret;
}

struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct xrcd *xrcd = NULL;
	int ret = xrcd_new(to_context(context), attr, &xrcd);

	if (!ret)
		return &xrcd->pub;
	errno = -ret;
	return NULL;
}

int xrcd_close(struct ibv_xrcd *ibxrcd)
{
	struct xrcd *xrcd = to_xrcd(ibxrcd);
	struct engine *engine = xrcd->context->engine;

	engine_lock(engine);
	if (xrcd->users) {
		engine_unlock(engine);
		return EBUSY;
	}
	if (!--xrcd->domain->xrcds) {
		list_del(&xrcd->domain->node);
		free(xrcd->domain);
	}
	context_put(xrcd->context);
	engine_unlock(engine);
	free(xrcd);
	return 0;
}

int xrc_srq_add(struct srq *srq)
{
	struct engine *engine = srq->context->engine;
	uint64_t number;
	int ret = id_table_add(&engine->xrc_srqs, srq, &number);

	if (ret)
		return -ENOMEM;
	srq->number = (uint32_t)number;
	srq->xrcd->users++;
	srq->cq->users++;
	return 0;
}

void xrc_srq_remove(struct srq *srq)
{
	id_table_remove(&srq->context->engine->xrc_srqs, srq->number);
	srq->xrcd->users--;
	srq->cq->users--;
}

bool xrc_aim(struct qp *qp, uint32_t srqn)
{
	struct srq *srq = id_table_get(&qp->context->engine->xrc_srqs, srqn);

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
	qp->srq = NULL;
	qp->pd = NULL;
	qp->recv_cq = NULL;
}
