/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PEERS_H
#define USRDMA_DAEMON_PEERS_H

#include <stdint.h>

#include "daemon/session.h"

/*
 * Who may talk to whom: engines deposit a segment, a doorbell and a socket for pushes, and two of them are introduced
 * when one asks. The daemon makes the pair of rings, gives it to both, and keeps nothing of it but its number.
 */

void peers_session_init(struct session *session);

/*
 * SEGMENT. Takes over fds[0..2] (replacing each by -1) if they are what ipc/msg.h says: -EINVAL if not, -EEXIST the
 * second time.
 */
int peers_deposit(struct session *session, const struct ipc_segment *req, int *fds)
	__attribute__((warn_unused_result));

/* INTRODUCE: -EINVAL before SEGMENT or for the caller's own slot, -ENOENT for a slot without a live engine. */
int peers_introduce(struct session *session, uint32_t slot) __attribute__((warn_unused_result));

/* The session ends: everyone it was introduced to is told at once. */
void peers_leave(struct session *session);

#endif
