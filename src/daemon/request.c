/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/request.h"

#include <errno.h>
#include <string.h>

#include "daemon/av.h"
#include "daemon/cma.h"
#include "daemon/control.h"
#include "daemon/fault_device.h"
#include "daemon/netdev.h"
#include "daemon/peers.h"
#include "daemon/xrcds.h"

/* The message and the reply of the request that a handler serves. */
#define MSG(type)   ((const struct type *)(const void *)request->msg)
#define REPLY(type) ((struct type *)(void *)request->reply)

static int handle_segment(struct session *session, struct request *request)
{
	int error = peers_publish(session, MSG(ipc_segment), request->fds, &request->reply_fd);

	if (!error)
		probes_published(session);
	return error;
}

static int handle_connect_peer(struct session *session, struct request *request)
{
	uint32_t slot = MSG(ipc_connect_peer)->slot;
	int error = peers_connect_peer(session, slot);

	if (error && (request->msg->hdr.flags & IPC_UNANSWERED))
		peers_connect_peer_failed(session, slot, error);
	return error;
}

static int handle_peer_not_taken(struct session *session, struct request *request)
{
	peers_part(session, MSG(ipc_peer_gone)->pair_id);
	return 0;
}

/*
 * The next device from the cursor on that no fault rule removes for the session's user; NULL: no
 * further device.
 */
static const struct netdev *next_device(const struct session *session, uint32_t cursor,
					uint32_t *next)
{
	const struct netdev *dev = netdev_from_cursor(cursor, next);

	while (dev && fault_device_is_removed(dev, session->cred.uid))
		dev = netdev_from_cursor(*next, next);
	return dev;
}

static int handle_device_get(struct session *session, struct request *request)
{
	struct ipc_device_reply *reply = REPLY(ipc_device_reply);
	const struct netdev *dev = next_device(session, MSG(ipc_device_get)->cursor,
					       &reply->next_cursor);

	if (!dev)
		return -ENOENT;
	reply->dev_id = dev->dev_id;
	reply->node_guid = dev->node_guid;
	reply->netdev_mtu_bytes = dev->mtu_bytes;
	reply->mtu_limit_bytes = dev->mtu_limit_bytes;
	reply->speed_mbps = dev->speed_mbps;
	reply->flags = (fault_device_is_active(dev, session->cred.uid) ? IPC_DEVICE_UP : 0u) |
		       (dev->is_loopback ? IPC_DEVICE_LOOPBACK : 0u);
	reply->gid_count = dev->gid_count;
	reply->node_type = dev->transport->node_type;
	reply->transport_type = dev->transport->transport_type;
	reply->link_layer = dev->transport->link_layer;
	reply->gid_type = dev->transport->gid_type;
	memcpy(reply->name, dev->name, sizeof(reply->name));
	memcpy(reply->gids, dev->gids, sizeof(reply->gids));
	return 0;
}

static int handle_status(struct session *session, struct request *request)
{
	return control_report_read(session, REPLY(ipc_status_reply));
}

static int handle_failure(struct session *session, struct request *request)
{
	return failures_add(&session->server->failures, MSG(ipc_failure), session->cred.pid,
			    session->cred.uid);
}

static int handle_failure_get(struct session *session, struct request *request)
{
	if (!MSG(ipc_failure_get)->cursor)
		cma_report_waiting(session->server->cma, session->cred.uid);
	return failures_read(&session->server->failures, MSG(ipc_failure_get)->cursor,
			     session->cred.uid, REPLY(ipc_failure_get_reply));
}

static int handle_xrcd_open(struct session *session, struct request *request)
{
	return xrcds_open(session, MSG(ipc_xrcd_open), request->fds[0],
			  &REPLY(ipc_xrcd_open_reply)->domain_id);
}

static int handle_xrcd_close(struct session *session, struct request *request)
{
	return xrcds_close(session, MSG(ipc_xrcd_close)->domain_id);
}

/*
 * The limit applies to all processes of a user together. It bounds the daemon's descriptors: the
 * kernel limits the memberships of one socket, so further memberships need extra sockets.
 */
static bool has_groups_left(const struct session *session)
{
	const struct server *server = session->server;
	const struct session *other;
	uint32_t count = 0;

	list_for_each_entry(other, &session->user->sessions, of_user)
		count += roce_forward_groups(&server->forward, other->slot);
	return count < IPC_GROUPS_MAX;
}

