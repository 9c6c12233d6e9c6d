/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/connect.h"
#include "rdmacm/event.h"
#include "rdmacm/migrate.h"
#include "rdmacm/multicast.h"
#include "rdmacm/qp.h"

/*
 * What each event does on its way to the user, in the thread that took it and without a lock: it is
 * already booked to its id, whose end therefore waits. Each function answers whether the user is to
 * see the event, and may change what the user sees.
 */

static void fail_as(struct rcm_event *event, enum rdma_cm_event_type type, int status)
{
	event->pub.event = type;
	event->pub.status = status;
}

static bool on_addr_resolved(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	int ret = rcm_id_set_route(rcm_id_of(event->pub.id), &msg->route);

	if (ret)
		fail_as(event, RDMA_CM_EVENT_ADDR_ERROR, ret);
	return true;
}

static bool on_route_resolved(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	int ret = rcm_id_set_route(rcm_id_of(event->pub.id), &msg->route);

	if (ret)
		fail_as(event, RDMA_CM_EVENT_ROUTE_ERROR, ret);
	return true;
}

/* A host that cannot be reached is the user's affair, unless no other host can be. */
static bool on_no_way(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	const struct rcm_session *session = rcm_id_of(event->pub.id)->session;

	(void)msg;
	if (event->pub.status == -EHOSTUNREACH)
		ipc_explain_wire(session->client.hello.wire_errno);
	return true;
}

static void set_remote_ece(struct rcm_id *id, const struct ipc_cm_param *param)
{
	id->remote_ece.vendor_id = param->vendor_id;
	id->remote_ece.options = param->vendor_options;
}

/*
 * The id is made and on the channel already (event.c); here it learns where it is and what was
 * asked.
 */
static bool on_connect_request(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	int ret;

	id->qp_param = msg->qp;
	id->responder_resources = msg->param.responder_resources;
	id->initiator_depth = msg->param.initiator_depth;
	set_remote_ece(id, &msg->param);
	ret = rcm_id_set_route(id, &msg->route);
	if (!ret && event->owner->is_sync)
		ret = rcm_migrate(id, NULL);
	if (!ret)
		return true;
	log_error("a connection request is refused: %s", strerror(-ret));
	rcm_id_destroy(id);
	return false;
}

/* With a QP of the id the library completes the connection, and the user sees only the result. */
static bool on_connect_response(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	bool has_qp;
	int ret;

	id->qp_param = msg->qp;
	set_remote_ece(id, &msg->param);
	rcm_qp_hold(id);
	has_qp = id->pub.qp;
	ret = has_qp ? rcm_connect_complete(id) : 0;
	rcm_qp_release(id);
	if (!has_qp)
		return true;
	if (!ret) {
		event->pub.event = RDMA_CM_EVENT_ESTABLISHED;
		return true;
	}
	fail_as(event, RDMA_CM_EVENT_CONNECT_ERROR, ret);
	id->has_connect_error = true;
	return true;
}

/* There will be no connection: what is posted to the QP comes back. */
static bool on_refused(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	int ret;

	(void)msg;
	if (id->has_connect_error)
		return false;
	rcm_qp_hold(id);
	ret = rcm_qp_to_err(id);
	rcm_qp_release(id);
	if (ret)
		log_warn("QP of refused id %u does not go to ERR: %s", id->handle, strerror(-ret));
	return true;
}

/* On the side that asked for a datagram service: how to send to it. */
static bool on_established(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);

	(void)msg;
	if (rcm_id_is_datagram(id))
		rcm_qp_path(id, &id->route, &event->pub.param.ud.ah_attr);
	return true;
}

static bool on_disconnected(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	(void)msg;
	return !rcm_id_of(event->pub.id)->has_connect_error;
}

static bool on_addrinfo(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);

	(void)msg;
	memset(&event->pub.param, 0, sizeof(event->pub.param));
	pthread_mutex_lock(&id->lock);
	id->is_resolving = false;
	pthread_mutex_unlock(&id->lock);
	return true;
}

