/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_USER_H
#define USRDMA_DAEMON_FAULT_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault.h"

/*
 * The fault rules that apply to the points of the daemon. The rules of the daemon's environment and
 * of its own user (base/fault.h) apply to the connections, contexts and processes of all users. The
 * rules of each other user are stored here and apply to those of this user only. Used by the loop's
 * thread.
 */

/* No user; as the scope of a rule: all users. */
#define FAULT_NO_USER	 ((uid_t)-1)
#define FAULT_EVERY_USER ((uid_t)-1)

/*
 * Replaces the rules of a user other than the daemon's; a text without rules removes them.
 * `counters`: FAULT_RULES_MAX shared counters, valid until the rules are replaced. -EINVAL,
 * -ENOMEM: the former rules remain.
 */
int fault_user_set(uid_t uid, const char *text, struct fault_counter *counters)
	__attribute__((warn_unused_result));
/* Removes the rules of a user. */
void fault_user_remove(uid_t uid);
void fault_user_remove_all(void);

/*
 * The points that the user's own rules name, as bits 1 << enum fault_point; 0: the user has no
 * rules.
 */
uint32_t fault_user_points(uid_t uid);

/* The points that objects pass periodically in the daemon (fault_tick.h). */
#define FAULT_TICK_POINTS (1u << FAULT_DEVICE | 1u << FAULT_PROCESS | 1u << FAULT_CONNECTION)

/*
 * Calls fn for each user whose own rules name a point of FAULT_TICK_POINTS. fn must not change the
 * rules.
 */
void fault_user_each_periodic(void (*fn)(void *ctx, uid_t uid, uint32_t points), void *ctx);
bool fault_user_has_periodic(void);

/* Out-of-line part of fault_user_due(). */
PROBE_COLD bool fault_user_decide(uid_t uid, enum fault_point point,
				  const struct fault_subject *subject, struct fault *fault);

/*
 * As fault_due(), for a point that an object of this user passes. FAULT_NO_USER: the user is
 * unknown.
 */
static inline bool fault_user_due(uid_t uid, enum fault_point point,
				  const struct fault_subject *subject, struct fault *fault)
{
	return probe_is_on(PROBE_FAULT) && fault_user_decide(uid, point, subject, fault);
}

/* The same with the user's own rules only. */
bool fault_user_own_due(uid_t uid, enum fault_point point, const struct fault_subject *subject,
			struct fault *fault);

#endif
