/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PROBES_USER_H
#define USRDMA_DAEMON_PROBES_USER_H

#include <stdbool.h>

#include "base/probe_page.h"
#include "daemon/probes.h"
#include "daemon/rule_expiry.h"

/* One user's probe page. */
struct probes_user {
	struct list_head node; /* probes.users */
	struct user *user;
	struct rule_lease lease; /* of the rules */
	uid_t uid;
	int fd;
	struct probe_page *page; /* NULL: there is no memory for it, and fd is an empty file */
	uint32_t generation; /* the daemon's own number: the user's processes can write the page */
	uint32_t traced;     /* PROBE_PAGE_TRACE, PROBE_PAGE_PACKETS */
	bool has_rules;
	bool is_daemons;   /* the daemon applied rules of this user to its own points */
	unsigned int refs; /* sessions, and calls in progress */
	uint32_t notice;   /* number of the last change of which the engines are to be notified */
};

/*
 * The page of a user with one more reference; created if it does not exist. NULL and errno: ENOMEM,
 * or no descriptor.
 */
struct probes_user *probes_user_get(struct server *server, struct user *user);

/* Drops a reference. The entry of a user without references and rules is freed. */
void probes_user_put(struct server *server, struct probes_user *user);

/* Frees all entries, when no session is left. */
void probes_user_free_all(struct server *server);

/*
 * To be called after the user's rules or number of sessions have changed: the rules may be unused
 * from now on (rule_expiry.h).
 */
void probes_user_check_use(struct server *server, const struct user *user);

/* A lease of server.rule_expiry has ended: the rules end. */
void probes_rules_expire(struct rule_expiry *expiry, struct rule_lease *lease);

/* Changes the generation only: clients without a ring ask for one again. */
void probes_user_touch(struct probes_user *user);

/* Sets the flags of the page. Returns whether they changed. */
bool probes_user_set_traced(struct probes_user *user, uint32_t flags);

/*
 * Reads the rules from a sealed memfd, checks them, and writes them to the page. Rules of the
 * daemon's user apply to all objects that pass the daemon's points, those of others to the objects
 * of the user. 0; -EINVAL: not a sealed memfd, or invalid rules; -E2BIG; -ENOMEM; -EDQUOT:
 * PROBES_RULE_USERS_MAX other users have rules; -EOPNOTSUPP: rules for `process`, and the daemon
 * may not send signals to processes of this user.
 */
int probes_user_set_rules(struct server *server, struct probes_user *user, int fd);

#endif
