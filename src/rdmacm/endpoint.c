/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/connect.h"
#include "rdmacm/event.h"
#include "rdmacm/public.h"
#include "rdmacm/resolve.h"

#define RESOLVE_TIMEOUT_MS 2000

/* Stores the attributes from which a listener creates the QPs of its connection requests. */
static int start_passive(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			 const struct ibv_qp_init_attr *qp_attr)
{
	int ret = rcm_bind(id, res->ai_src_addr);

	if (ret || !qp_attr)
		return ret;
	id->endpoint.wants_qp = true;
	id->endpoint.pd = pd;
	id->endpoint.qp_attr = *qp_attr;
	id->endpoint.qp_attr.qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int keep_prefix(struct rcm_id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	id->endpoint.prefix = malloc(res->ai_connect_len);
	if (!id->endpoint.prefix)
		return -ENOMEM;
	memcpy(id->endpoint.prefix, res->ai_connect, res->ai_connect_len);
	id->endpoint.prefix_bytes = res->ai_connect_len;
	return 0;
}

static int endpoint_resolve_route(struct rcm_id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_route_len)
		return rcm_resolve_route(id, RESOLVE_TIMEOUT_MS);
	if (rdma_set_option(&id->pub, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			    res->ai_route_len))
		return -errno;
	return rcm_event_complete(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int start_active(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			struct ibv_qp_init_attr *qp_attr)
{
	const struct sockaddr *src = res->ai_src_len ? res->ai_src_addr : NULL;
	int ret;

	ret = rcm_resolve_addr(id, src, res->ai_dst_addr, RESOLVE_TIMEOUT_MS);
	if (!ret)
		ret = endpoint_resolve_route(id, res);
	if (!ret)
		ret = keep_prefix(id, res);
	if (ret || !qp_attr)
		return ret;
	qp_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->pub, pd, qp_attr) ? -errno : 0;
}

static int create_ep(const struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *qp_attr, struct rcm_id **created)
{
	struct rcm_id *id;
	int ret;

	ret = rcm_id_create(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
			    (enum ibv_qp_type)res->ai_qp_type, &id);
	if (ret)
		return ret;
	if (res->ai_flags & RAI_PASSIVE)
		ret = start_passive(id, res, pd, qp_attr);
	else
		ret = start_active(id, res, pd, qp_attr);
	if (ret) {
		rdma_destroy_ep(&id->pub);
		return ret;
	}
	*created = id;
	return 0;
}

/*
 * Creates the QP of a connection request. If this fails, the request is rejected and its id is
 * destroyed.
 */
static int create_request_qp(const struct rcm_endpoint *endpoint, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr = endpoint->qp_attr;
	struct rcm_id *id = rcm_id_of(event->id);
	int ret, reject_ret;

	if (!endpoint->wants_qp || !rdma_create_qp(&id->pub, endpoint->pd, &attr))
		return 0;
	ret = -errno;
	reject_ret = rcm_connect_reject(id, RCM_REJECT_CONSUMER, NULL, 0);
	if (reject_ret)
		log_debug("cannot reject the request of id %u: %s", id->handle,
			  strerror(-reject_ret));
	rcm_id_destroy(id);
	return ret;
}

static int get_request(struct rcm_id *listener, struct rcm_id **id)
{
	struct rdma_cm_event *event;
	int ret;

	if (!listener->is_sync || rcm_id_step(listener, RCM_IN_GET_REQUEST) == RCM_ACTION_ILLEGAL)
		return -EINVAL;
	ret = rcm_event_complete(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (ret)
		return ret;
	event = listener->pub.event;
	ret = create_request_qp(&listener->endpoint, event);
	if (ret) {
		rcm_id_release_event(listener);
		return ret;
	}
	/* The new id owns the event until the id is accepted, rejected or destroyed. */
	listener->pub.event = NULL;
	event->id->event = event;
	*id = rcm_id_of(event->id);
	return 0;
}

int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	struct rcm_id *created;
	int ret;

	if (!id || !res)
		return rcm_public_result(-EINVAL);
	probe_init();
	ret = fault_call(__func__) ?: create_ep(res, pd, qp_init_attr, &created);
	if (!ret)
		*id = &created->pub;
	return rcm_public_result(ret);
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rcm_id_destroy(rcm_id_of(id));
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct rcm_id *requested;
	int ret;

	if (!listen || !id)
		return rcm_public_result(-EINVAL);
	ret = fault_call(__func__) ?: get_request(rcm_id_of(listen), &requested);
	if (!ret)
		*id = &requested->pub;
	return rcm_public_result(ret);
}
