/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/clock.h"
#include "daemon/cma_priv.h"
#include "wire/print.h"

/* What the communication manager has to say becomes the events that the user sees. */

static void trace(const char *what, const void *mad)
{
	char line[PRINT_MAD_MAX];

	if (!log_is_on(LOG_LEVEL_TRACE))
		return;
	print_mad(line, sizeof(line), mad, MAD_BYTES);
	log_trace("%s %s", what, line);
}

static int on_send(void *ctx, const struct cm_path *path, const void *mad)
{
	struct cma *cma = ctx;

	trace("send", mad);
	cma_wake(cma);
	return gsi_send(&cma->gsi, path, mad);
}

/* Which QP a request is to be answered with, or IBV_QPT_DRIVER: none that there is. */
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

/* The new id of a request, seen from here: what the peer calls remote is ours. */
static void fill_child(struct cma_id *id, struct cm_conn *conn, const struct cm_path *path,
		       const struct cma_addrs *addrs, const struct cm_req *req,
		       const struct netdev *dev)
{
	id->state = CMA_REQUESTED;
	id->conn = conn;
	id->service_id = req->service_id;
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	/* A starting PSN is the one that its receiver is to begin sending with (IBA 1.x §12.7.31). */
	id->qp.rq_psn = cm_conn_psn(conn);
	id->qp.sq_psn = req->starting_psn;
	id->qp.remote_qpn = req->local_qpn;
	id->qp.qkey = req->local_qkey;
	id->qp.path_mtu = req->path_mtu;
	id->qp.timeout = req->primary.local_ack_timeout;
	id->qp.retry_count = req->retry_count;
	id->qp.rnr_retry_count = req->rnr_retry_count;
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	id->qp.srq = req->srq;
	if (cma_mtu_of(dev) < id->qp.path_mtu)
		id->qp.path_mtu = cma_mtu_of(dev);
	cma_request_place(id, path, addrs, dev, id->qp.path_mtu);
	id->route.flow_label = req->primary.flow_label;
	id->route.traffic_class = req->primary.traffic_class;
	id->route.sl = req->primary.sl;
}

static void push_request(struct cma_id *id, struct cma_id *listener, const struct cm_req *req)
{
	struct ipc_cm_event event = {0};

	event.param.qp_num = req->local_qpn;
	event.param.qkey = req->local_qkey;
	event.param.responder_resources = id->responder_resources;
	event.param.initiator_depth = id->initiator_depth;
	event.param.flow_control = req->end_to_end_flow_control;
	event.param.retry_count = req->retry_count;
	event.param.rnr_retry_count = req->rnr_retry_count;
	event.param.srq = req->srq;
	event.param.vendor_id = req->vendor_id;
	event.param.vendor_options = req->vendor_options;
	event.param.qp_type = id->qp_type;
	cma_event_private_data(&event, req->private_data + CM_IP_HDR_BYTES, CMA_REQ_PRIVATE_BYTES);
	cma_request_push(id, listener, &event);
}

/* Why a request cannot be passed on, or 0. */
static uint16_t refusal(const struct cma_id *listener, const struct netdev *dev,
			const struct cm_req *req)
{
	if (!listener || !dev || cma_is_datagram(listener))
		return CM_REJ_INVALID_SERVICE_ID;
	if (qp_type_of(req) == IBV_QPT_DRIVER ||
	    (qp_type_of(req) == IBV_QPT_XRC_RECV) != (listener->qp_type == IBV_QPT_XRC_RECV))
		return CM_REJ_INVALID_TRANSPORT;
	if (req->path_mtu < IBV_MTU_256 || req->path_mtu > cma_mtu_of(dev))
		return CM_REJ_INVALID_MTU;
	return 0;
}

