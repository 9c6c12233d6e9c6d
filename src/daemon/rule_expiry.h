/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_RULE_EXPIRY_H
#define USRDMA_DAEMON_RULE_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"

/*
 * The end of fault rules that no client can meet: those of a user without sessions, and those of
 * the daemon's user, which apply to all, if there is no session at all. They end after a time, and
 * earlier if more than a number of users have such rules: those that have been unused for longest
 * go first. So a user, or several user IDs of one user, cannot leave rules in the daemon for good.
 *
 * One for each daemon, part of struct server. One thread.
 */
#define RULES_KEPT_MS	     (600 * 1000)
#define RULES_KEPT_USERS_MAX 64

/*
 * Part of the object that has the rules of a user; zeroed and initialised by
 * list_init(&lease->node).
 */
struct rule_lease {
	struct list_head node; /* rule_expiry.unused */
	uint64_t since_ms;
	bool is_exempt; /* root's and those of the daemon's user end only by time */
};

struct rule_expiry {
	uv_timer_t timer;
	struct list_head unused; /* struct rule_lease, the longest unused first */
	uint32_t count;		 /* of those that are not exempt */
	uint64_t kept_ms;
	uint32_t kept_users_max;
	void (*expire)(struct rule_expiry *expiry, struct rule_lease *lease);
};

/* `expire` ends the rules of a lease that is in use no more. 0 or -errno. */
int rule_expiry_open(struct rule_expiry *expiry, uv_loop_t *loop, uint64_t kept_ms,
		     void (*expire)(struct rule_expiry *expiry, struct rule_lease *lease))
	__attribute__((warn_unused_result));
void rule_expiry_close(struct rule_expiry *expiry);

/*
 * The rules are in use, or do not exist; or they are unused from now on. A repeated call has no
 * effect.
 */
void rule_expiry_set_used(struct rule_expiry *expiry, struct rule_lease *lease, bool is_used);

#endif
