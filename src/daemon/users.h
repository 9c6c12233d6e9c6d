/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_USERS_H
#define USRDMA_DAEMON_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "daemon/fair_queue.h"

struct probes_user;

/*
 * A walk over a list that is interrupted after each piece of work. A node that is removed during
 * the walk must be announced by user_walk_skip(); nodes that are added to the end of the list are
 * visited.
 */
struct user_walk {
	struct list_head *next; /* NULL: the walk has ended */
};

void user_walk_begin(struct user_walk *walk, struct list_head *list);

/* The next node; NULL: the end of the list, and the walk has ended. */
struct list_head *user_walk_next(struct user_walk *walk, const struct list_head *list);

/* The node is about to be removed from the list. */
void user_walk_skip(struct user_walk *walk, const struct list_head *node);

/* What is left of the user's pass of the periodic fault points (fault_tick.c). */
struct fault_tick_pass {
	bool has_devices;
	struct user_walk processes;
	struct user_walk clients; /* sessions of the communication manager */
	uint32_t ids_left;	  /* ids of the client before clients.next */
	struct session *client;	  /* NULL: no client has ids left */
};

/*
 * A user with sessions or with fault rules. It has a share of the daemon's time (turns.h). Freed
 * when no session, no rule and no call in progress refers to it. One thread.
 */
struct user {
	struct hash_node by_uid;
	struct list_head node; /* users.list */
	uid_t uid;
	unsigned int refs;
	uint32_t session_count;
	uint32_t slot_count;
	uint32_t descriptor_count;  /* sum of session.descriptor_count */
	struct list_head sessions;  /* struct session, by of_user */
	struct list_head ready;	    /* struct session: its socket may have messages */
	struct list_head processes; /* struct fault_process */
	struct fair_flow flow;
	struct probes_user *probes; /* NULL: no session had a HELLO, and there are no rules */
	/* sessions that may need a notice of their probe page, or a ring */
	struct user_walk notices;
	struct fault_tick_pass pass;
};

/* Part of struct server. */
struct users {
	struct hash by_uid;
	struct list_head list;
	uint64_t secret; /* users may choose their uids, but not those that have one hash */
};

/* 0 or -errno. */
int users_open(struct users *users) __attribute__((warn_unused_result));

/* When no user is left. */
void users_close(struct users *users);

/* The user with one more reference; created if it does not exist. NULL: out of memory. */
struct user *users_get(struct users *users, uid_t uid);
void users_put(struct users *users, struct user *user);

/* The user without a new reference; NULL: not found. */
struct user *users_find(const struct users *users, uid_t uid);

#endif
