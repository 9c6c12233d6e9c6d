/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_XRCDS_H
#define USRDMA_DAEMON_XRCDS_H

#include <stdint.h>

#include "ipc/msg.h"

struct session;

/*
 * Which XRC domains are open, by device and inode, and which session opened them (IBA A14). The daemon keeps each inode in
 * use while its domain is open, so that no other file gets its number meanwhile.
 */

/* What one user may have open, root aside. */
#define XRCDS_UID_MAX 1024

/* 0 with the domain's id, or -errno as XRCD_OPEN answers it. The descriptor stays the caller's. */
int xrcds_open(struct session *session, const struct ipc_xrcd_open *req, int fd,
	       uint64_t *domain_id) __attribute__((warn_unused_result));
int xrcds_close(struct session *session, uint64_t domain_id) __attribute__((warn_unused_result));

/* The session ended: what it had open is closed. */
void xrcds_leave(struct session *session);

#endif