static int handle_group_join(struct session *session, struct request *request)
{
	const struct ipc_group *group = MSG(ipc_group);

	if (!has_groups_left(session))
		return -EDQUOT;
	return roce_forward_join(&session->server->forward, session->slot, group->ifindex,
				 group->gid);
}

static int handle_group_leave(struct session *session, struct request *request)
{
	const struct ipc_group *group = MSG(ipc_group);

	return roce_forward_leave(&session->server->forward, session->slot, group->ifindex,
				  group->gid);
}

static int handle_trace_ring(struct session *session, struct request *request)
{
	return probes_trace_ring(session, &request->reply_fd);
}

static int handle_trace_start(struct session *session, struct request *request)
{
	return probes_trace_start(session, MSG(ipc_trace_start));
}

static int handle_trace_next(struct session *session, struct request *request)
{
	return probes_trace_next(session, REPLY(ipc_trace_next_reply), &request->reply_fd);
}

static int handle_fault_set(struct session *session, struct request *request)
{
	return probes_fault_set(session, MSG(ipc_fault_set), request->fds[0]);
}

static int handle_fault_disconnect(struct session *session, struct request *request)
{
	uint32_t qpn = MSG(ipc_fault_disconnect)->qpn;

	if (qpn >> IPC_SLOT_SHIFT != session->slot)
		return -EPERM;
	return cma_fault_disconnect(session->server->cma, session->cred.uid, qpn);
}

static int handle_av_resolve(struct session *session, struct request *request)
{
	return av_resolve(session, MSG(ipc_av_resolve), REPLY(ipc_av_resolve_reply));
}

static bool may_sum(const struct session *session)
{
	const struct session *other;
	unsigned int sums = 0;

	list_for_each_entry(other, &session->user->sessions, of_user)
		sums += other->device_sum.slots != NULL;
	return sums < DEVICE_SUMS_UID_MAX;
}

static int handle_device_total(struct session *session, struct request *request)
{
	struct ipc_device_total_reply *reply = REPLY(ipc_device_total_reply);
	struct device_sum *sum = &session->device_sum;
	const struct netdev *dev = netdev_by_id(MSG(ipc_device_total)->dev_id);

	if (!dev || fault_device_is_removed(dev, session->cred.uid))
		return -ENODEV;
	if (!sum->slots) {
		if (!may_sum(session))
			return -EDQUOT;
		device_sum_begin(sum, &session->server->device_ended, &session->server->slots);
	}
	if (!device_sum_step(sum)) {
		reply->more = 1;
		return 0;
	}
	reply->total = device_sum_of(sum, dev->dev_id);
	device_sum_end(sum);
	return 0;
}

/* The requests that this file handles; cma_request() handles those of the communication manager. */
static request_handler *const handlers[IPC_TYPE_COUNT] = {
	[IPC_SEGMENT] = handle_segment,
	[IPC_DEVICE_GET] = handle_device_get,
	[IPC_CONNECT_PEER] = handle_connect_peer,
	[IPC_STATUS] = handle_status,
	[IPC_FAILURE] = handle_failure,
	[IPC_FAILURE_GET] = handle_failure_get,
	[IPC_XRCD_OPEN] = handle_xrcd_open,
	[IPC_XRCD_CLOSE] = handle_xrcd_close,
	[IPC_GROUP_JOIN] = handle_group_join,
	[IPC_GROUP_LEAVE] = handle_group_leave,
	[IPC_PEER_NOT_TAKEN] = handle_peer_not_taken,
	[IPC_TRACE_RING] = handle_trace_ring,
	[IPC_TRACE_START] = handle_trace_start,
	[IPC_TRACE_NEXT] = handle_trace_next,
	[IPC_FAULT_SET] = handle_fault_set,
	[IPC_FAULT_DISCONNECT] = handle_fault_disconnect,
	[IPC_AV_RESOLVE] = handle_av_resolve,
	[IPC_DEVICE_TOTAL] = handle_device_total,
};

request_handler *request_handler_of(uint32_t type)
{
	return type < IPC_TYPE_COUNT ? handlers[type] : NULL;
}
