/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/librdmacm_calls.h"
#include "base/util.h"
#include "rdmacm/connect.h"
#include "rdmacm/event.h"
#include "rdmacm/migrate.h"
#include "rdmacm/multicast.h"
#include "rdmacm/qp.h"

/*
 * The handlers of the event types. A handler runs without a lock in the thread that received the
 * event. The event is already in its id's unacked list, so the id cannot be destroyed. A handler
 * may change the event and returns whether the event is reported to the application.
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

/*
 * Whether the id needs RoCEv2 even for a peer on this host. For other hosts the daemon checks that
 * RoCEv2 is available.
 */
static bool needs_wire(const struct rcm_id *id)
{
	const char *transport = secure_getenv("USRDMA_TRANSPORT");

	return (transport && !strcmp(transport, "roce")) || id->pub.qp_type == IBV_QPT_XRC_SEND;
}

static bool on_route_resolved(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	uint32_t wire_errno = id->session->client.hello.wire_errno;
	int ret = rcm_id_set_route(id, &msg->route);

	if (!ret && wire_errno && needs_wire(id)) {
		ipc_explain_wire(wire_errno);
		ret = -EHOSTUNREACH;
	}
	if (ret)
		fail_as(event, RDMA_CM_EVENT_ROUTE_ERROR, ret);
	return true;
}

/*
 * Reports the event. If the peer is unreachable because UDP port 4791 could not be bound, also
 * prints that cause.
 */
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
 * Sets the route and the requested parameters of the new id, which event.c has created and added to
 * the channel.
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
	log_error("a connection request is rejected: %s", strerror(-ret));
	rcm_id_destroy(id);
	return false;
}

/*
 * If the id has a QP, the library completes the connection and reports only ESTABLISHED or
 * CONNECT_ERROR.
 */
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
	rcm_id_step(id, RCM_IN_NOT_COMPLETED);
	return true;
}

/* The connection failed: moves the QP to ERR, which flushes its WRs. */
static bool on_refused(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	int ret;

	(void)msg;
	rcm_qp_hold(id);
	ret = rcm_qp_to_err(id);
	rcm_qp_release(id);
	if (ret)
		log_warn("cannot move the QP of rejected id %u to ERR: %s", id->handle,
			 strerror(-ret));
	return true;
}

/*
 * For a UD id, on the side that sent the SIDR_REQ: sets the address vector for sends to the
 * service.
 */
static bool deliver_on_established(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);

	(void)msg;
	if (rcm_id_is_datagram(id))
		rcm_qp_path(id, &id->route, &event->pub.param.ud.ah_attr);
	return true;
}

/*
 * The peer's ACKs arrived before its DREQ. A NIC has written their completions before the
 * application gets the event, and programs poll a last time before they destroy the QP.
 */
static bool deliver_on_disconnected(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct ibv_context *context = event->pub.id->verbs;

	(void)msg;
	if (context)
		usrdma_catch_up(context);
	return true;
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

static void deliver_set_group(const struct rcm_event *event, const struct ipc_cm_event *msg,
			      struct rdma_ud_param *param)
{
	const struct rcm_id *id = rcm_id_of(event->pub.id);

	memset(param, 0, sizeof(*param));
	param->private_data = event->membership->context;
	param->qp_num = msg->param.qp_num;
	param->qkey = msg->param.qkey;
	rcm_qp_path(id, &msg->route, &param->ah_attr);
}

/* The context of the join is reported as private_data of the event (rdma_join_multicast(3)). */
static bool on_multicast_join(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);
	struct rdma_ud_param *param = &event->pub.param.ud;
	int ret;

	if (!event->membership)
		return false;
	deliver_set_group(event, msg, param);
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
	deliver_set_group(event, msg, &event->pub.param.ud);
	return true;
}

/* The daemon does not push events of this type. */
static bool on_nonsense(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	(void)msg;
	log_error("the daemon sent an unexpected event %s", rdma_event_str(event->pub.event));
	return false;
}

static bool deliver_on_changes(struct rcm_event *event, const struct ipc_cm_event *msg)
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
	[RDMA_CM_EVENT_ESTABLISHED] = deliver_on_established,
	[RDMA_CM_EVENT_DISCONNECTED] = deliver_on_disconnected,
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = deliver_on_changes,
	[RDMA_CM_EVENT_MULTICAST_JOIN] = on_multicast_join,
	[RDMA_CM_EVENT_MULTICAST_ERROR] = on_multicast_error,
	[RDMA_CM_EVENT_ADDR_CHANGE] = deliver_on_changes,
	[RDMA_CM_EVENT_TIMEWAIT_EXIT] = deliver_on_changes,
	[RDMA_CM_EVENT_ADDRINFO_RESOLVED] = on_addrinfo,
	[RDMA_CM_EVENT_ADDRINFO_ERROR] = on_addrinfo,
	[RDMA_CM_EVENT_USER] = on_user,
	[RDMA_CM_EVENT_INTERNAL] = on_nonsense,
};
static_assert(COUNT(handlers) == RDMA_CM_EVENT_INTERNAL + 1, "one function per event");

/* The request that the id's state in the daemon permits after this event. */
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

static enum rcm_input input_of(uint32_t event)
{
	switch (event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return RCM_IN_EVENT_CONNECT_REQUEST;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return RCM_IN_EVENT_CONNECT_ERROR;
	case RDMA_CM_EVENT_REJECTED:
		return RCM_IN_EVENT_REJECTED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return RCM_IN_EVENT_UNREACHABLE;
	case RDMA_CM_EVENT_DISCONNECTED:
		return RCM_IN_EVENT_DISCONNECTED;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return RCM_IN_EVENT_TIMEWAIT_EXIT;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return RCM_IN_EVENT_DEVICE_REMOVAL;
	default:
		return RCM_IN_EVENT_OTHER;
	}
}

bool rcm_event_deliver(struct rcm_event *event, const struct ipc_cm_event *msg)
{
	struct rcm_id *id = rcm_id_of(event->pub.id);

	if (rcm_id_step(id, input_of(msg->event)) == RCM_ACTION_CONCEAL ||
	    !handlers[msg->event](event, msg))
		return false;
	rcm_id_set_next(id, next_step(event->pub.event));
	return true;
}
