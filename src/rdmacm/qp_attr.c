/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "rdmacm/public.h"
#include "rdmacm/qp.h"

/*
 * The QP attributes of a connection, computed from the id's route and the negotiated parameters.
 * The masks are those of IBA 1.x §11.2.5.2 for RC, UC and UD.
 */

static bool qp_attr_is_reliable(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/*
 * No remote access until the remote QP is known. Then RDMA WRITE, and READ, atomics and FLUSH if
 * there are responder resources, as in Linux since 6.2.
 */
static unsigned remote_access(const struct rcm_id *id)
{
	unsigned access = 0;

	if (!id->qp_param.remote_qpn)
		return access;
	access |= IBV_ACCESS_REMOTE_WRITE;
	if (id->qp_param.max_dest_rd_atomic)
		access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
	return access;
}

static void set_init(const struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = id->pub.port_num;
	attr->qp_access_flags = remote_access(id);
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

void rcm_qp_path(const struct rcm_id *id, const struct ipc_cm_route *route, struct ibv_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	memcpy(ah->grh.dgid.raw, route->dgid, sizeof(ah->grh.dgid.raw));
	ah->grh.flow_label = route->flow_label;
	ah->grh.sgid_index = rcm_device_gid_index(id->device, route->sgid_index);
	ah->grh.hop_limit = route->hop_limit;
	ah->grh.traffic_class = route->traffic_class;
	ah->sl = route->sl;
	ah->static_rate = route->rate;
	ah->is_global = 1;
	ah->port_num = id->pub.port_num;
}

static void set_rtr(const struct rcm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *attr,
		    int *mask)
{
	rcm_qp_path(id, &id->route, &attr->ah_attr);
	attr->path_mtu = (enum ibv_mtu)id->qp_param.path_mtu;
	attr->dest_qp_num = id->qp_param.remote_qpn;
	attr->rq_psn = id->qp_param.rq_psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!qp_attr_is_reliable(type))
		return;
	attr->max_dest_rd_atomic = id->qp_param.max_dest_rd_atomic;
	attr->min_rnr_timer = id->qp_param.min_rnr_timer;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void set_rts(const struct rcm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *attr,
		    int *mask)
{
	attr->sq_psn = id->qp_param.sq_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!qp_attr_is_reliable(type))
		return;
	attr->timeout = id->has_ack_timeout ? id->ack_timeout : id->qp_param.timeout;
	attr->retry_cnt = id->qp_param.retry_count;
	attr->rnr_retry = id->qp_param.rnr_retry_count;
	attr->max_rd_atomic = id->qp_param.max_rd_atomic;
	*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

/* A UD QP has no peer: its transitions only set port, P_Key index, Q_Key and PSN. */
static int set_datagram(const struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->pkey_index = 0;
		attr->port_num = id->pub.port_num;
		attr->qkey = RDMA_UDP_QKEY;
		*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		return 0;
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE;
		return 0;
	case IBV_QPS_RTS:
		attr->sq_psn = 0;
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
		return 0;
	default:
		return -EINVAL;
	}
}

int rcm_qp_attr(const struct rcm_id *id, enum ibv_qp_type type, struct ibv_qp_attr *attr, int *mask)
{
	if (!id->device)
		return -EINVAL;
	if (rcm_id_is_datagram(id))
		return set_datagram(id, attr, mask);
	if (attr->qp_state == IBV_QPS_INIT) {
		set_init(id, attr, mask);
		return 0;
	}
	if (!id->qp_param.remote_qpn)
		return -EINVAL;
	if (attr->qp_state == IBV_QPS_RTR)
		set_rtr(id, type, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTS)
		set_rts(id, type, attr, mask);
	else
		return -EINVAL;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	int ret = id && qp_attr && qp_attr_mask ? fault_call(__func__) : -EINVAL;

	if (!ret)
		ret = rcm_id_need_device(rcm_id_of(id));
	if (ret)
		return rcm_public_result(ret);
	return rcm_public_result(rcm_qp_attr(rcm_id_of(id), id->qp ? id->qp->qp_type : id->qp_type,
					     qp_attr, qp_attr_mask));
}
