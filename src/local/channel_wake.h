/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_CHANNEL_WAKE_H
#define USRDMA_LOCAL_CHANNEL_WAKE_H

#include <stdbool.h>

struct cell;
struct channel_wake;
struct local_qp;
struct peer;

/*
 * The sender's side of direct wake-ups (core/engine/direct_wake.h): this process adds units to the
 * completion channels of its peers. It has copies of their descriptors (channel_copy.h).
 */

/*
 * To be called before the last element of a message is committed, with its flags. Returns the
 * channel of the application that will read the message, and adds CELL_WAKES to the flags if a unit
 * is to be added for it; NULL: the doorbell is necessary.
 */
struct channel_wake *local_wake_choose(struct local_qp *lqp, const struct cell *cell,
				       unsigned int *flags);

/*
 * The element was committed. Adds the unit when the caller releases engine.lock, or requests the
 * copy of the channel. engine.lock held.
 */
void local_wake_send(struct peer *peer, struct channel_wake *wake, unsigned int flags);

/*
 * Whether the last element of the FIFO is that of a message which an application reads that was
 * woken; it reads all elements before, too. To be called after a memory fence.
 */
bool local_wake_covers(const struct peer *peer);

/* The peer ends. engine.lock held. */
void local_wakes_close(struct peer *peer);

/* In the child of a fork(): closes the copies. */
void local_wakes_disown(struct peer *peer);

#endif
