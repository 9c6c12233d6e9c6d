/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_XRCDS_H
#define USRDMA_DAEMON_XRCDS_H

#include <stdint.h>

#include "ipc/msg.h"

struct session;

/*
 * The open XRC domains, by device and inode, and the sessions that opened them (IBA A14). While a
 * domain is open, the daemon holds a reference to its inode, so that the inode number is not reused
 * by another file.
 */

/* Maximum number of open domains of one user, except root. */
#define XRCDS_UID_MAX 1024

/* Returns 0 and the domain's id, or the -errno of the reply to XRCD_OPEN. The caller keeps fd. */
int xrcds_open(struct session *session, const struct ipc_xrcd_open *req, int fd,
	       uint64_t *domain_id) __attribute__((warn_unused_result));
int xrcds_close(struct session *session, uint64_t domain_id) __attribute__((warn_unused_result));

/* To be called when a session ends: closes its domains. */
void xrcds_leave(struct session *session);

#endif
