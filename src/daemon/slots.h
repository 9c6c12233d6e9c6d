/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_SLOTS_H
#define USRDMA_DAEMON_SLOTS_H

#include <stdint.h>

#include "ipc/msg.h"

/*
 * Slots (QPN ranges) and the sessions that own them. The daemon owns slot 0. Free slots are
 * assigned in FIFO order: a returned slot is assigned after all other free slots. So QPNs that
 * peers may still use stay unassigned for as long as possible. Part of struct server; one thread.
 */
struct slots {
	void *owners[IPC_SLOTS];
	uint16_t free[IPC_SLOTS]; /* ring buffer of free_count slots, oldest at free_first */
	uint32_t free_first;
	uint32_t free_count;
};

/*
 * `seed` selects the first slot to assign. Peers may still have connections to QPNs of a previous
 * daemon, and treat a new connection with the same QPN as stale.
 */
void slots_init(struct slots *slots, uint64_t seed);

/* Assigns a slot to owner. Returns its number, or -ENOSPC. */
int slots_assign(struct slots *slots, void *owner) __attribute__((warn_unused_result));
void slots_return(struct slots *slots, uint32_t slot);

/* The owner of a slot; any number is allowed. NULL: free, invalid, or the daemon's. */
void *slots_owner(const struct slots *slots, uint32_t slot);

#endif
