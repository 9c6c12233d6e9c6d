/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/users.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void user_walk_begin(struct user_walk *walk, struct list_head *list)
{
	walk->next = list->next;
}

struct list_head *user_walk_next(struct user_walk *walk, const struct list_head *list)
{
	struct list_head *node = walk->next;

	if (!node || node == list) {
		walk->next = NULL;
		return NULL;
	}
	walk->next = node->next;
	return node;
}

void user_walk_skip(struct user_walk *walk, const struct list_head *node)
{
	if (walk->next == node)
		walk->next = node->next;
}

int users_open(struct users *users)
{
	*users = (struct users){.secret = 0};
	list_init(&users->list);
	if (getrandom(&users->secret, sizeof(users->secret), 0) != (ssize_t)sizeof(users->secret))
		return -EIO;
	return hash_init(&users->by_uid);
}

void users_close(struct users *users)
{
	hash_fini(&users->by_uid);
}

struct user *users_find(const struct users *users, uid_t uid)
{
	struct hash_node *node;

	hash_for_each(node, &users->by_uid, hash_mix(users->secret, uid))
	{
		struct user *user = container_of(node, struct user, by_uid);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

struct user *users_get(struct users *users, uid_t uid)
{
	struct user *user = users_find(users, uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->uid = uid;
		list_init(&user->sessions);
		list_init(&user->ready);
		list_init(&user->processes);
		fair_flow_init(&user->flow);
		list_add_tail(&user->node, &users->list);
		hash_add(&users->by_uid, &user->by_uid, hash_mix(users->secret, uid));
	}
	user->refs++;
	return user;
}

void users_put(struct users *users, struct user *user)
{
	if (--user->refs > 0)
		return;
	fair_queue_remove(&user->flow);
	hash_del(&users->by_uid, &user->by_uid);
	list_del(&user->node);
	free(user);
}
