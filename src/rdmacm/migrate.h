/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_MIGRATE_H
#define USRDMA_RDMACM_MIGRATE_H

#include "rdmacm/id.h"

/*
 * Moves the id and its unread events to another channel; NULL: to a new channel of its own, which
 * makes the id synchronous. Waits until the id's other events are acknowledged. 0, -EINVAL (NULL
 * for a synchronous id), or -errno; after an error the id is still on its old channel.
 */
int rcm_migrate(struct rcm_id *id, struct rcm_channel *to) __attribute__((warn_unused_result));

/* Removes the unread events of an id that was destroyed in the daemon from its channel. */
void rcm_migrate_discard(struct rcm_id *id);

#endif
