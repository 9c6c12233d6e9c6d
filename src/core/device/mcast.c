/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/librdmacm_calls.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/report/call_failed.h"
#include "wire/gid.h"

/*
 * The membership of the daemon's socket in one multicast group, if the daemon owns the socket that
 * receives for this engine (IPC_RING). The daemon processes the requests of an engine in the order
 * in which they are sent. A join and the leave that follows it are therefore decided under
 * engine.lock, and a leave is sent before every later join (engine_send_in_order()).
 */
struct mcast_daemon {
	/*
	 * Held over the request to join, so that each group is requested once. No lock of the
	 * engine is acquired or held by a thread that waits for it or holds it.
	 */
	pthread_mutex_t lock;
	bool is_joined;		  /* guarded by `lock` */
	struct ipc_queued *leave; /* memory of the request to leave, which therefore cannot fail */
};

/*
 * A group on an interface. Created with its first member, freed with its last; not while a thread
 * waits for the daemon to join (joiners). engine.lock guards all fields except those of `daemon`.
 */
struct mcast_group {
	struct hash_node node;		   /* mcast.groups */
	struct list_head members;	   /* struct member.group_node */
	const struct transport *transport; /* that joined the group; NULL: none */
	bool is_of_daemon;		   /* the daemon's socket joins the group, no transport */
	bool has_daemon_joined;
	struct mcast_daemon daemon; /* if is_of_daemon */
	unsigned int joiners;	    /* threads in mcast_daemon_join() */
	unsigned int member_count;
	uint32_t ifindex;
	union ibv_gid gid;
};

/* The membership of one QP in one group. */
struct member {
	struct list_head group_node;
	struct list_head qp_node; /* qp.memberships */
	struct mcast_group *group;
	struct qp *qp;
};

/* The engine's multicast state; exists while there is a group. */
struct mcast {
	struct hash groups;
	unsigned int attached;
};

/* 0 or -ENOMEM. */
static int mcast_daemon_init(struct mcast_daemon *membership)
{
	membership->leave = malloc(sizeof(*membership->leave));
	if (!membership->leave)
		return -ENOMEM;
	pthread_mutex_init(&membership->lock, NULL);
	membership->is_joined = false;
	return 0;
}

static void mcast_daemon_fini(struct mcast_daemon *membership)
{
	free(membership->leave);
	pthread_mutex_destroy(&membership->lock);
}

static struct ipc_group mcast_daemon_request(uint16_t type, uint32_t ifindex,
					     const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = {.hdr.type = type, .ifindex = ifindex};

	memcpy(request.gid, gid, GID_BYTES);
	return request;
}

/*
 * Waits for the daemon's reply unless the socket is a member already. Called without engine.lock.
 * 0, the -errno of IPC_GROUP_JOIN, or -EIO as engine_call().
 */
static int mcast_daemon_join(struct engine *engine, struct mcast_daemon *membership,
			     uint32_t ifindex, const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = mcast_daemon_request(IPC_GROUP_JOIN, ifindex, gid);
	struct ipc_reply reply;
	int ret = 0;

	engine_assert_unlocked(engine);
	pthread_mutex_lock(&membership->lock);
	if (!membership->is_joined)
		ret = engine_call(engine, &request, sizeof(request), -1, &reply, sizeof(reply));
	membership->is_joined = !ret;
	pthread_mutex_unlock(&membership->lock);
	return ret;
}

/* To be called once after a join. Never blocks. engine.lock held. */
static void mcast_daemon_leave(struct engine *engine, struct mcast_daemon *membership,
			       uint32_t ifindex, const uint8_t gid[GID_BYTES])
{
	struct ipc_group request = mcast_daemon_request(IPC_GROUP_LEAVE, ifindex, gid);

	engine_assert_locked(engine);
	engine_send_in_order(engine, &request, sizeof(request), membership->leave);
	membership->leave = NULL;
}

static int mcast_make(struct engine *engine)
{
	struct mcast *mcast;
	int ret;

	if (engine->mcast)
		return 0;
	mcast = calloc(1, sizeof(*mcast));
	if (!mcast)
		return -ENOMEM;
	ret = hash_init(&mcast->groups);
	if (ret)
		free(mcast);
	else
		engine->mcast = mcast;
	return ret;
}

