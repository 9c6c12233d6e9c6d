/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_FAILURE_H
#define USRDMA_RDMACM_FAILURE_H

#include "rdmacm/id.h"

/*
 * Reports to the daemon, for `usrdma why`, that `call` has waited for a while for the
 * acknowledgement of that many events of the id; `event` (enum rdma_cm_event_type) is the oldest.
 * Does not block.
 */
void rcm_failure_unacked(struct rcm_id *id, const char *call, uint32_t events, uint32_t event);

#endif
