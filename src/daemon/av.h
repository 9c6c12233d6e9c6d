/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_AV_H
#define USRDMA_DAEMON_AV_H

#include "daemon/session.h"
#include "ipc/msg.h"

/*
 * Resolution of the address vectors of verbs calls: ibv_modify_qp() and ibv_create_ah() succeed
 * only if the kernel has a route to the destination and the link-layer address of the next hop
 * (docs/adr/0066). A resolution that waits for the kernel belongs to its session and ends with it.
 */

/*
 * Limits of the resolutions that wait at the same time, of all sessions; root and the daemon's user
 * are exempt from their shares (fair_share.h). A resolution waits at most AV_TIMEOUT_MS, which is
 * Linux's timeout for the address vectors of RoCE v2.
 */
#define AV_WAITS_MAX	  2048
#define AV_WAITS_RESERVED 256
#define AV_WAITS_UID_MIN  32
#define AV_TIMEOUT_MS	  1000

void av_session_init(struct session *session);

/* Serves AV_RESOLVE. 0 or the -errno of the reply. */
int av_resolve(struct session *session, const struct ipc_av_resolve *req,
	       struct ipc_av_resolve_reply *reply) __attribute__((warn_unused_result));

/* Ends all resolutions of a session that ends. */
void av_leave(struct session *session);

#endif
