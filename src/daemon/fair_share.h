/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAIR_SHARE_H
#define USRDMA_DAEMON_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The limit of a user in a resource of which the host has a fixed number. */
struct fair_share {
	uint32_t reserved; /* for root and the daemon's user */
	uint32_t least;	   /* that every user gets while more than the reserved ones are free */
};

/* Whether the user has no limit. */
static inline bool fair_share_is_exempt(uid_t uid, uid_t daemon_uid)
{
	return uid == 0 || uid == daemon_uid;
}

/*
 * Whether a user who holds this number may have one more. A user gets at most half of the sum of
 * the user's own and the free ones. Each further user can thus get half of those that the preceding
 * users left.
 */
static inline bool fair_share_allows(const struct fair_share *share, uint32_t held, uint32_t free)
{
	if (free <= share->reserved)
		return false;
	return held < share->least || held < free - share->reserved;
}

#endif
