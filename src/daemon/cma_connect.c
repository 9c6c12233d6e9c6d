/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"

/* 3 bits each in REQ and REP. */
#define RETRY_MAX 7

/* The REJ reasons that a consumer may give (IBA 1.x §12.6.7.2). */
#define REASON_MAX 35

uint64_t cma_service_id(uint32_t ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

static uint8_t at_most(uint8_t value, uint8_t most)
{
	return value < most ? value : most;
}

int cma_check_qpn(const struct cma_id *id, uint32_t qpn)
{
	const struct cma *cma = id->cma;

	if (qpn > CMA_QPN_MAX)
		return -EINVAL;
	return cma->qpn_check ? cma->qpn_check(cma->qpn_ctx, &id->client->peer, qpn) : 0;
}

/* xrc_half: which QP of XRC this side of a connection has. */
static int check_param(const struct cma_id *id, const struct ipc_cm_param *param,
		       size_t private_max, enum ibv_qp_type xrc_half)
{
	if (param->private_len > private_max)
		return -EINVAL;
	if (param->qp_type != IBV_QPT_RC && param->qp_type != IBV_QPT_UC &&
	    param->qp_type != xrc_half)
		return -EINVAL;
	return cma_check_qpn(id, param->qp_num);
}

/* How long the client wants to wait for its peer; 0 leaves it to us. */
static uint64_t patience_of(const struct ipc_cm_connect *req)
{
	uint64_t patience_ns = req->timeout_ms * CLOCK_NS_PER_MS;

	if (!patience_ns)
		return CM_PATIENCE_NS;
	return patience_ns < CM_PATIENCE_MAX_NS ? patience_ns : CM_PATIENCE_MAX_NS;
}

static uint64_t guid_of(const struct cma_id *id)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);

	return dev ? dev->node_guid : 0;
}

void cma_cm_path(const struct cma_id *id, struct cm_path *path)
{
	const struct ipc_cm_route *route = &id->route;

	memset(path, 0, sizeof(*path));
	memcpy(path->sgid, route->sgid, GID_BYTES);
	memcpy(path->dgid, route->dgid, GID_BYTES);
	path->dev_id = route->dev_id;
	path->flow_label = route->flow_label;
	path->traffic_class = route->traffic_class;
	path->hop_limit = route->hop_limit;
}

static uint8_t ack_timeout_of(const struct cma_id *id)
{
	return id->ack_timeout ? id->ack_timeout : (uint8_t)(id->route.packet_life_time + 1);
}

/* As many LIDs as RoCE has. */
#define LID_PERMISSIVE 0xffff

/*
 * What kind of connection a REQ asks for, and what its QP does as a responder and when it repeats: XRC's sender never is a
 * responder, and says nothing of the other (IBA A14).
 */
static void fill_transport(const struct ipc_cm_param *param, struct cm_req *req)
{
	if (param->qp_type == IBV_QPT_XRC_SEND) {
		req->transport_type = CM_TRANSPORT_EXTENDED;
		req->extended_transport = CM_EXTENDED_XRC;
		return;
	}
	req->transport_type = param->qp_type == IBV_QPT_UC ? CM_TRANSPORT_UC : CM_TRANSPORT_RC;
	req->responder_resources = param->responder_resources;
	req->retry_count = at_most(param->retry_count, RETRY_MAX);
	req->rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX);
	req->srq = param->srq != 0;
}

static void fill_req(struct cma_id *id, const struct ipc_cm_param *param, uint64_t patience_ns,
		     struct cm_req *req)
{
	const struct ipc_cm_route *route = &id->route;
	uint8_t response_timeout = cm_response_timeout(patience_ns);

	req->service_id = id->service_id;
	req->local_ca_guid = guid_of(id);
	req->local_qpn = param->qp_num;
	req->local_qkey = param->qkey;
	req->initiator_depth = param->initiator_depth;
	req->remote_cm_response_timeout = response_timeout;
	req->local_cm_response_timeout = response_timeout;
	req->max_cm_retries = CM_MAX_RETRIES;
	req->end_to_end_flow_control = param->flow_control != 0;
	req->vendor_id = param->vendor_id;
	req->vendor_options = param->vendor_options;
	req->pkey = route->pkey;
	req->path_mtu = route->mtu;
	req->primary.local_lid = LID_PERMISSIVE;
	req->primary.remote_lid = LID_PERMISSIVE;
	memcpy(req->primary.local_gid, route->sgid, GID_BYTES);
	memcpy(req->primary.remote_gid, route->dgid, GID_BYTES);
	req->primary.flow_label = route->flow_label;
	req->primary.packet_rate = route->rate;
	req->primary.traffic_class = route->traffic_class;
	req->primary.hop_limit = route->hop_limit;
	req->primary.sl = route->sl;
	req->primary.local_ack_timeout = ack_timeout_of(id);
	memcpy(req->private_data + CM_IP_HDR_BYTES, param->private_data, param->private_len);
	fill_transport(param, req);
}

/* What the client asked for, kept for the day the peer answers. */
static void keep_param(struct cma_id *id, const struct ipc_cm_param *param)
{
	id->qp_num = param->qp_num;
	id->qp_type = param->qp_type;
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->qp.retry_count = at_most(param->retry_count, RETRY_MAX);
	id->qp.timeout = ack_timeout_of(id);
	id->qp.path_mtu = id->route.mtu;
	id->qp.rq_psn = cm_conn_psn(id->conn);
}

