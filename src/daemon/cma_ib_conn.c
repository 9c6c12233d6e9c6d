/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_ib.h"

/* Connections: REQ and REP of an id's parameters, and the events of connections. */

/* The REJ reasons that a consumer may give (IBA 1.x §12.6.7.2). */
#define REASON_MAX 35

/* RoCE has no LIDs. */
#define LID_PERMISSIVE 0xffff

static uint64_t guid_of(const struct cma_id *id)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);

	return dev ? dev->node_guid : 0;
}

uint64_t cma_ib_timeout(uint64_t timeout_ns)
{
	if (!timeout_ns)
		return CM_TIMEOUT_NS;
	return timeout_ns < CM_TIMEOUT_MAX_NS ? timeout_ns : CM_TIMEOUT_MAX_NS;
}

/*
 * Sets the transport type of a REQ, and the responder resources and retry counts. An XRC initiator
 * QP is never a responder, and sets none of these (IBA A14).
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
	req->retry_count = cma_retry_count(param->retry_count);
	req->rnr_retry_count = cma_retry_count(param->rnr_retry_count);
	req->srq = param->srq != 0;
}

static void fill_req(const struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns,
		     struct cm_req *req)
{
	const struct ipc_cm_route *route = &id->route;
	uint8_t response_timeout = cm_response_timeout(timeout_ns);

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
	req->primary.local_ack_timeout = cma_ack_timeout_of(id);
	memcpy(req->private_data + CM_IP_HDR_BYTES, param->private_data, param->private_len);
	fill_transport(param, req);
}

int cma_ib_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	const struct sockaddr *dst = (const struct sockaddr *)&id->route.dst;
	struct cm_req req = {0};
	struct cm_ip_hdr ip;
	struct cm_path path;
	struct cm_tag tag;
	int ret;

	ret = cm_ip_hdr_from_addrs(&ip, (const struct sockaddr *)&id->route.src, dst);
	if (ret)
		return ret;
	id->conn = cm_conn_new(cma_ib_of(id->cm)->cm, id);
	if (!id->conn)
		return -ENOMEM;
	cma_ib_tag(id, &tag);
	cm_conn_set_tag(id->conn, &tag);
	id->qp.rq_psn = cm_conn_psn(id->conn);
	timeout_ns = cma_ib_timeout(timeout_ns);
	cm_conn_set_timeout(id->conn, timeout_ns);
	fill_req(id, param, timeout_ns, &req);
	cm_ip_hdr_build(&ip, req.private_data);
	cma_ib_path(id, &path);
	ret = cm_connect(id->conn, &path, &req, clock_now_ns());
	if (ret)
		goto err_connect;
	return 0;

err_connect:
	cm_destroy(id->conn, clock_now_ns());
	id->conn = NULL;
	return ret;
}

/* An XRC target QP does not send requests, and its receives are always in SRQs. */
static void fill_rep(const struct cma_id *id, const struct ipc_cm_param *param, struct cm_rep *rep)
{
	rep->local_ca_guid = guid_of(id);
	rep->local_qkey = param->qkey;
	rep->responder_resources = id->responder_resources;
	rep->rnr_retry_count = cma_retry_count(param->rnr_retry_count);
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

int cma_ib_accept(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	struct cm_rep rep = {0};

	fill_rep(id, param, &rep);
	cm_conn_set_timeout(id->conn, cma_ib_timeout(timeout_ns));
	return cm_accept(id->conn, &rep, clock_now_ns());
}

static_assert(IPC_CM_REP_PRIVATE_BYTES == CM_REP_PRIVATE_BYTES &&
		      IPC_CM_SIDR_REP_PRIVATE_BYTES == CM_SIDR_REP_PRIVATE_BYTES,
	      "the library knows what an accept has room for");

/* The active side may reject a REP; it may not reject before the REP arrived. */
static bool has_response(const struct cma_id *id)
{
	enum cm_state state = cm_conn_state(id->conn);

	return state == CM_STATE_REP_RCVD || state == CM_STATE_MRA_REP_SENT;
}

int cma_ib_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	if (id->state == CMA_CONNECTING && !has_response(id))
		return -EINVAL;
	if (req->reason == 0 || req->reason > REASON_MAX)
		return -EINVAL;
	return cm_reject(id->conn, (uint16_t)req->reason, req->private_data, req->private_len,
			 clock_now_ns());
}

