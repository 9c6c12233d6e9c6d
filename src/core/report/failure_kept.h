/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_FAILURE_KEPT_H
#define USRDMA_CORE_REPORT_FAILURE_KEPT_H

#include <stdbool.h>

#include "ipc/msg_failure.h"

#define FAILURE_KEPT 16

/*
 * The last reports of a process, in order of time. The last ones may be pending, which means that
 * they were not sent yet. The others are kept because the daemon may end with another container:
 * its successor gets them again (ADR 0078). Zeroed: none.
 */
struct failure_kept {
	uint32_t count;
	uint32_t pending_count; /* the last ones of `reports` */
	struct ipc_failure reports[FAILURE_KEPT];
};

/* Whether all entries are pending, so that no report can be added. */
bool failure_kept_is_full(const struct failure_kept *kept);

/*
 * Adds a copy of the report as a pending one. It replaces the sent report that it updates
 * (IPC_FAILURE_UPDATES), or the oldest one if all entries are used.
 */
void failure_kept_add(struct failure_kept *kept, const struct ipc_failure *report);

/* The first pending report, which remains pending until failure_kept_sent(). NULL: none. */
struct ipc_failure *failure_kept_pending(struct failure_kept *kept);
void failure_kept_sent(struct failure_kept *kept);

#endif
