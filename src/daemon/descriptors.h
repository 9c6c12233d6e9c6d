/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_DESCRIPTORS_H
#define USRDMA_DAEMON_DESCRIPTORS_H

#include <stdbool.h>

struct session;

/*
 * Counts the descriptors that the daemon keeps for the session, after their number may have
 * changed.
 */
void descriptors_count(struct session *session);

/* The session has ended. */
void descriptors_release(struct session *session);

/*
 * Whether the daemon may keep fd, a new descriptor, for a client. False for a reserved number
 * (reserve.h), and if the client's user has its share of the daemon's descriptors (fair_share.h). A
 * caller must then fail as with -EMFILE.
 */
bool descriptors_may_keep(struct session *session, int fd);

#endif
