/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/multicast.h"
#include "rdmacm/public.h"
#include "rdmacm/cq.h"
#include "rdmacm/device.h"
#include "rdmacm/qp.h"

/* In the child of a fork() a thread that was left behind may have the lock, and there are no events. */
void rcm_qp_hold(struct rcm_id *id)
{
	if (!id->session->is_inherited)
		pthread_mutex_lock(&id->qp_lock);
}

void rcm_qp_release(struct rcm_id *id)
{
	if (!id->session->is_inherited)
		pthread_mutex_unlock(&id->qp_lock);
}

static void set_qp(struct rcm_id *id, struct ibv_qp *qp)
{
	rcm_qp_hold(id);
	id->pub.qp = qp;
	rcm_qp_release(id);
}

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

int rcm_qp_to_start(struct rcm_id *id, struct ibv_qp *qp)
{
	int ret = rcm_qp_to_init(id, qp);

	if (ret || !rcm_id_is_datagram(id))
		return ret;
	ret = move_to(id, qp, IBV_QPS_RTR);
	return ret ? ret : move_to(id, qp, IBV_QPS_RTS);
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

/* What the caller gave has to belong to the device, and to the id where that has its own. */
static int check_parts(const struct rdma_cm_id *pub, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->pd->context != pub->verbs)
		return -EINVAL;
	if ((pub->recv_cq && attr->recv_cq && pub->recv_cq != attr->recv_cq) ||
	    (pub->send_cq && attr->send_cq && pub->send_cq != attr->send_cq))
		return -EINVAL;
	return 0;
}

/* The completion queues that the caller left to the id. On failure nothing that was made here is left. */
static int complete_cqs(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	bool receives = attr->qp_type != IBV_QPT_XRC_SEND;
	struct rdma_cm_id *pub = &id->pub;
	int ret;

	if (receives && !attr->recv_cq && !pub->recv_cq) {
		ret = rcm_cq_create(id, receive_entries(attr), &pub->recv_cq_channel,
				    &pub->recv_cq);
		if (ret)
			return ret;
	}
	if (!attr->send_cq && !pub->send_cq) {
		uint32_t entries = attr->cap.max_send_wr ? attr->cap.max_send_wr : 1;

		ret = rcm_cq_create(id, entries, &pub->send_cq_channel, &pub->send_cq);
		if (ret) {
			rcm_cqs_destroy(id);
			return ret;
		}
	}
	if (receives && !attr->recv_cq)
		attr->recv_cq = pub->recv_cq;
	if (!attr->send_cq)
		attr->send_cq = pub->send_cq;
	return 0;
}

/* An XRC receive QP has its domain, and nothing of its own beside it. */
static int complete_xrc_receiver(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd)
		return attr->xrcd->context == id->pub.verbs ? 0 : -EINVAL;
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return rcm_device_xrcd(id->session, id->device, &attr->xrcd);
}

/* Fills in what the caller left to the id: protection domain or XRC domain, SRQ and completion queues. */
static int complete_attr(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int ret;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return complete_xrc_receiver(id, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pub.pd;
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
	}
	ret = check_parts(&id->pub, attr);
	if (ret)
		return ret;
	if (!attr->srq && attr->qp_type != IBV_QPT_XRC_SEND)
		attr->srq = id->pub.srq;
	return complete_cqs(id, attr);
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
	ret = rcm_qp_to_start(id, qp);
	if (ret)
		goto err_start;
	if (qp->pd)
		id->pub.pd = qp->pd;
	set_qp(id, qp);
	return 0;

err_start:
	ibv_destroy_qp(qp);
err_create:
	rcm_cqs_destroy(id);
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

/* The id's QP, which is the id's no more. */
static struct ibv_qp *take_qp(struct rcm_id *id)
{
	struct ibv_qp *qp;

	rcm_qp_hold(id);
	qp = id->pub.qp;
	if (qp)
		rcm_membership_detach_all(id);
	id->pub.qp = NULL;
	rcm_qp_release(id);
	return qp;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct ibv_qp *qp = id ? take_qp(rcm_id_of(id)) : NULL;
	int ret;

	if (!qp)
		return;
	ret = ibv_destroy_qp(qp);
	if (ret)
		log_warn("the QP of an id stays: %s", strerror(ret));
	rcm_cqs_destroy(rcm_id_of(id));
}
