/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/id.h"
#include "rdmacm/public.h"

/* The id's SRQ, of the basic kind: others need a device with XRC domains or tag matching. */
static int create_srq(struct rcm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq;

	if (id->pub.srq || !id->device)
		return -EINVAL;
	if (!pd)
		pd = id->pub.pd;
	if (pd->context != id->pub.verbs)
		return -EINVAL;
	srq = ibv_create_srq(pd, attr);
	if (!srq)
		return errno ? -errno : -ENOMEM;
	id->pub.srq = srq;
	id->pub.pd = pd;
	return 0;
}

static int create_srq_ex(struct rcm_id *id, struct ibv_srq_init_attr_ex *attr_ex)
{
	struct ibv_srq_init_attr attr = {.srq_context = attr_ex->srq_context,
					 .attr = attr_ex->attr};
	bool has_type = attr_ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE;
	struct ibv_pd *pd = attr_ex->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr_ex->pd : NULL;
	int ret;

	if (has_type && attr_ex->srq_type != IBV_SRQT_BASIC)
		return -EOPNOTSUPP;
	ret = create_srq(id, pd, &attr);
	if (!ret)
		attr_ex->attr = attr.attr;
	return ret;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!id || !attr)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(create_srq(rcm_id_of(id), pd, attr));
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!id || !attr)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(create_srq_ex(rcm_id_of(id), attr));
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	int ret;

	if (!id || !id->srq)
		return;
	ret = ibv_destroy_srq(id->srq);
	if (ret)
		log_warn("the SRQ of an id stays: %s", strerror(ret));
	id->srq = NULL;
}
