/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PEERS_H
#define USRDMA_DAEMON_PEERS_H

#include <stdint.h>

#include "daemon/session.h"

/*
 * Connects engines: each engine publishes a segment (SEGMENT), and an engine requests a connection
 * to a peer (CONNECT_PEER). The daemon creates the pair of rings, passes its descriptors to both
 * engines, and closes its own unless the engines have to be protected from each other (struct
 * pair).
 */

void peers_session_init(struct session *session);

/*
 * Serves SEGMENT. If fds[0] meets the requirements of ipc/msg.h, keeps it and sets fds[0] to -1;
 * otherwise -EINVAL. *client_end is to be passed to the client. -EEXIST: peers already use the
 * session's segment; -EMFILE and other errors.
 */
int peers_publish(struct session *session, const struct ipc_segment *req, int *fds, int *client_end)
	__attribute__((warn_unused_result));

/*
 * Serves CONNECT_PEER. -EINVAL: no SEGMENT yet, or the caller's own slot. -ENOENT: no engine with a
 * segment owns the slot.
 */
int peers_connect_peer(struct session *session, uint32_t slot) __attribute__((warn_unused_result));

/* Sends CONNECT_PEER_FAILED to a session whose CONNECT_PEER with IPC_UNANSWERED failed. */
void peers_connect_peer_failed(struct session *session, uint32_t slot, int error);

/*
 * Serves PEER_NOT_TAKEN: the session leaves its pair with this number, if it exists. If the pair is
 * not over, the other side gets PEER_GONE.
 */
void peers_part(struct session *session, uint64_t pair_id);

/* Removes all pairs of a session that ends, and sends PEER_GONE to each peer. */
void peers_leave(struct session *session);

#endif
