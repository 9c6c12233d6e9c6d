/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/public.h"
#include "rdmacm/qp.h"

static int move_to(struct rcm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, ret;

	ret = rcm_qp_attr(id, qp->qp_type, &attr, &mask);
	return ret ? ret : -ibv_modify_qp(qp, &attr, mask);
}

int rcm_qp_to_init(struct rcm_id *id, struct ibv_qp *qp)
{
	return qp ? move_to(id, qp, IBV_QPS_INIT) : 0;
}

/* INIT once more: the access that the peer gets was not known when the QP was made. */
int rcm_qp_to_rtr(struct rcm_id *id, uint8_t responder_resources)
{
	int ret;

	if (!id->pub.qp)
		return 0;
	id->qp_param.max_dest_rd_atomic = responder_resources;
	ret = move_to(id, id->pub.qp, IBV_QPS_INIT);
	return ret ? ret : move_to(id, id->pub.qp, IBV_QPS_RTR);
}

int rcm_qp_to_rts(struct rcm_id *id, uint8_t initiator_depth)
{
	if (!id->pub.qp)
		return 0;
	id->qp_param.max_rd_atomic = initiator_depth;
	return move_to(id, id->pub.qp, IBV_QPS_RTS);
}

int rcm_qp_to_err(struct rcm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->pub.qp ? -ibv_modify_qp(id->pub.qp, &attr, IBV_QP_STATE) : 0;
}

/*
 * A channel and a CQ on it whose context is the id: what the inline functions of rdma_verbs.h wait
 * on and assert.
 */
static int create_cq(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	int ret;

	*channel = ibv_create_comp_channel(id->pub.verbs);
	if (!*channel)
		return errno ? -errno : -ENOMEM;
	*cq = ibv_create_cq(id->pub.verbs, (int)entries, &id->pub, *channel, 0);
	if (*cq)
		return 0;
	ret = errno ? -errno : -ENOMEM;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return ret;
}

static void destroy_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	int ret = 0;

	if (*cq)
		ret = ibv_destroy_cq(*cq);
	if (!ret && *channel)
		ret = ibv_destroy_comp_channel(*channel);
	if (ret)
		log_warn("a completion queue of an id stays: %s", strerror(ret));
	*cq = NULL;
	*channel = NULL;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	destroy_cq(&id->recv_cq_channel, &id->recv_cq);
	destroy_cq(&id->send_cq_channel, &id->send_cq);
}

/*
 * How many receives can complete: those of the QP, or of the shared receive queue that it draws on.
 */
static uint32_t receive_entries(const struct ibv_qp_init_attr_ex *attr)
{
	uint32_t entries = attr->cap.max_recv_wr;
	struct ibv_srq_attr srq_attr;

	if (attr->srq && !ibv_query_srq(attr->srq, &srq_attr) && srq_attr.max_wr > entries)
		entries = srq_attr.max_wr;
	return entries ? entries : 1;
}

/*
 * Fills in what the caller left to the id: protection domain, SRQ and completion queues. On failure
 * nothing that was made here is left.
 */
static int complete_attr(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *pub = &id->pub;
	int ret;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = pub->pd;
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
	}
	if (attr->pd->context != pub->verbs)
		return -EINVAL;
	if ((pub->recv_cq && attr->recv_cq && pub->recv_cq != attr->recv_cq) ||
	    (pub->send_cq && attr->send_cq && pub->send_cq != attr->send_cq))
		return -EINVAL;
	if (!attr->srq)
		attr->srq = pub->srq;
	if (!attr->recv_cq && !pub->recv_cq) {
		ret = create_cq(id, receive_entries(attr), &pub->recv_cq_channel, &pub->recv_cq);
		if (ret)
			return ret;
	}
	if (!attr->send_cq && !pub->send_cq) {
		uint32_t entries = attr->cap.max_send_wr ? attr->cap.max_send_wr : 1;

		ret = create_cq(id, entries, &pub->send_cq_channel, &pub->send_cq);
		if (ret) {
			destroy_cqs(pub);
			return ret;
		}
	}
	if (!attr->recv_cq)
		attr->recv_cq = pub->recv_cq;
	if (!attr->send_cq)
		attr->send_cq = pub->send_cq;
	return 0;
}

static int create_qp(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int ret;

	if (id->pub.qp || !id->device)
		return -EINVAL;
	ret = complete_attr(id, attr);
	if (ret)
		return ret;
	qp = ibv_create_qp_ex(id->pub.verbs, attr);
	if (!qp) {
		ret = errno ? -errno : -ENOMEM;
		goto err_create;
	}
	ret = rcm_qp_to_init(id, qp);
	if (ret)
		goto err_init;
	id->pub.pd = qp->pd;
	id->pub.qp = qp;
	return 0;

err_init:
	ibv_destroy_qp(qp);
err_create:
	destroy_cqs(&id->pub);
	return ret;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	if (!id || !qp_init_attr)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(create_qp(rcm_id_of(id), qp_init_attr));
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex attr = {0};
	int ret;

	if (!id || !qp_init_attr)
		return rcm_public_result(-EINVAL);
	/* The plain structure is how the extended one begins. */
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	ret = create_qp(rcm_id_of(id), &attr);
	if (!ret)
		memcpy(qp_init_attr, &attr, sizeof(*qp_init_attr));
	return rcm_public_result(ret);
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	int ret;

	if (!id || !id->qp)
		return;
	ret = ibv_destroy_qp(id->qp);
	if (ret)
		log_warn("the QP of an id stays: %s", strerror(ret));
	id->qp = NULL;
	destroy_cqs(id);
}
