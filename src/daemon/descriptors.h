/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_DESCRIPTORS_H
#define USRDMA_DAEMON_DESCRIPTORS_H

#include <stdbool.h>

struct session;

/*
 * Whether the daemon may keep fd, a new descriptor, for a client. False for a reserved number (reserve.h), and if the client's user
 * has its share of the daemon's descriptors (fair_share.h). A caller must then fail as with -EMFILE.
 */
bool descriptors_may_keep(const struct session *session, int fd);

#endif
