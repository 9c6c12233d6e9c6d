/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PROBES_USER_H
#define USRDMA_DAEMON_PROBES_USER_H

#include <stdbool.h>

#include "base/probe_page.h"
#include "daemon/probes.h"

/* One user's probe page. */
struct probes_user {
	struct list_head node; /* probes.users */
	uid_t uid;
	int fd;
	struct probe_page *page; /* NULL: there is no memory for it, and fd is an empty file */
	uint32_t generation; /* the daemon's own number: the user's processes can write the page */
	uint32_t traced;     /* PROBE_PAGE_TRACE, PROBE_PAGE_PACKETS */
	bool has_rules;
	bool is_daemons;   /* the daemon applied rules of this user to its own points */
	unsigned int refs; /* sessions, and calls in progress */
};

/* The user's entry with one more reference; created if it does not exist. NULL: no memory or descriptors. */
struct probes_user *probes_user_get(struct probes *probes, uid_t uid);

/* Drops a reference. The entry of a user without references and rules is freed. */
void probes_user_put(struct probes *probes, struct probes_user *user);

/* Frees all entries, when no session is left. */
void probes_user_free_all(struct probes *probes);

/* Changes the generation only: clients without a ring ask for one again. */
void probes_user_touch(struct probes_user *user);

/* Sets the flags of the page. Returns whether they changed. */
bool probes_user_set_traced(struct probes_user *user, uint32_t flags);

/*
 * Reads the rules from a sealed memfd, checks them, and writes them to the page. for_daemon: they apply to all
 * objects that pass the daemon's points, otherwise to those of the user. 0; -EINVAL: not a sealed memfd, or invalid rules; -E2BIG; -ENOMEM.
 */
int probes_user_set_rules(struct probes *probes, struct probes_user *user, int fd, bool for_daemon);

#endif
