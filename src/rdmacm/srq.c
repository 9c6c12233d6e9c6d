/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/public.h"
#include "rdmacm/qp.h"

/* Fills in the XRC domain and the CQ of an XRC SRQ if the caller does not specify them. */
static int complete_xrc(struct rcm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct rdma_cm_id *pub = &id->pub;
	int ret;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
		ret = rcm_device_xrcd(id->session, id->device, &attr->xrcd);
		if (ret)
			return ret;
	}
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq)
		return 0;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	if (!pub->recv_cq) {
		ret = rcm_cq_create(id, attr->attr.max_wr ? attr->attr.max_wr : 1,
				    &pub->recv_cq_channel, &pub->recv_cq);
		if (ret)
			return ret;
	}
	attr->cq = pub->recv_cq;
	return 0;
}

/* The default type of an SRQ: XRC if the id's QP type is XRC, else basic. */
static enum ibv_srq_type type_of(const struct rcm_id *id, const struct ibv_srq_init_attr_ex *attr)
{
	enum ibv_qp_type qp_type = id->pub.qp_type;

	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		return attr->srq_type;
	return qp_type == IBV_QPT_XRC_SEND || qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC :
									    IBV_SRQT_BASIC;
}

/*
 * Fills in what the caller does not specify; `attr` is therefore a copy of the caller's attributes.
 */
static int create_srq(struct rcm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	bool had_cq = id->pub.recv_cq;
	struct ibv_srq *srq;
	int ret = id->pub.srq ? -EINVAL : rcm_id_need_device(id);

	if (ret)
		return ret;
	attr->srq_type = type_of(id, attr);
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_TYPE;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->pub.pd;
	}
	if (attr->pd->context != id->pub.verbs)
		return -EINVAL;
	if (attr->srq_type == IBV_SRQT_XRC)
		ret = complete_xrc(id, attr);
	if (ret)
		return ret;
	srq = ibv_create_srq_ex(id->pub.verbs, attr);
	if (!srq) {
		ret = errno ? -errno : -ENOMEM;
		if (!had_cq)
			rcm_recv_cq_destroy(id);
		return ret;
	}
	id->srq_has_recv_cq = attr->srq_type == IBV_SRQT_XRC && attr->cq == id->pub.recv_cq;
	id->pub.srq = srq;
	id->pub.pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = {0};
	int ret;

	if (!id || !attr)
		return rcm_public_result(-EINVAL);
	attr_ex.srq_context = attr->srq_context;
	attr_ex.attr = attr->attr;
	attr_ex.comp_mask = IBV_SRQ_INIT_ATTR_PD;
	attr_ex.pd = pd;
	ret = fault_call(__func__) ?: create_srq(rcm_id_of(id), &attr_ex);
	if (!ret)
		attr->attr = attr_ex.attr;
	return rcm_public_result(ret);
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex own;
	int ret;

	if (!id || !attr)
		return rcm_public_result(-EINVAL);
	own = *attr;
	ret = fault_call(__func__) ?: create_srq(rcm_id_of(id), &own);
	if (!ret)
		attr->attr = own.attr;
	return rcm_public_result(ret);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	int ret;

	if (!id || !id->srq)
		return;
	ret = ibv_destroy_srq(id->srq);
	if (ret)
		log_warn("cannot destroy the SRQ of an id: %s", strerror(ret));
	id->srq = NULL;
	if (rcm_id_of(id)->srq_has_recv_cq)
		rcm_recv_cq_destroy(rcm_id_of(id));
}
