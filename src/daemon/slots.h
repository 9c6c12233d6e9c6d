/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SLOTS_H
#define USRDMA_DAEMON_SLOTS_H

#include <stdint.h>

#include "ipc/msg.h"

/*
 * Which session owns which slot of the QPN space. Slot 0 is the daemon's own and never lent. A slot that was given
 * back is lent again after all others that are free, so that a QPN somebody still remembers stays dead for as long as
 * possible. Part of the daemon, one thread.
 */
struct slots {
	void *owners[IPC_SLOTS];
	uint16_t free[IPC_SLOTS]; /* a ring: free_count of them, oldest at free_first */
	uint32_t free_first;
	uint32_t free_count;
};

/*
 * `seed` says which is lent first: peers may still remember QPNs of an earlier daemon's, and refuse a connection that
 * seems to be over.
 */
void slots_init(struct slots *slots, uint64_t seed);

/* The number of a slot, now owner's, or -ENOSPC. */
int slots_lend(struct slots *slots, void *owner) __attribute__((warn_unused_result));
void slots_return(struct slots *slots, uint32_t slot);

/* Any number may be asked for. NULL: nobody's, or the daemon's. */
void *slots_owner(const struct slots *slots, uint32_t slot);

#endif
