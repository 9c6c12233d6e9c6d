/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "base/log.h"
#include "rdmacm/multicast.h"
#include "rdmacm/public.h"
#include "rdmacm/device.h"
#include "rdmacm/qp.h"

/*
 * In the child of a fork() the lock is not used: a thread of the parent may hold it, and the child
 * gets no events of the id.
 */
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

static void rdmacm_qp_set_qp(struct rcm_id *id, struct ibv_qp *qp)
{
	rcm_qp_hold(id);
	id->pub.qp = qp;
	atomic_store_explicit(&id->qpn, qp->qp_num, memory_order_relaxed);
	rcm_qp_release(id);
}

/*
 * Does not resolve the peer's neighbour entry: the peer has sent a REQ or a REP. A REQ can have a
 * forged source address; accepting it must not delay the thread, which may accept the requests of
 * other peers.
 */
static int rdmacm_qp_move_to(struct rcm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, ret;

	ret = rcm_qp_attr(id, qp->qp_type, &attr, &mask);
	return ret ? ret : -usrdma_modify_qp(qp, &attr, mask);
}

int rcm_qp_to_init(struct rcm_id *id, struct ibv_qp *qp)
{
	return qp ? rdmacm_qp_move_to(id, qp, IBV_QPS_INIT) : 0;
}

int rcm_qp_to_start(struct rcm_id *id, struct ibv_qp *qp)
{
	int ret = rcm_qp_to_init(id, qp);

	if (ret || !rcm_id_is_datagram(id))
		return ret;
	ret = rdmacm_qp_move_to(id, qp, IBV_QPS_RTR);
	return ret ? ret : rdmacm_qp_move_to(id, qp, IBV_QPS_RTS);
}

/* INIT is repeated: the access flags for the peer were unknown when the QP was created. */
int rcm_qp_to_rtr(struct rcm_id *id, uint8_t responder_resources)
{
	int ret;

	if (!id->pub.qp)
		return 0;
	id->qp_param.max_dest_rd_atomic = responder_resources;
	ret = rdmacm_qp_move_to(id, id->pub.qp, IBV_QPS_INIT);
	return ret ? ret : rdmacm_qp_move_to(id, id->pub.qp, IBV_QPS_RTR);
}

int rcm_qp_to_rts(struct rcm_id *id, uint8_t initiator_depth)
{
	if (!id->pub.qp)
		return 0;
	id->qp_param.max_rd_atomic = initiator_depth;
	return rdmacm_qp_move_to(id, id->pub.qp, IBV_QPS_RTS);
}

int rcm_qp_to_err(struct rcm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->pub.qp ? -ibv_modify_qp(id->pub.qp, &attr, IBV_QP_STATE) : 0;
}

int rcm_cq_create(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
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

static void cq_and_channel_destroy(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	int ret = 0;

	if (*cq)
		ret = ibv_destroy_cq(*cq);
	if (!ret && *channel)
		ret = ibv_destroy_comp_channel(*channel);
	if (ret)
		log_warn("cannot destroy a completion queue of an id: %s", strerror(ret));
	*cq = NULL;
	*channel = NULL;
}

void rcm_recv_cq_destroy(struct rcm_id *id)
{
	cq_and_channel_destroy(&id->pub.recv_cq_channel, &id->pub.recv_cq);
	id->srq_has_recv_cq = false;
}

void rcm_cqs_destroy(struct rcm_id *id)
{
	if (!id->srq_has_recv_cq)
		rcm_recv_cq_destroy(id);
	cq_and_channel_destroy(&id->pub.send_cq_channel, &id->pub.send_cq);
}

/*
 * The size of a receive CQ: the number of receives that the QP, or the SRQ that it uses, can have
 * outstanding.
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
 * The caller's PD must belong to the id's device. If the id has CQs, the caller's CQs must be the
 * same.
 */
static int check_parts(const struct rdma_cm_id *pub, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->pd->context != pub->verbs)
		return -EINVAL;
	if ((pub->recv_cq && attr->recv_cq && pub->recv_cq != attr->recv_cq) ||
	    (pub->send_cq && attr->send_cq && pub->send_cq != attr->send_cq))
		return -EINVAL;
	return 0;
}

/*
 * Creates the CQs that the caller does not specify. On failure all CQs that were created for the id
 * are destroyed.
 */
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

/* An XRC_RECV QP has an XRC domain, but no PD, SRQ or CQ. */
static int complete_xrc_receiver(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd)
		return attr->xrcd->context == id->pub.verbs ? 0 : -EINVAL;
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return rcm_device_xrcd(id->session, id->device, &attr->xrcd);
}

/* Fills in what the caller does not specify: protection domain or XRC domain, SRQ and CQs. */
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

static int rdmacm_qp_create_qp(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int ret;

	if (id->pub.qp)
		return -EINVAL;
	ret = rcm_id_need_device(id);
	if (!ret)
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
	rdmacm_qp_set_qp(id, qp);
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
	return rcm_public_call(rdmacm_qp_create_qp(rcm_id_of(id), qp_init_attr));
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex attr = {0};
	int ret;

	if (!id || !qp_init_attr)
		return rcm_public_result(-EINVAL);
	/* struct ibv_qp_init_attr has the layout of the beginning of struct ibv_qp_init_attr_ex. */
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	ret = fault_call(__func__) ?: rdmacm_qp_create_qp(rcm_id_of(id), &attr);
	if (!ret)
		memcpy(qp_init_attr, &attr, sizeof(*qp_init_attr));
	return rcm_public_result(ret);
}

/*
 * Detaches the id's QP from its multicast groups, removes it from the id and returns it; NULL:
 * none.
 */
static struct ibv_qp *take_qp(struct rcm_id *id)
{
	struct ibv_qp *qp;

	rcm_qp_hold(id);
	qp = id->pub.qp;
	if (qp)
		rcm_membership_detach_all(id);
	id->pub.qp = NULL;
	atomic_store_explicit(&id->qpn, 0, memory_order_relaxed);
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
	if (ret) {
		log_warn("cannot destroy queue pair 0x%x of an id: %s", qp->qp_num, strerror(ret));
		rdmacm_qp_set_qp(rcm_id_of(id), qp);
		return;
	}
	rcm_cqs_destroy(rcm_id_of(id));
}