static bool on_user(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	uint64_t arg = 0;

	if (msg->param.private_len == sizeof(arg))
		memcpy(&arg, msg->param.private_data, sizeof(arg));
	memset(&event->pub.param, 0, sizeof(event->pub.param));
	event->pub.param.arg = arg;
	return true;
}

static void set_group(const struct rcm_event *event, const struct ipc_cm_event *msg,
		      struct rdma_ud_param *param)
{
	const struct rcm_id *id = rcm_id_of(event->pub.id);

	memset(param, 0, sizeof(*param));
	param->private_data = event->membership->context;
	param->qp_num = msg->param.qp_num;
	param->qkey = msg->param.qkey;
	rcm_qp_path(id, &msg->route, &param->ah_attr);
}

/* The join's context comes back in the place of private data (rdma_join_multicast(3)). */
static bool on_multicast_join(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	struct rdma_ud_param *param = &event->pub.param.ud;
	int ret;

	if (!event->membership)
		return false;
	set_group(event, msg, param);
	rcm_qp_hold(id);
	ret = rcm_membership_attach(id, event->membership, &param->ah_attr.grh.dgid);
	rcm_qp_release(id);
	if (ret)
		fail_as(event, RDMA_CM_EVENT_MULTICAST_ERROR, ret);
	return true;
}

static bool on_multicast_error(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	if (!event->membership)
		return false;
	set_group(event, msg, &event->pub.param.ud);
	return true;
}

/* Never pushed: the library's own business, or made here. */
static bool on_nonsense(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	(void)msg;
	log_error("the daemon pushed %s", rdma_event_str(event->pub.event));
	return false;
}

static bool on_news(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	(void)event;
	(void)msg;
	return true;
}

static bool (*const handlers[])(struct rcm_event *event, const struct ipc_cm_event *msg) = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = on_addr_resolved,
	[RDMA_CM_EVENT_ADDR_ERROR] = on_no_way,
	[RDMA_CM_EVENT_ROUTE_RESOLVED] = on_route_resolved,
	[RDMA_CM_EVENT_ROUTE_ERROR] = on_no_way,
	[RDMA_CM_EVENT_CONNECT_REQUEST] = on_connect_request,
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = on_connect_response,
	[RDMA_CM_EVENT_CONNECT_ERROR] = on_refused,
	[RDMA_CM_EVENT_UNREACHABLE] = on_no_way,
	[RDMA_CM_EVENT_REJECTED] = on_refused,
	[RDMA_CM_EVENT_ESTABLISHED] = on_established,
	[RDMA_CM_EVENT_DISCONNECTED] = on_disconnected,
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = on_news,
	[RDMA_CM_EVENT_MULTICAST_JOIN] = on_multicast_join,
	[RDMA_CM_EVENT_MULTICAST_ERROR] = on_multicast_error,
	[RDMA_CM_EVENT_ADDR_CHANGE] = on_news,
	[RDMA_CM_EVENT_TIMEWAIT_EXIT] = on_news,
	[RDMA_CM_EVENT_ADDRINFO_RESOLVED] = on_addrinfo,
	[RDMA_CM_EVENT_ADDRINFO_ERROR] = on_addrinfo,
	[RDMA_CM_EVENT_USER] = on_user,
	[RDMA_CM_EVENT_INTERNAL] = on_nonsense,
};
static_assert(sizeof(handlers) / sizeof(handlers[0]) == RDMA_CM_EVENT_INTERNAL + 1,
	      "one function per event");

/* What the user may do next that the daemon is sure to be ready for. */
static enum ipc_type next_step(enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return IPC_CM_CONNECT;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return IPC_CM_ACCEPT;
	default:
		return 0;
	}
}

bool rcm_event_deliver(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	if (!handlers[msg->event](event, msg))
		return false;
	rcm_id_set_next(rcm_id_of(event->pub.id), next_step(event->pub.event));
	return true;
}
