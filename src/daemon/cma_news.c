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

static void private_data(struct ipc_cm_event *event, const void *data, size_t len)
{
	memcpy(event->param.private_data, data, len);
	event->param.private_len = (uint32_t)len;
}

/* Whether one more request fits what the listener's client has not read yet. */
static bool backlog_has_room(struct cma_id *listener)
{
	if (listener->unread < listener->backlog)
		return true;
	if (!cma_channel_is_read(listener->channel))
		return false;
	listener->unread = 0;
	return true;
}

static uint8_t qp_type_of(uint8_t transport_type)
{
	return transport_type == CM_TRANSPORT_UC ? IBV_QPT_UC : IBV_QPT_RC;
}

/* A link-local address is nothing without its interface, and the peer knows only its own. */
static void set_scope(struct sockaddr_storage *addr, uint32_t dev_id)
{
	if (cma_addr_is_link_local((const struct sockaddr *)addr))
		((struct sockaddr_in6 *)addr)->sin6_scope_id = dev_id;
}

/* The new id of a request, seen from here: what the peer calls remote is ours. */
static void fill_child(struct cma_id *id, struct cm_conn *conn, const struct cm_path *path,
		       const struct cm_req *req, const struct netdev *dev)
{
	struct ipc_cm_route *route = &id->route;
	uint32_t index;

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
	cma_path_fill(id, dev, id->qp.path_mtu);
	route->dev_id = dev->dev_id;
	route->port_num = 1;
	memcpy(route->sgid, path->sgid, GID_BYTES);
	memcpy(route->dgid, path->dgid, GID_BYTES);
	if (netdev_by_gid(route->sgid, &index) == dev)
		route->sgid_index = index;
	route->flow_label = req->primary.flow_label;
	route->traffic_class = req->primary.traffic_class;
	route->sl = req->primary.sl;
}

static void push_request(struct cma_id *id, struct cma_id *listener, const struct cm_req *req)
{
	struct ipc_cm_event event = {.event = RDMA_CM_EVENT_CONNECT_REQUEST};

	event.param.qp_num = req->local_qpn;
	event.param.qkey = req->local_qkey;
	event.param.responder_resources = id->responder_resources;
	event.param.initiator_depth = id->initiator_depth;
	event.param.flow_control = req->end_to_end_flow_control;
	event.param.retry_count = req->retry_count;
	event.param.rnr_retry_count = req->rnr_retry_count;
	event.param.srq = req->srq;
	event.param.qp_type = id->qp_type;
	private_data(&event, req->private_data + CM_IP_HDR_BYTES, CMA_REQ_PRIVATE_BYTES);
	listener->unread++;
	listener->cma->counters.connect_requests++;
	cma_event_push(id, listener, &event);
}

/* Which id a request is for: the port space and port are in the service ID, the address in front of the private data. */
static struct cma_id *find_listener(struct cma *cma, const struct cm_path *path,
				    const struct cm_req *req, struct sockaddr_storage *src,
				    struct sockaddr_storage *dst)
{
	struct cma_binding *binding;
	struct cm_ip_hdr ip;

	if (cm_ip_hdr_parse(&ip, req->private_data))
		return NULL;
	cm_ip_hdr_addrs(&ip, (uint16_t)req->service_id, src, dst);
	binding = cma_port_find_listener(&cma->ports, (uint32_t)(req->service_id >> 16),
					 (struct sockaddr *)dst, path->dev_id);
	return binding ? container_of(binding, struct cma_id, binding) : NULL;
}

static void *on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason)
{
	const struct netdev *dev = netdev_by_id(path->dev_id);
	struct sockaddr_storage src, dst;
	struct cma_id *listener, *id;
	struct cma *cma = ctx;

	listener = find_listener(cma, path, req, &src, &dst);
	if (!listener && cma_grace_holds(&cma->grace, req->service_id, clock_now_ns()))
		return NULL;
	if (!listener || !dev) {
		*reason = CM_REJ_INVALID_SERVICE_ID;
		return NULL;
	}
	if (req->transport_type != CM_TRANSPORT_RC && req->transport_type != CM_TRANSPORT_UC) {
		*reason = CM_REJ_INVALID_TRANSPORT;
		return NULL;
	}
	if (req->path_mtu < IBV_MTU_256 || req->path_mtu > cma_mtu_of(dev)) {
		*reason = CM_REJ_INVALID_MTU;
		return NULL;
	}
	/* As Linux has it, a full backlog says nothing: the request comes again. */
	if (!backlog_has_room(listener) ||
	    cma_id_create(listener->client, listener->channel, listener->ps,
			  qp_type_of(req->transport_type), 0, &id)) {
		cma->counters.backlog_drops++;
		return NULL;
	}
	id->listener = listener->handle;
	id->has_tos = listener->has_tos;
	id->tos = listener->tos;
	fill_child(id, conn, path, req, dev);
	id->route.src = dst;
	id->route.dst = src;
	set_scope(&id->route.src, dev->dev_id);
	set_scope(&id->route.dst, dev->dev_id);
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

	id->responder_resources = smaller(id->responder_resources, rep->initiator_depth);
	id->initiator_depth = smaller(id->initiator_depth, rep->responder_resources);
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	id->qp.remote_qpn = rep->local_qpn;
	id->qp.sq_psn = rep->starting_psn;
	id->qp.qkey = rep->local_qkey;
	id->qp.rnr_retry_count = rep->rnr_retry_count;
	id->qp.srq = rep->srq;
	event.param.qp_num = rep->local_qpn;
	event.param.qkey = rep->local_qkey;
	event.param.responder_resources = id->responder_resources;
	event.param.initiator_depth = id->initiator_depth;
	event.param.flow_control = rep->end_to_end_flow_control;
	event.param.retry_count = id->qp.retry_count;
	event.param.rnr_retry_count = rep->rnr_retry_count;
	event.param.srq = rep->srq;
	event.param.qp_type = id->qp_type;
	private_data(&event, rep->private_data, CM_REP_PRIVATE_BYTES);
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
	private_data(&event, msg->rej.private_data, CM_REJ_PRIVATE_BYTES);
	cma_event_push(id, id, &event);
}

static void on_unanswered(struct cma_id *id, const struct cm_msg *msg)
{
	(void)msg;
	id->state = CMA_OVER;
	cma_event_status(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
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
};
