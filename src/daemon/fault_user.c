/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_user.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault_set.h"
#include "base/list.h"

#define WHY_BYTES 128

/* The rules of one user. */
struct fault_user {
	struct list_head node;
	uid_t uid;
	struct fault_set *set;
	struct fault_counter *counters;
};

static struct list_head fault_users = LIST_HEAD_INIT(fault_users);

static struct fault_user *fault_user_find(uid_t uid)
{
	struct fault_user *user;

	list_for_each_entry(user, &fault_users, node) {
		if (user->uid == uid)
			return user;
	}
	return NULL;
}

static void fault_user_free(struct fault_user *user)
{
	list_del(&user->node);
	fault_set_free(user->set);
	free(user);
	if (list_is_empty(&fault_users))
		fault_hold(false);
}

/* Adds a user without rules. NULL: out of memory. */
static struct fault_user *fault_user_new(uid_t uid)
{
	struct fault_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->uid = uid;
	list_add_tail(&user->node, &fault_users);
	fault_hold(true);
	return user;
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
	fault_set_free(user->set);
	user->set = set;
	user->counters = counters;
	return 0;
}

void fault_user_remove_all(void)
{
	while (!list_is_empty(&fault_users))
		fault_user_free(list_first_entry(&fault_users, struct fault_user, node));
}

bool fault_user_has_point(enum fault_point point)
{
	const struct fault_user *user;

	list_for_each_entry(user, &fault_users, node) {
		const struct fault_rules *rules = fault_set_rules(user->set);

		for (int i = 0; i < rules->count; i++) {
			if (rules->rules[i].points >> point & 1)
				return true;
		}
	}
	return fault_has_point(point);
}

bool fault_user_next(unsigned int *cursor, uid_t *uid)
{
	const struct fault_user *user;
	unsigned int i = 0;

	list_for_each_entry(user, &fault_users, node) {
		if (i++ != *cursor)
			continue;
		*cursor += 1;
		*uid = user->uid;
		return true;
	}
	return false;
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