static void *on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	const struct netdev *dev = netdev_by_id(path->dev_id);
	struct cma_id *listener, *id;
	struct cma_addrs addrs;
	struct cma *cma = ctx;

	listener = cma_find_listener(cma, path, req->service_id, req->private_data, &addrs);
	if (!listener && cma_grace_holds(&cma->grace, req->service_id, clock_now_ns()))
		return NULL;
	*reason = refusal(listener, dev, req);
	if (*reason)
		return NULL;
	id = cma_request_child(listener, qp_type_of(req));
	if (!id)
		return NULL;
	fill_child(id, conn, path, &addrs, req, dev);
	push_request(id, listener, req);
	return id;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void on_rep(struct cma_id *id, const struct cm_msg *msg)
{
	struct ipc_cm_event event = {.event = RDMA_CM_EVENT_CONNECT_RESPONSE};
	const struct cm_rep *rep = &msg->rep;
	uint32_t qpn = id->qp_type == IBV_QPT_XRC_SEND ? rep->local_eecn : rep->local_qpn;

	id->responder_resources = smaller(id->responder_resources, rep->initiator_depth);
	id->initiator_depth = smaller(id->initiator_depth, rep->responder_resources);
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	id->qp.remote_qpn = qpn;
	id->qp.sq_psn = rep->starting_psn;
	id->qp.qkey = rep->local_qkey;
	id->qp.rnr_retry_count = rep->rnr_retry_count;
	id->qp.srq = rep->srq;
	event.param.qp_num = qpn;
	event.param.qkey = rep->local_qkey;
	event.param.responder_resources = id->responder_resources;
	event.param.initiator_depth = id->initiator_depth;
	event.param.flow_control = rep->end_to_end_flow_control;
	event.param.retry_count = id->qp.retry_count;
	event.param.rnr_retry_count = rep->rnr_retry_count;
	event.param.srq = rep->srq;
	event.param.vendor_id = (uint32_t)rep->vendor_id_high << 16 |
				(uint32_t)rep->vendor_id_middle << 8 | rep->vendor_id_low;
	event.param.vendor_options = rep->vendor_options;
	event.param.qp_type = id->qp_type;
	cma_event_private_data(&event, rep->private_data, CM_REP_PRIVATE_BYTES);
	cma_event_push(id, id, &event);
}

static void on_rtu(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	id->cma->counters.established++;
	cma_event_status(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void on_rej(struct cma_id *id, const struct cm_msg *msg)
{
	struct ipc_cm_event event = {
		.event = RDMA_CM_EVENT_REJECTED,
		.status = msg->rej.reason,
	};

	id->state = CMA_OVER;
	cma_event_private_data(&event, msg->rej.private_data, CM_REJ_PRIVATE_BYTES);
	cma_event_push(id, id, &event);
}

static void on_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_UNREACHABLE, cm_conn_error(id->conn));
}

static void disconnected(struct cma_id *id, int status)
{
	if (id->is_told_end)
		return;
	id->is_told_end = true;
	cma_event_status(id, RDMA_CM_EVENT_DISCONNECTED, status);
}

static void on_disconnected(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	disconnected(id, 0);
}

static void on_dreq_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	disconnected(id, -ETIMEDOUT);
}

static void on_timewait_exit(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void (*const handlers[])(struct cma_id *id, const struct cm_msg *msg) = {
	[CM_EVENT_REP] = on_rep,
	[CM_EVENT_RTU] = on_rtu,
	[CM_EVENT_REJ] = on_rej,
	[CM_EVENT_REQ_ERROR] = on_unanswered,
	[CM_EVENT_REP_ERROR] = on_unanswered,
	[CM_EVENT_DREQ] = on_disconnected,
	[CM_EVENT_DREP] = on_disconnected,
	[CM_EVENT_DREQ_ERROR] = on_dreq_unanswered,
	[CM_EVENT_LOST] = on_disconnected,
	[CM_EVENT_TIMEWAIT_EXIT] = on_timewait_exit,
};
static_assert(sizeof(handlers) / sizeof(handlers[0]) == CM_EVENT_COUNT, "every event is told");

static void on_event(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		     const struct cm_msg *msg, uint64_t now_ns)
{
	(void)ctx;
	(void)conn;
	(void)now_ns;
	handlers[type](owner, msg);
}

const struct cm_ops cma_cm_ops = {
	.send = on_send,
	.request = on_request,
	.event = on_event,
	.sidr_request = cma_on_sidr_request,
	.sidr_event = cma_on_sidr_event,
};
