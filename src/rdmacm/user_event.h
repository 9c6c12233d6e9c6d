/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_USER_EVENT_H
#define USRDMA_RDMACM_USER_EVENT_H

#include "rdmacm/id.h"

/*
 * Queues an event of this process's own making on the id's channel, after those that are on their
 * way. 0 or -errno.
 */
int rcm_user_event_write(struct rcm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
	__attribute__((warn_unused_result));

#endif