static int connect_conn(struct cma_id *id, const struct ipc_cm_param *param, uint64_t patience_ns)
{
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	struct cm_req req = {0};
	struct cm_ip_hdr ip;
	struct cm_path path;
	int ret = check_param(id, param, CMA_REQ_PRIVATE_BYTES, IBV_QPT_XRC_SEND);

	if (ret)
		return ret;
	ret = cm_ip_hdr_from_addrs(&ip, (const struct sockaddr *)&id->route.src, dst);
	if (ret)
		return ret;
	id->conn = cm_conn_new(id->cma->cm, id);
	if (!id->conn)
		return -ENOMEM;
	id->service_id = cma_service_id(id->ps, cma_addr_port(dst));
	keep_param(id, param);
	cm_conn_set_patience(id->conn, patience_ns);
	fill_req(id, param, patience_ns, &req);
	cm_ip_hdr_build(&ip, req.private_data);
	cma_cm_path(id, &path);
	ret = cm_connect(id->conn, &path, &req, clock_now_ns());
	if (ret)
		goto err_connect;
	id->state = CMA_CONNECTING;
	return 0;

err_connect:
	cm_destroy(id->conn, clock_now_ns());
	id->conn = NULL;
	return ret;
}

int cma_connect(struct cma_id *id, const struct ipc_cm_connect *req)
{
	uint64_t patience_ns = patience_of(req);

	return cma_is_datagram(id) ? cma_datagram_connect(id, &req->param, patience_ns) :
				     connect_conn(id, &req->param, patience_ns);
}

/* An XRC receive QP initiates nothing, and its receives are in SRQs by its nature. */
static void fill_rep(struct cma_id *id, const struct ipc_cm_param *param, struct cm_rep *rep)
{
	rep->local_ca_guid = guid_of(id);
	rep->local_qkey = param->qkey;
	rep->responder_resources = id->responder_resources;
	rep->rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX);
	rep->vendor_id_high = (uint8_t)(param->vendor_id >> 16);
	rep->vendor_id_middle = (uint8_t)(param->vendor_id >> 8);
	rep->vendor_id_low = (uint8_t)param->vendor_id;
	rep->vendor_options = param->vendor_options;
	memcpy(rep->private_data, param->private_data, param->private_len);
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		rep->local_eecn = param->qp_num;
		rep->srq = 1;
		return;
	}
	rep->local_qpn = param->qp_num;
	rep->initiator_depth = id->initiator_depth;
	rep->end_to_end_flow_control = param->flow_control != 0;
	rep->srq = param->srq != 0;
}

int cma_accept(struct cma_id *id, const struct ipc_cm_connect *req)
{
	const struct ipc_cm_param *param = &req->param;
	struct cm_rep rep = {0};
	int ret;

	if (cma_is_datagram(id))
		return cma_datagram_accept(id, req->cookie, param);
	ret = check_param(id, param, CM_REP_PRIVATE_BYTES, IBV_QPT_XRC_RECV);
	if (ret)
		return ret;
	/* A request for XRC is for an XRC QP, and the others are not. */
	if ((param->qp_type == IBV_QPT_XRC_RECV) != (id->qp_type == IBV_QPT_XRC_RECV))
		return -EINVAL;
	/* Neither side may expect more than the other has (IBA 1.x §12.7.26, §12.7.27). */
	id->responder_resources = at_most(param->responder_resources, id->responder_resources);
	id->initiator_depth = at_most(param->initiator_depth, id->initiator_depth);
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	id->qp_num = param->qp_num;
	fill_rep(id, param, &rep);
	cm_conn_set_patience(id->conn, patience_of(req));
	ret = cm_accept(id->conn, &rep, clock_now_ns());
	if (ret)
		return ret;
	id->cookie = req->cookie;
	cma_id_answered(id);
	id->state = CMA_CONNECTED;
	return 0;
}

int cma_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	int ret;

	if (cma_is_datagram(id))
		return cma_datagram_reject(id, req);
	if (req->private_len > CM_REJ_PRIVATE_BYTES || req->reason == 0 || req->reason > REASON_MAX)
		return -EINVAL;
	ret = cm_reject(id->conn, (uint16_t)req->reason, req->private_data, req->private_len,
			clock_now_ns());
	if (ret)
		return ret;
	cma_id_answered(id);
	id->cma->counters.rejects_sent++;
	id->state = CMA_OVER;
	return 0;
}

int cma_establish(struct cma_id *id)
{
	int ret;

	if (cma_is_datagram(id))
		return -EINVAL;
	ret = cm_establish(id->conn, clock_now_ns());
	if (ret)
		return ret;
	id->cma->counters.established++;
	id->state = CMA_CONNECTED;
	return 0;
}

int cma_disconnect(struct cma_id *id)
{
	/* Between datagram QPs there is nothing to end, which as with Linux is not wrong. */
	return cma_is_datagram(id) ? 0 : cm_disconnect(id->conn, clock_now_ns());
}

int cma_notify(struct cma_id *id, uint32_t event)
{
	if (event != IBV_EVENT_COMM_EST || cma_is_datagram(id))
		return -EINVAL;
	return cm_notify(id->conn, clock_now_ns());
}
