/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/cma_priv.h"
#include "daemon/fault_device.h"

/* Requests that a connection manager received: the listener lookup, the backlog and the new id. */

/*
 * Whether the backlog has room for another request. The client empties it by reading all events of
 * the channel.
 */
static bool backlog_has_room(struct cma_id *listener)
{
	if (listener->unread < listener->backlog)
		return true;
	if (!cma_channel_is_read(listener->channel))
		return false;
	listener->unread = 0;
	return true;
}

/*
 * Allocates an id for a request to the listener. NULL: the backlog is full, or memory is short. As
 * in Linux, the request is then dropped without a response, and the peer repeats it.
 */
static struct cma_id *request_child(struct cma_id *listener, uint8_t qp_type)
{
	struct cma_id *id;

	if (!backlog_has_room(listener) || cma_client_is_unresponsive(listener->client, 1) ||
	    cma_id_create(listener->client, listener->channel, listener->ps, qp_type, 0, &id)) {
		listener->cma->counters.backlog_drops++;
		return NULL;
	}
	id->listener = listener->handle;
	id->has_tos = listener->has_tos;
	id->tos = listener->tos;
	return id;
}

/*
 * A link-local address needs the local interface as its scope; the peer's scope ID is valid only at
 * the peer.
 */
static void set_scope(struct sockaddr_storage *addr, uint32_t dev_id)
{
	if (cma_addr_is_link_local((const struct sockaddr *)addr))
		((struct sockaddr_in6 *)addr)->sin6_scope_id = dev_id;
}

/* Fills in the route of a new id. */
static void request_place(struct cma_id *id, const struct cma_request *request,
			  const struct netdev *dev, uint8_t mtu)
{
	struct ipc_cm_route *route = &id->route;
	uint32_t index;

	cma_path_fill(id, dev, mtu);
	route->dev_id = dev->dev_id;
	route->port_num = 1;
	memcpy(route->sgid, request->sgid, GID_BYTES);
	memcpy(route->dgid, request->dgid, GID_BYTES);
	if (netdev_by_gid_at(route->sgid, dev->dev_id, &index) == dev)
		route->sgid_index = index;
	route->src = request->addrs.ours;
	route->dst = request->addrs.theirs;
	set_scope(&route->src, dev->dev_id);
	set_scope(&route->dst, dev->dev_id);
	if (!request->has_flow)
		return;
	route->flow_label = request->flow_label;
	route->traffic_class = request->traffic_class;
	route->sl = request->sl;
	route->packet_life_time = cma_path_life_time(request->qp.timeout, 0);
}

static bool is_xrc_target(uint8_t qp_type)
{
	return qp_type == IBV_QPT_XRC_RECV;
}

/*
 * Why a request cannot be passed to the listener, or 0. The listener gets a request whose path MTU
 * exceeds that of its interface, as with Linux: the transition to RTR fails, unless the application
 * has agreed another MTU with its peer.
 */
static int request_check(const struct cma_request *request, const struct cma_id *listener,
			 const struct netdev *dev)
{
	uint8_t qp_type = request->event.param.qp_type;

	if (!listener || !dev || fault_device_is_removed(dev, listener->client->peer.uid) ||
	    cma_is_datagram(listener) != (qp_type == IBV_QPT_UD))
		return -ECONNREFUSED;
	if (qp_type == IBV_QPT_UD)
		return 0;
	if (qp_type == IBV_QPT_DRIVER || is_xrc_target(qp_type) != is_xrc_target(listener->qp_type))
		return -EPROTOTYPE;
	if (request->qp.path_mtu < IBV_MTU_256 || request->qp.path_mtu > IBV_MTU_4096)
		return -EMSGSIZE;
	return 0;
}

static void request_fill(struct cma_id *id, const struct cma_request *request,
			 const struct netdev *dev)
{
	const struct ipc_cm_param *param = &request->event.param;

	id->state = CMA_REQUESTED;
	id->cm = request->cm;
	id->conn = request->conn;
	id->service_id = request->service_id;
	/*
	 * The path to the requester of a datagram id is known, but its QP is not: a SIDR_REQ has no
	 * QPN.
	 */
	if (cma_is_datagram(id)) {
		request_place(id, request, dev, netdev_path_mtu(dev));
		return;
	}
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->qp = request->qp;
	id->qp.max_dest_rd_atomic = id->responder_resources;
	id->qp.max_rd_atomic = id->initiator_depth;
	request_place(id, request, dev, id->qp.path_mtu);
}

struct cma_id *cma_find_listener(const struct cma_request *request)
{
	struct cma_binding *binding = cma_port_find_listener(
		&request->cm->cma->ports, (uint32_t)(request->service_id >> 16),
		(const struct sockaddr *)&request->addrs.ours, request->dev_id);

	return binding ? container_of(binding, struct cma_id, binding) : NULL;
}

int cma_on_request(struct cma_request *request, struct cma_id **out)
{
	const struct netdev *dev = netdev_by_id(request->dev_id);
	struct cma *cma = request->cm->cma;
	struct cma_id *listener = cma_find_listener(request);
	struct cma_id *id;
	int ret;

	if (!listener && cma_linger_holds(&cma->linger, request->service_id, clock_now_ns()))
		return -EAGAIN;
	ret = request_check(request, listener, dev);
	if (ret)
		return ret;
	id = request_child(listener, request->event.param.qp_type);
	if (!id)
		return -EAGAIN;
	request_fill(id, request, dev);
	request->event.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	listener->unread++;
	cma->counters.connect_requests++;
	cma_event_push(id, listener, &request->event);
	*out = id;
	return 0;
}
