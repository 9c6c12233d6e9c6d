/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CONNECT_H
#define USRDMA_RDMACM_CONNECT_H

#include "rdmacm/id.h"

/* REJ reasons an application can give (IBA 1.x §12.6.7.2). */
enum rcm_reject_reason {
	RCM_REJECT_CONSUMER = 28,
	RCM_REJECT_VENDOR_OPTION = 35,
};

/*
 * The active side's answer to a REP on an id with a QP: the QP goes to RTS and an RTU out. On
 * failure the QP is in ERR and the peer is told by a REJ. 0 or -errno.
 */
int rcm_connect_complete(struct rcm_id *id) __attribute__((warn_unused_result));

/* Refuses the request that made the id. 0 or -errno. */
int rcm_connect_reject(struct rcm_id *id, enum rcm_reject_reason reason, const void *private_data,
		       size_t private_bytes) __attribute__((warn_unused_result));

#endif
