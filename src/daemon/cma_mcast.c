/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cma_priv.h"
#include "daemon/fault_device.h"

/*
 * Multicast groups of datagram ids. The daemon only reports how a group is reached from the id's
 * device. The host joins the group (IGMP or MLD) when the library attaches a QP and the process's
 * socket joins.
 */

#define MULTICAST_QPN 0xffffffu
#define HOP_LIMIT     64

static struct cma_membership *cma_mcast_find(const struct cma_id *id, uint64_t cookie)
{
	struct cma_membership *membership;

	list_for_each_entry(membership, &id->memberships, node) {
		if (membership->cookie == cookie)
			return membership;
	}
	return NULL;
}

static void cma_mcast_drop(struct cma_id *id, struct cma_membership *membership)
{
	list_del(&membership->node);
	id->membership_count--;
	free(membership);
}

/* The address must be a multicast group of the family of the id's local address. */
static int check_group(const struct cma_id *id, const struct ipc_cm_join *req,
		       uint8_t group[GID_BYTES])
{
	if (!gid_from_sockaddr(group, (const struct sockaddr *)&req->addr) ||
	    !gid_is_multicast(group))
		return -EINVAL;
	return gid_is_ipv4(group) == gid_is_ipv4(id->route.sgid) ? 0 : -EINVAL;
}

static int cma_mcast_check(const struct cma_id *id, const struct ipc_cm_join *req)
{
	if (!cma_is_datagram(id) || !id->route.dev_id || !req->cookie ||
	    cma_mcast_find(id, req->cookie) || req->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return id->membership_count < CMA_MEMBERSHIPS_PER_ID ? 0 : -EDQUOT;
}

/*
 * Queues MULTICAST_JOIN with the path to the group, or MULTICAST_ERROR if the device is down or was
 * removed.
 */
static void cma_mcast_notify(struct cma_id *id, const struct cma_membership *membership)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);
	struct ipc_cm_event event = {
		.event = RDMA_CM_EVENT_MULTICAST_JOIN,
		.join_cookie = membership->cookie,
		.route = id->route,
		.param = {.qp_num = MULTICAST_QPN, .qkey = RDMA_UDP_QKEY, .qp_type = IBV_QPT_UD},
	};

	if (!dev || !fault_device_is_active(dev, id->client->peer.uid)) {
		event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event.status = dev ? -ENETDOWN : -ENODEV;
	}
	memcpy(event.route.dgid, membership->group, GID_BYTES);
	event.route.flow_label = 0;
	event.route.hop_limit = HOP_LIMIT;
	event.route.traffic_class = id->has_tos ? id->tos : 0;
	event.route.sl = 0;
	event.route.rate = IBV_RATE_MAX;
	cma_event_push(id, id, &event);
}

int cma_join(struct cma_id *id, const struct ipc_cm_join *req)
{
	struct cma_membership *membership;
	uint8_t group[GID_BYTES];
	int ret = cma_mcast_check(id, req);

	if (!ret)
		ret = check_group(id, req, group);
	if (ret)
		return ret;
	membership = calloc(1, sizeof(*membership));
	if (!membership)
		return -ENOMEM;
	membership->cookie = req->cookie;
	membership->sends_only = req->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	memcpy(membership->group, group, GID_BYTES);
	list_add_tail(&membership->node, &id->memberships);
	id->membership_count++;
	cma_mcast_notify(id, membership);
	return 0;
}

void cma_mcast_down(struct cma_id *id)
{
	struct cma_membership *membership;

	list_for_each_entry(membership, &id->memberships, node) {
		if (!cma_client_is_unresponsive(id->client, 1))
			cma_mcast_notify(id, membership);
	}
}

int cma_leave(struct cma_id *id, uint64_t cookie)
{
	struct cma_membership *membership = cma_mcast_find(id, cookie);

	if (!membership)
		return -EADDRNOTAVAIL;
	cma_event_purge_join(id, cookie);
	cma_mcast_drop(id, membership);
	return 0;
}

void cma_leave_all(struct cma_id *id)
{
	while (!list_is_empty(&id->memberships))
		cma_mcast_drop(id, list_first_entry(&id->memberships, struct cma_membership, node));
}
