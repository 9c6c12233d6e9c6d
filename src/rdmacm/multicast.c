/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/multicast.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "rdmacm/event.h"
#include "rdmacm/public.h"

struct rcm_membership *rcm_membership_find(struct rcm_id *id, uint64_t cookie)
{
	struct rcm_membership *membership;

	mutex_assert_locked(&id->lock);
	list_for_each_entry(membership, &id->memberships, node) {
		if (membership->cookie == cookie)
			return membership;
	}
	return NULL;
}

int rcm_membership_attach(struct rcm_id *id, struct rcm_membership *membership,
			  const union ibv_gid *group)
{
	int ret;

	membership->group = *group;
	if (!id->pub.qp || membership->sends_only)
		return 0;
	ret = -ibv_attach_mcast(id->pub.qp, group, 0);
	if (!ret)
		membership->qp = id->pub.qp;
	return ret;
}

/*
 * If the id's QP is no longer the attached one, the attached QP may have been destroyed and is not
 * accessed.
 */
static void detach(struct rcm_id *id, struct rcm_membership *membership)
{
	int ret;

	if (!membership->qp || membership->qp != id->pub.qp)
		return;
	ret = ibv_detach_mcast(membership->qp, &membership->group, 0);
	if (ret)
		log_debug("cannot detach the QP of id %u from its multicast group: %s", id->handle,
			  strerror(ret));
	membership->qp = NULL;
}

void rcm_membership_detach_all(struct rcm_id *id)
{
	struct rcm_membership *membership;

	list_for_each_entry(membership, &id->memberships, node)
		detach(id, membership);
}

void rcm_membership_free_all(struct rcm_id *id)
{
	struct rcm_membership *membership, *tmp;

	list_for_each_entry_safe(membership, tmp, &id->memberships, node) {
		list_del(&membership->node);
		free(membership);
	}
}

/*
 * The size of a group's address in bytes; 0: unsupported family. AF_IB (a GID) is supported only
 * for groups.
 */
static socklen_t group_bytes(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_IB)
		return sizeof(struct sockaddr_ib);
	return rcm_addr_bytes(addr);
}

/* Converts the group's address for the daemon: a GID becomes an IP address. */
static void multicast_set_group(struct sockaddr_storage *to, const struct sockaddr *addr,
				socklen_t addr_bytes)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)(const void *)addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	struct in6_addr gid;

	if (addr->sa_family != AF_IB) {
		memcpy(to, addr, addr_bytes);
		return;
	}
	memcpy(&gid, &ib->sib_addr, sizeof(gid));
	if (IN6_IS_ADDR_V4MAPPED(&gid)) {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, gid.s6_addr + 12, sizeof(in->sin_addr));
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_addr = gid;
	}
}

static struct rcm_membership *membership_new(struct rcm_id *id, const struct sockaddr *addr,
					     socklen_t addr_bytes, void *context)
{
	struct rcm_membership *membership = calloc(1, sizeof(*membership));

	if (!membership)
		return NULL;
	memcpy(&membership->addr, addr, addr_bytes);
	membership->context = context;
	/* Added before the request is sent: the event may be received before the reply. */
	pthread_mutex_lock(&id->lock);
	membership->cookie = ++id->last_membership;
	list_add(&membership->node, &id->memberships);
	pthread_mutex_unlock(&id->lock);
	return membership;
}

static void unlink_membership(struct rcm_id *id, struct rcm_membership *membership)
{
	pthread_mutex_lock(&id->lock);
	list_del(&membership->node);
	pthread_mutex_unlock(&id->lock);
}

static int join(struct rcm_id *id, const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct ipc_cm_join req = {.hdr.type = IPC_CM_JOIN, .id = id->handle, .join_flags = flags};
	socklen_t addr_bytes = group_bytes(addr);
	struct rcm_membership *membership;
	int ret;

	if (!addr_bytes)
		return -EINVAL;
	if (id->session->is_inherited)
		return -ENODEV;
	membership = membership_new(id, addr, addr_bytes, context);
	if (!membership)
		return -ENOMEM;
	membership->sends_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	req.cookie = membership->cookie;
	multicast_set_group(&req.addr, addr, addr_bytes);
	ret = rcm_id_request(id, &req, sizeof(req));
	if (!ret)
		return rcm_event_complete(id, RDMA_CM_EVENT_MULTICAST_JOIN);
	unlink_membership(id, membership);
	free(membership);
	return ret;
}

static int join_ex(struct rcm_id *id, const struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t wanted = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return -ENOTSUP;
	if ((attr->comp_mask & wanted) != wanted || !attr->addr ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join(id, attr->addr, attr->join_flags, context);
}

/* Removes the id's newest membership with that address from the list and returns it; NULL: none. */
static struct rcm_membership *multicast_take(struct rcm_id *id, const struct sockaddr *addr,
					     socklen_t addr_bytes)
{
	struct rcm_membership *membership, *taken = NULL;

	pthread_mutex_lock(&id->lock);
	list_for_each_entry(membership, &id->memberships, node) {
		if (!memcmp(&membership->addr, addr, addr_bytes)) {
			taken = membership;
			list_del(&taken->node);
			break;
		}
	}
	pthread_mutex_unlock(&id->lock);
	return taken;
}

/*
 * Drops the membership's unread events and waits until the application has acknowledged the others.
 */
static void settle_events(struct rcm_id *id, struct rcm_membership *membership)
{
	struct rcm_channel *channel = id->channel;

	pthread_mutex_lock(&channel->lock);
	channel->has_stale = true;
	rcm_event_trim(channel);
	pthread_mutex_unlock(&channel->lock);
	rcm_id_wait_acked(id, membership, "rdma_leave_multicast()");
}

static int leave(struct rcm_id *id, const struct sockaddr *addr)
{
	struct ipc_cm_leave req = {.hdr.type = IPC_CM_LEAVE, .id = id->handle};
	socklen_t addr_bytes = group_bytes(addr);
	struct rcm_membership *membership;
	int ret;

	if (!addr_bytes)
		return -EINVAL;
	if (id->session->is_inherited)
		return -ENODEV;
	membership = multicast_take(id, addr, addr_bytes);
	if (!membership)
		return -EADDRNOTAVAIL;
	/* For a synchronous id the library holds the last event. */
	if (id->is_sync && id->pub.event && rcm_event_of(id->pub.event)->membership == membership)
		rcm_id_release_event(id);
	req.cookie = membership->cookie;
	ret = rcm_id_request(id, &req, sizeof(req));
	settle_events(id, membership);
	detach(id, membership);
	free(membership);
	return ret;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	if (!id || !addr)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(join(rcm_id_of(id), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context));
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context)
{
	if (!id || !mc_join_attr)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(join_ex(rcm_id_of(id), mc_join_attr, context));
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (!id || !addr)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(leave(rcm_id_of(id), addr));
}