static void mcast_drop_empty(struct engine *engine)
{
	struct mcast *mcast = engine->mcast;

	if (mcast->groups.count)
		return;
	hash_fini(&mcast->groups);
	free(mcast);
	engine->mcast = NULL;
}

static uint64_t group_hash(uint32_t ifindex, const uint8_t gid[GID_BYTES])
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	return hash_mix(hash_mix(hash_mix(ifindex, words[0]), words[1]), 0);
}

static struct mcast_group *group_find(const struct engine *engine, uint32_t ifindex,
				      const uint8_t gid[GID_BYTES])
{
	struct hash_node *node;

	if (!engine->mcast)
		return NULL;
	hash_for_each(node, &engine->mcast->groups, group_hash(ifindex, gid))
	{
		struct mcast_group *group = container_of(node, struct mcast_group, node);

		if (group->ifindex == ifindex && !memcmp(group->gid.raw, gid, GID_BYTES))
			return group;
	}
	return NULL;
}

/*
 * Joins the group with the first permitted transport that supports multicast. If the daemon owns
 * the receiving socket, the group is prepared for await_daemon().
 */
static int group_join(struct engine *engine, struct mcast_group *group)
{
	for (size_t i = 0; transports[i]; i++) {
		int ret;

		if (!transports[i]->join || !transport_is_chosen(engine, transports[i]))
			continue;
		ret = transports[i]->join(engine, group->ifindex, &group->gid);
		if (!ret)
			group->transport = transports[i];
		if (ret == -EREMOTE) {
			group->is_of_daemon = true;
			return mcast_daemon_init(&group->daemon);
		}
		if (ret != -EOPNOTSUPP)
			return ret;
	}
	return -EOPNOTSUPP;
}

static int group_make(struct engine *engine, uint32_t ifindex, const union ibv_gid *gid,
		      struct mcast_group **made)
{
	struct mcast_group *group;
	int ret;

	if (engine->mcast->groups.count >= MAX_MCAST_GROUPS)
		return -ENOMEM;
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	list_init(&group->members);
	group->ifindex = ifindex;
	group->gid = *gid;
	ret = group_join(engine, group);
	if (ret) {
		free(group);
		return ret;
	}
	hash_add(&engine->mcast->groups, &group->node, group_hash(ifindex, gid->raw));
	*made = group;
	return 0;
}

/* Leaves and frees the group if no QP is attached and no thread attaches one. */
static void group_drop_unused(struct engine *engine, struct mcast_group *group)
{
	if (group->member_count || group->joiners)
		return;
	if (group->transport)
		group->transport->leave(engine, group->ifindex, &group->gid);
	if (group->has_daemon_joined)
		mcast_daemon_leave(engine, &group->daemon, group->ifindex, group->gid.raw);
	if (group->is_of_daemon)
		mcast_daemon_fini(&group->daemon);
	hash_del(&engine->mcast->groups, &group->node);
	free(group);
	mcast_drop_empty(engine);
}

static struct member *mcast_member_find(const struct qp *qp, const struct mcast_group *group)
{
	struct member *member;

	list_for_each_entry(member, &qp->memberships, qp_node) {
		if (member->group == group)
			return member;
	}
	return NULL;
}

static int member_add(struct mcast *mcast, struct mcast_group *group, struct qp *qp)
{
	struct member *member;

	if (group->member_count >= MAX_MCAST_GROUP_QPS || mcast->attached >= MAX_MCAST_ATTACHED)
		return -ENOMEM;
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->group = group;
	member->qp = qp;
	list_add_tail(&member->group_node, &group->members);
	list_add_tail(&member->qp_node, &qp->memberships);
	group->member_count++;
	mcast->attached++;
	return 0;
}

static void member_drop(struct engine *engine, struct member *member)
{
	struct mcast_group *group = member->group;

	list_del(&member->group_node);
	list_del(&member->qp_node);
	free(member);
	engine->mcast->attached--;
	group->member_count--;
	group_drop_unused(engine, group);
}

static uint32_t interface_of(const struct qp *qp)
{
	return usrdma_device_id(&qp->context->device->pub);
}

/* Finds the group, or creates it. */
static int group_get(struct engine *engine, uint32_t ifindex, const union ibv_gid *gid,
		     struct mcast_group **found)
{
	int ret = mcast_make(engine);

