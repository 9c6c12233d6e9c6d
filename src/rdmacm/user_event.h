/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_USER_EVENT_H
#define USRDMA_RDMACM_USER_EVENT_H

#include "rdmacm/id.h"

/*
 * Queues an event that this process creates on the id's channel, after the events that the daemon
 * has already sent. 0 or -errno.
 */
int rcm_user_event_write(struct rcm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
	__attribute__((warn_unused_result));

#endif