int cma_ib_establish(struct cma_id *id)
{
	return cm_establish(id->conn, clock_now_ns());
}

int cma_ib_disconnect(struct cma_id *id)
{
	return cm_disconnect(id->conn, clock_now_ns());
}

int cma_ib_notify(struct cma_id *id)
{
	return cm_notify(id->conn, clock_now_ns());
}

/*
 * The QP type that the passive side must use for a request; IBV_QPT_DRIVER for an unsupported
 * transport.
 */
static uint8_t qp_type_of(const struct cm_req *req)
{
	switch (req->transport_type) {
	case CM_TRANSPORT_RC:
		return IBV_QPT_RC;
	case CM_TRANSPORT_UC:
		return IBV_QPT_UC;
	case CM_TRANSPORT_EXTENDED:
		return req->extended_transport == CM_EXTENDED_XRC ? IBV_QPT_XRC_RECV :
								    IBV_QPT_DRIVER;
	default:
		return IBV_QPT_DRIVER;
	}
}

/*
 * Fills in the QP attributes and parameters from the local side's view: the request's remote values
 * are local ones here.
 */
static void fill_request(struct cma_request *request, const struct cm_conn *conn,
			 const struct cm_req *req)
{
	struct ipc_cm_param *param = &request->event.param;
	struct ipc_cm_qp *qp = &request->qp;

	/*
	 * The starting PSN in a message is the first PSN that its receiver must send (IBA 1.x
	 * §12.7.31).
	 */
	qp->rq_psn = cm_conn_psn(conn);
	qp->sq_psn = req->starting_psn;
	qp->remote_qpn = req->local_qpn;
	qp->qkey = req->local_qkey;
	qp->path_mtu = req->path_mtu;
	qp->timeout = req->primary.local_ack_timeout;
	qp->retry_count = req->retry_count;
	qp->rnr_retry_count = req->rnr_retry_count;
	qp->srq = req->srq;
	request->has_flow = true;
	request->flow_label = req->primary.flow_label;
	request->traffic_class = req->primary.traffic_class;
	request->sl = req->primary.sl;
	param->qp_num = req->local_qpn;
	param->qkey = req->local_qkey;
	param->responder_resources = req->initiator_depth;
	param->initiator_depth = req->responder_resources;
	param->flow_control = req->end_to_end_flow_control;
	param->retry_count = req->retry_count;
	param->rnr_retry_count = req->rnr_retry_count;
	param->srq = req->srq;
	param->vendor_id = req->vendor_id;
	param->vendor_options = req->vendor_options;
	param->qp_type = qp_type_of(req);
	cma_event_private_data(&request->event, req->private_data + CM_IP_HDR_BYTES,
			       CMA_IB_REQ_PRIVATE_BYTES);
}

/* The reason of the REJ for a request that no id was allocated for; 0: the request is dropped. */
static uint16_t reject_reason(int error)
{
	switch (error) {
	case -ECONNREFUSED:
		return CM_REJ_INVALID_SERVICE_ID;
	case -EPROTOTYPE:
		return CM_REJ_INVALID_TRANSPORT;
	case -EMSGSIZE:
		return CM_REJ_INVALID_MTU;
	default:
		return 0;
	}
}

void *cma_ib_on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	struct cma_request request;
	struct cma_id *id;
	struct cm_tag tag;
	int ret;

	cma_ib_request_init(&request, ctx, conn, path, req->service_id, req->private_data);
	fill_request(&request, conn, req);
	ret = cma_on_request(&request, &id);
	if (!ret) {
		cma_ib_tag(id, &tag);
		cm_conn_set_tag(conn, &tag);
		return id;
	}
	*reason = reject_reason(ret);
	return NULL;
}

static void cma_ib_on_rep(struct cma_id *id, const struct cm_msg *msg)
{
	const struct cm_rep *rep = &msg->rep;
	struct ipc_cm_event event = {0};
	struct ipc_cm_param *param = &event.param;

	param->qp_num = id->qp_type == IBV_QPT_XRC_SEND ? rep->local_eecn : rep->local_qpn;
	param->qkey = rep->local_qkey;
	param->responder_resources = rep->initiator_depth;
	param->initiator_depth = rep->responder_resources;
	param->flow_control = rep->end_to_end_flow_control;
	param->rnr_retry_count = rep->rnr_retry_count;
	param->srq = rep->srq;
	param->vendor_id = (uint32_t)rep->vendor_id_high << 16 |
			   (uint32_t)rep->vendor_id_middle << 8 | rep->vendor_id_low;
	param->vendor_options = rep->vendor_options;
	cma_event_private_data(&event, rep->private_data, CM_REP_PRIVATE_BYTES);
	id->qp.sq_psn = rep->starting_psn;
	cma_on_response(id, &event);
}

