/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/context.h"
#include "core/device.h"
#include "core/transport.h"
#include "wire/gid.h"

/* A group on an interface. Made by its first member, dies with its last. */
struct mcast_group {
	struct hash_node node;	  /* mcast.groups */
	struct list_head members; /* struct member.group_node */
	const struct transport *transport;
	unsigned int member_count;
	uint32_t ifindex;
	union ibv_gid gid;
};

/* One QP in one group. */
struct member {
	struct list_head group_node;
	struct list_head qp_node; /* qp.memberships */
	struct mcast_group *group;
	struct qp *qp;
};

/* The engine's: there while it has a group. */
struct mcast {
	struct hash groups;
	unsigned int attached;
};

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

/* The first transport that can, of those that may, brings in what is sent to the group. */
static int group_join(struct engine *engine, struct mcast_group *group)
{
	for (size_t i = 0; transports[i]; i++) {
		int ret;

		if (!transports[i]->join || !transport_is_chosen(engine, transports[i]))
			continue;
		ret = transports[i]->join(engine, group->ifindex, &group->gid);
		if (!ret)
			group->transport = transports[i];
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

static void group_drop(struct engine *engine, struct mcast_group *group)
{
	if (group->transport)
		group->transport->leave(engine, group->ifindex, &group->gid);
	hash_del(&engine->mcast->groups, &group->node);
	free(group);
	mcast_drop_empty(engine);
}

static struct member *member_find(const struct qp *qp, const struct mcast_group *group)
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
	if (--group->member_count == 0)
		group_drop(engine, group);
}

static uint32_t interface_of(const struct qp *qp)
{
	return (uint32_t)ibv_get_device_index(&qp->context->device->pub);
}

int mcast_attach(struct qp *qp, const union ibv_gid *gid)
{
	struct engine *engine = qp->context->engine;
	uint32_t ifindex = interface_of(qp);
	struct mcast_group *group;
	int ret;

	if (qp->type != IBV_QPT_UD || !gid_is_multicast(gid->raw))
		return -EINVAL;
	ret = mcast_make(engine);
	if (ret)
		return ret;
	group = group_find(engine, ifindex, gid->raw);
	if (group && member_find(qp, group))
		return 0;
	if (!group) {
		ret = group_make(engine, ifindex, gid, &group);
		if (ret)
			goto err_group;
	}
	ret = member_add(engine->mcast, group, qp);
	if (ret && !group->member_count)
		group_drop(engine, group);
	return ret;

err_group:
	mcast_drop_empty(engine);
	return ret;
}

int mcast_detach(struct qp *qp, const union ibv_gid *gid)
{
	struct engine *engine = qp->context->engine;
	struct mcast_group *group = group_find(engine, interface_of(qp), gid->raw);
	struct member *member = group ? member_find(qp, group) : NULL;

	if (!member)
		return -EINVAL;
	member_drop(engine, member);
	return 0;
}

bool mcast_is_attached(const struct qp *qp)
{
	return !list_is_empty(&qp->memberships);
}

void mcast_forget(struct qp *qp)
{
	while (mcast_is_attached(qp)) {
		struct member *member = list_first_entry(&qp->memberships, struct member, qp_node);

		member->group->transport = NULL;
		member_drop(qp->context->engine, member);
	}
}

static bool device_has_gid(struct device *device, const uint8_t gid[GID_BYTES])
{
	struct ipc_gid entry;

	for (uint32_t i = 0; i < GID_TABLE_LEN; i++) {
		if (!device_gid(device, i, &entry) && !memcmp(entry.raw, gid, GID_BYTES))
			return true;
	}
	return false;
}

/* The QP sent it itself, and does not want to hear that. Another host's QP may have the same number. */
static bool is_unwanted_echo(const struct qp *qp, const struct mcast_origin *origin)
{
	return qp->blocks_echo && qp->qpn == origin->src_qpn &&
	       device_has_gid(qp->context->device, origin->source);
}

unsigned int mcast_for_each(struct engine *engine, const struct mcast_origin *origin,
			    void (*hear)(struct qp *qp, void *arg), void *arg)
{
	const struct mcast_group *group = group_find(engine, origin->ifindex, origin->group);
	struct member *member;
	unsigned int count = 0;

	if (!group)
		return 0;
	list_for_each_entry(member, &group->members, group_node) {
		if (is_unwanted_echo(member->qp, origin))
			continue;
		hear(member->qp, arg);
		count++;
	}
	return count;
}

int ibv_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret;

	/* RoCE has no LIDs. */
	(void)lid;
	engine_lock(engine);
	ret = engine_usable(engine);
	if (!ret) {
		/* The socket that joins may still lie there, lent and not yet taken. */
		engine_take_notices(engine);
		ret = mcast_attach(qp, gid);
	}
	engine_unlock(engine);
	return -ret;
}

int ibv_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct qp *qp = to_qp(ibqp);
	struct engine *engine = qp->context->engine;
	int ret;

	(void)lid;
	engine_lock(engine);
	ret = engine->is_orphan ? -EIO : mcast_detach(qp, gid);
	engine_unlock(engine);
	return -ret;
}
