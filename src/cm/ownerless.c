/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "cm/conn.h"

/*
 * Connections without an owner count in no limit of ids, and the client chooses how long they
 * remain: the timeout of a DREQ, and with the ACK timeout the length of timewait, 69 s at most.
 * Each user has CM_OWNERLESS_PER_USER of them. Above this, the user's oldest one ends early. It is
 * the one whose packets are least likely to be in flight.
 */

/* A user that has connections without an owner. Freed with the last of them. */
struct cm_user {
	struct hash_node node;
	uint32_t uid;
	uint32_t count;
	struct list_head conns; /* oldest first */
};

static uint64_t hash_uid(const struct cm *cm, uint32_t uid)
{
	return hash_mix(cm->secret, uid);
}

static struct cm_user *cm_user_find(const struct cm *cm, uint32_t uid)
{
	struct hash_node *node;

	hash_for_each(node, &cm->users, hash_uid(cm, uid))
	{
		struct cm_user *user = container_of(node, struct cm_user, node);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

static struct cm_user *cm_user_new(struct cm *cm, uint32_t uid)
{
	struct cm_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->uid = uid;
	list_init(&user->conns);
	hash_add(&cm->users, &user->node, hash_uid(cm, uid));
	return user;
}

/* Frees a connection, which is in DREQ_SENT or TIMEWAIT: cm_destroy() leaves no other state. */
static void ownerless_end(struct cm_conn *conn, uint64_t now_ns)
{
	bool is_last = conn->state == CM_STATE_TIMEWAIT;
	struct cm_step step = {.input = CM_IN_EXPIRED, .now_ns = now_ns};

	conn->cm->counters.shortened++;
	(void)cm_step(conn, &step);
	if (!is_last)
		(void)cm_step(conn, &step);
}

void cm_ownerless_add(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm *cm = conn->cm;
	struct cm_user *user;

	/* As in other limits, root is exempt. A connection without a tag belongs to no process. */
	if (!conn->tag.pid || !conn->tag.uid)
		return;
	user = cm_user_find(cm, conn->tag.uid);
	if (user && user->count == CM_OWNERLESS_PER_USER)
		ownerless_end(list_first_entry(&user->conns, struct cm_conn, of_user), now_ns);
	else if (!user)
		user = cm_user_new(cm, conn->tag.uid);
	/* Out of memory: the connection is not counted. */
	if (!user)
		return;
	conn->user = user;
	user->count++;
	list_add_tail(&conn->of_user, &user->conns);
}

void cm_ownerless_remove(struct cm_conn *conn)
{
	struct cm_user *user = conn->user;

	if (!user)
		return;
	conn->user = NULL;
	list_del(&conn->of_user);
	if (--user->count > 0)
		return;
	hash_del(&conn->cm->users, &user->node);
	free(user);
}
