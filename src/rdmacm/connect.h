/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CONNECT_H
#define USRDMA_RDMACM_CONNECT_H

#include "rdmacm/id.h"

/* REJ reasons that an application can select (IBA 1.x §12.6.7.2). */
enum rcm_reject_reason {
	RCM_REJECT_CONSUMER = 28,
	RCM_REJECT_VENDOR_OPTION = 35,
};

/*
 * Handles a REP on the active side, for an id with a QP: moves the QP to RTS and sends an RTU. On
 * failure it moves the QP to ERR and sends a REJ. 0 or -errno.
 */
int rcm_connect_complete(struct rcm_id *id) __attribute__((warn_unused_result));

/* Rejects the connection request of the id. 0 or -errno. */
int rcm_connect_reject(struct rcm_id *id, enum rcm_reject_reason reason, const void *private_data,
		       size_t private_bytes) __attribute__((warn_unused_result));

#endif