static void cma_ib_on_rtu(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	cma_on_established(id);
}

static void cma_ib_on_rej(struct cma_id *id, const struct cm_msg *msg)
{
	uint32_t sent;
	uint64_t waited_ns = cm_conn_waited_ns(id->conn, clock_now_ns(), &sent);

	/*
	 * The active side gave up. This side had accepted the REQ, so the active side did not
	 * receive the REP.
	 */
	if (id->state == CMA_CONNECTED && msg->rej.reason == CM_REJ_TIMEOUT)
		cma_because(id->cma, IPC_REASON_CM_NO_RTU, sent, waited_ns);
	cma_on_rejected(id, msg->rej.reason, msg->rej.private_data, CM_REJ_PRIVATE_BYTES);
}

bool cma_ib_waiting(const struct cma_id *id, enum ipc_failure_reason *reason, uint64_t numbers[2])
{
	uint32_t sent;

	switch (cm_conn_state(id->conn)) {
	case CM_STATE_REQ_SENT:
		*reason = IPC_REASON_CM_NO_REP;
		break;
	case CM_STATE_REP_SENT:
		*reason = IPC_REASON_CM_NO_RTU;
		break;
	default:
		return false;
	}
	numbers[1] = cm_conn_waited_ns(id->conn, clock_now_ns(), &sent);
	numbers[0] = sent;
	return true;
}

static void unanswered_give_up(struct cma_id *id, enum ipc_failure_reason reason)
{
	uint32_t sent;
	uint64_t waited_ns = cm_conn_waited_ns(id->conn, clock_now_ns(), &sent);

	cma_because(id->cma, reason, sent, waited_ns);
	cma_on_unreachable(id, cm_conn_error(id->conn));
}

static void cma_ib_on_req_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	unanswered_give_up(id, IPC_REASON_CM_NO_REP);
}

static void cma_ib_on_rep_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	unanswered_give_up(id, IPC_REASON_CM_NO_RTU);
}

static void cma_ib_on_disconnected(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	cma_on_disconnected(id, 0);
}

static void cma_ib_on_dreq(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	cma_because(id->cma, IPC_REASON_CM_DREQ, 0, 0);
	cma_on_disconnected(id, 0);
	/* If the end was reported before, the reason must not remain for the next failure. */
	cma_because(id->cma, IPC_REASON_NONE, 0, 0);
}

static void cma_ib_on_dreq_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	cma_because(id->cma, IPC_REASON_CM_NO_DREP, 0, 0);
	cma_on_disconnected(id, -ETIMEDOUT);
	cma_because(id->cma, IPC_REASON_NONE, 0, 0);
}

static void cma_ib_on_timewait_exit(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	cma_on_timewait_exit(id);
}

static void (*const handlers[])(struct cma_id *id, const struct cm_msg *msg) = {
	[CM_EVENT_REP] = cma_ib_on_rep,
	[CM_EVENT_RTU] = cma_ib_on_rtu,
	[CM_EVENT_REJ] = cma_ib_on_rej,
	[CM_EVENT_REQ_ERROR] = cma_ib_on_req_unanswered,
	[CM_EVENT_REP_ERROR] = cma_ib_on_rep_unanswered,
	[CM_EVENT_DREQ] = cma_ib_on_dreq,
	[CM_EVENT_DREP] = cma_ib_on_disconnected,
	[CM_EVENT_DREQ_ERROR] = cma_ib_on_dreq_unanswered,
	[CM_EVENT_LOST] = cma_ib_on_disconnected,
	[CM_EVENT_TIMEWAIT_EXIT] = cma_ib_on_timewait_exit,
};
static_assert(sizeof(handlers) / sizeof(handlers[0]) == CM_EVENT_COUNT,
	      "every event has a handler");

void cma_ib_on_event(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	(void)ctx;
	(void)conn;
	(void)now_ns;
	handlers[type](owner, msg);
}