	if (ret)
		return ret;
	*found = group_find(engine, ifindex, gid->raw);
	if (*found)
		return 0;
	ret = group_make(engine, ifindex, gid, found);
	if (ret)
		mcast_drop_empty(engine);
	return ret;
}

/*
 * Waits until the daemon has joined the group. All locks held, once: the wait releases them. The QP
 * cannot be destroyed while this thread waits.
 */
static int await_daemon(struct engine *engine, struct mcast_group *group, struct qp *qp)
{
	int ret;

	engine_assert_once_locked(engine);
	group->joiners++;
	qp->attaching++;
	engine_unlock(engine);
	ret = mcast_daemon_join(engine, &group->daemon, group->ifindex, group->gid.raw);
	engine_lock(engine);
	qp->attaching--;
	group->joiners--;
	if (!ret)
		group->has_daemon_joined = true;
	/* The notifications may report that the connection to the daemon is lost. */
	engine_take_notices(engine);
	return engine_usable(engine) ? -EIO : ret;
}

int mcast_attach(struct qp *qp, const union ibv_gid *gid)
{
	struct engine *engine = qp->context->engine;
	struct mcast_group *group;
	int ret;

	engine_assert_locked(qp->context->engine);
	if (qp->type != IBV_QPT_UD || !gid_is_multicast(gid->raw))
		return -EINVAL;
	ret = group_get(engine, interface_of(qp), gid, &group);
	if (ret)
		return ret;
	if (group->is_of_daemon && !group->has_daemon_joined)
		ret = await_daemon(engine, group, qp);
	if (!ret && !mcast_member_find(qp, group))
		ret = member_add(engine->mcast, group, qp);
	group_drop_unused(engine, group);
	return ret;
}

int mcast_detach(struct qp *qp, const union ibv_gid *gid)
{
	struct engine *engine = qp->context->engine;
	struct mcast_group *group = group_find(engine, interface_of(qp), gid->raw);
	struct member *member = group ? mcast_member_find(qp, group) : NULL;

	engine_assert_locked(qp->context->engine);
	if (!member)
		return -EINVAL;
	member_drop(engine, member);
	return 0;
}

bool mcast_is_attached(const struct qp *qp)
{
	engine_assert_locked(qp->context->engine);
	return !list_is_empty(&qp->memberships) || qp->attaching;
}

void mcast_forget(struct qp *qp)
{
	engine_assert_locked(qp->context->engine);
	while (!list_is_empty(&qp->memberships)) {
		struct member *member = list_first_entry(&qp->memberships, struct member, qp_node);

		member->group->transport = NULL;
		member->group->has_daemon_joined = false;
		member_drop(qp->context->engine, member);
	}
}

/*
 * Whether the QP sent the datagram itself and blocks its own multicasts. A QP of another host may
 * have the same number, so the source address is compared, too.
 */
static bool is_unwanted_echo(const struct qp *qp, const struct mcast_origin *origin)
{
	return qp->blocks_echo && qp->qpn == origin->src_qpn &&
	       device_gid_index(qp->context->device, origin->source) >= 0;
}

unsigned int mcast_for_each(struct engine *engine, const struct mcast_origin *origin,
			    void (*deliver)(struct qp *qp, void *arg), void *arg)
{
	const struct mcast_group *group = group_find(engine, origin->ifindex, origin->group);
	struct member *member;
	unsigned int count = 0;

	engine_assert_locked(engine);
	if (!group)
		return 0;
	list_for_each_entry(member, &group->members, group_node) {
		if (is_unwanted_echo(member->qp, origin))
			continue;
		deliver(member->qp, arg);
		count++;
	}
	return count;
}

int ibv_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	/* RoCE has no LIDs. */
	(void)lid;
	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret) {
		/*
		 * The delegated receive socket, which is needed to join, may be in the unread
		 * notifications.
		 */
		engine_take_notices(engine);
		ret = mcast_attach(qp, gid);
	}
	engine_unlock(engine);
	return call_result(qp->context, __func__, ret);
}

int ibv_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	(void)lid;
	engine_lock(engine);
	ret = engine->is_orphan ? -EIO : mcast_detach(qp, gid);
	engine_unlock(engine);
	return call_result(qp->context, __func__, ret);
}
