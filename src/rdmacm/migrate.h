/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_MIGRATE_H
#define USRDMA_RDMACM_MIGRATE_H

#include "rdmacm/id.h"

/*
 * Moves the id, and its events that nobody took yet, to another channel; NULL: to a new one of its
 * own, which makes it synchronous. Waits until the events that somebody took are acknowledged. 0,
 * -EINVAL (NULL for a synchronous id), or -errno with the id where it was.
 */
int rcm_migrate(struct rcm_id *id, struct rcm_channel *to) __attribute__((warn_unused_result));

/* Takes the events of an id that is gone for the daemon out of its channel. */
void rcm_migrate_discard(struct rcm_id *id);

#endif
