/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_priv.h"

/* What requests of both kinds, REQ and SIDR_REQ, have in common: whom they are for, and whether there is room. */

struct cma_id *cma_find_listener(struct cma *cma, const struct cm_path *path, uint64_t service_id,
				 const void *private_data, struct cma_addrs *addrs)
{
	struct cma_binding *binding;
	struct cm_ip_hdr ip;

	if (cm_ip_hdr_parse(&ip, private_data))
		return NULL;
	cm_ip_hdr_addrs(&ip, (uint16_t)service_id, &addrs->theirs, &addrs->ours);
	binding = cma_port_find_listener(&cma->ports, (uint32_t)(service_id >> 16),
					 (struct sockaddr *)&addrs->ours, path->dev_id);
	return binding ? container_of(binding, struct cma_id, binding) : NULL;
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

struct cma_id *cma_request_child(struct cma_id *listener, uint8_t qp_type)
{
	struct cma_id *id;

	if (!backlog_has_room(listener) || cma_client_is_deaf(listener->client, 1) ||
	    cma_id_create(listener->client, listener->channel, listener->ps, qp_type, 0, &id)) {
		listener->cma->counters.backlog_drops++;
		return NULL;
	}
	id->listener = listener->handle;
	id->has_tos = listener->has_tos;
	id->tos = listener->tos;
	return id;
}

/* A link-local address is nothing without its interface, and the peer knows only its own. */
static void set_scope(struct sockaddr_storage *addr, uint32_t dev_id)
{
	if (cma_addr_is_link_local((const struct sockaddr *)addr))
		((struct sockaddr_in6 *)addr)->sin6_scope_id = dev_id;
}

void cma_request_place(struct cma_id *id, const struct cm_path *path, const struct cma_addrs *addrs,
		       const struct netdev *dev, uint8_t mtu)
{
	struct ipc_cm_route *route = &id->route;
	uint32_t index;

	cma_path_fill(id, dev, mtu);
	route->dev_id = dev->dev_id;
	route->port_num = 1;
	memcpy(route->sgid, path->sgid, GID_BYTES);
	memcpy(route->dgid, path->dgid, GID_BYTES);
	if (netdev_by_gid(route->sgid, &index) == dev)
		route->sgid_index = index;
	route->src = addrs->ours;
	route->dst = addrs->theirs;
	set_scope(&route->src, dev->dev_id);
	set_scope(&route->dst, dev->dev_id);
}

void cma_request_push(struct cma_id *id, struct cma_id *listener, struct ipc_cm_event *event)
{
	event->event = RDMA_CM_EVENT_CONNECT_REQUEST;
	listener->unread++;
	listener->cma->counters.connect_requests++;
	cma_event_push(id, listener, event);
}
