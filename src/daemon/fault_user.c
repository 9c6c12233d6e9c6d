/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_user.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/fault_set.h"
#include "base/hash.h"
#include "base/list.h"

#define WHY_BYTES 128

/* The rules of one user. */
struct fault_user {
	struct hash_node by_uid;
	struct list_head node;	   /* fault_users */
	struct list_head periodic; /* periodic_users, if `points` has one of FAULT_TICK_POINTS */
	uid_t uid;
	uint32_t points;
	struct fault_set *set;
	struct fault_counter *counters;
};

static struct list_head fault_users = LIST_HEAD_INIT(fault_users);
static struct list_head periodic_users = LIST_HEAD_INIT(periodic_users);
/* Initialised while there are users. */
static struct hash users_by_uid;
/* Users may choose their uids, but not those that have one hash. */
static uint64_t uid_secret;

static struct fault_user *fault_user_find(uid_t uid)
{
	struct hash_node *node;

	if (list_is_empty(&fault_users))
		return NULL;
	hash_for_each(node, &users_by_uid, hash_mix(uid_secret, uid))
	{
		struct fault_user *user = container_of(node, struct fault_user, by_uid);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

static void fault_user_free(struct fault_user *user)
{
	list_del(&user->node);
	list_del(&user->periodic);
	hash_del(&users_by_uid, &user->by_uid);
	fault_set_free(user->set);
	free(user);
	if (!list_is_empty(&fault_users))
		return;
	hash_fini(&users_by_uid);
	fault_hold(false);
}

/* Adds a user without rules. NULL: out of memory. */
static struct fault_user *fault_user_new(uid_t uid)
{
	struct fault_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	if (list_is_empty(&fault_users)) {
		if (getrandom(&uid_secret, sizeof(uid_secret), 0) != (ssize_t)sizeof(uid_secret) ||
		    hash_init(&users_by_uid)) {
			free(user);
			return NULL;
		}
	}
	user->uid = uid;
	list_init(&user->periodic);
	list_add_tail(&user->node, &fault_users);
	hash_add(&users_by_uid, &user->by_uid, hash_mix(uid_secret, uid));
	fault_hold(true);
	return user;
}

static void fault_user_use(struct fault_user *user, struct fault_set *set)
{
	const struct fault_rules *rules = fault_set_rules(set);

	fault_set_free(user->set);
	user->set = set;
	user->points = 0;
	for (int i = 0; i < rules->count; i++)
		user->points |= rules->rules[i].points;
	list_del(&user->periodic);
	if (user->points & FAULT_TICK_POINTS)
		list_add_tail(&user->periodic, &periodic_users);
}

int fault_user_set(uid_t uid, const char *text, struct fault_counter *counters)
{
	struct fault_user *user = fault_user_find(uid);
	char why[WHY_BYTES];
	int error;
	struct fault_set *set = fault_set_new(text, 0, why, sizeof(why), &error);

	if (!set)
		return error;
	if (fault_set_rules(set)->count == 0) {
		fault_set_free(set);
		if (user)
			fault_user_free(user);
		return 0;
	}
	if (!user)
		user = fault_user_new(uid);
	if (!user) {
		fault_set_free(set);
		return -ENOMEM;
	}
	fault_user_use(user, set);
	user->counters = counters;
	return 0;
}

void fault_user_remove(uid_t uid)
{
	struct fault_user *user = fault_user_find(uid);

	if (user)
		fault_user_free(user);
}

void fault_user_remove_all(void)
{
	while (!list_is_empty(&fault_users))
		fault_user_free(list_first_entry(&fault_users, struct fault_user, node));
}

uint32_t fault_user_points(uid_t uid)
{
	const struct fault_user *user = uid == FAULT_NO_USER ? NULL : fault_user_find(uid);

	return user ? user->points : 0;
}

void fault_user_each_periodic(void (*fn)(void *ctx, uid_t uid, uint32_t points), void *ctx)
{
	const struct fault_user *user;

	list_for_each_entry(user, &periodic_users, periodic)
		fn(ctx, user->uid, user->points);
}

bool fault_user_has_periodic(void)
{
	return !list_is_empty(&periodic_users);
}

bool fault_user_own_due(uid_t uid, enum fault_point point, const struct fault_subject *subject,
			struct fault *fault)
{
	const struct fault_user *user = uid == FAULT_NO_USER ? NULL : fault_user_find(uid);

	return user && fault_decide_in(user->set, user->counters, point, subject, fault);
}

bool fault_user_decide(uid_t uid, enum fault_point point, const struct fault_subject *subject,
		       struct fault *fault)
{
	return fault_decide(point, subject, fault) ||
	       fault_user_own_due(uid, point, subject, fault);
}
