/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAILURES_H
#define USRDMA_DAEMON_FAILURES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "ipc/msg_failure.h"

/* Maximum number of stored failures of all users. */
#define FAILURES_MAX 1000

/*
 * The last failures of all processes, oldest first, also of processes that have ended. Owned by the
 * server. If FAILURES_MAX are stored, a new one replaces the oldest one of the user who has the
 * most, so that the failures of one user do not displace those of another. Among that user's
 * failures, notes (IPC_FAILURE_NOTE) are replaced first.
 */
struct failures {
	struct list_head list;	 /* struct stored_failure */
	struct list_head shares; /* struct failures_share: one for each uid with failures */
	uint32_t count;
	uint64_t last_number;
	uint64_t last_ns; /* CLOCK_MONOTONIC, of the last one that is not a note; 0: none */
};

struct stored_failure {
	struct list_head node;
	uint64_t number;
	struct failures_share *share;
	struct ipc_failure failure;
};

void failures_init(struct failures *failures);
void failures_free(struct failures *failures);

/*
 * Stores a failure of a process; pid and uid are those of the process. With IPC_FAILURE_UPDATES it
 * replaces the stored failure of this process with the same id in its place. Returns 0, -EINVAL: an
 * invalid value, or -ENOMEM.
 */
int failures_add(struct failures *failures, const struct ipc_failure *failure, pid_t pid, uid_t uid)
	__attribute__((warn_unused_result));

/*
 * FAILURE_GET: the oldest failure with a number of at least `cursor` that `reader` may read: its
 * own, or any for root. -ENOENT
 */
int failures_read(const struct failures *failures, uint64_t cursor, uid_t reader,
		  struct ipc_failure_get_reply *reply) __attribute__((warn_unused_result));

#endif
