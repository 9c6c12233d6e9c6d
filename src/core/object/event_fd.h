/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_EVENT_FD_H
#define USRDMA_CORE_OBJECT_EVENT_FD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The eventfd of a queue of events: readable while the queue is not empty, with one unit per event.
 * For the queue of asynchronous events, adding and removing an event, and the corresponding post or
 * drain, happen under the queue's lock; waiting happens without it. Invariant: units in the
 * descriptor + waiters that took a unit but have not locked the queue yet = queued events + missing
 * units. A unit is missing if an event was removed from the queue after a waiter had taken its
 * unit. The waiter corrects this. If the queue is empty, the waiter's unit was the missing one, and
 * it waits again. If the queue has another event, the waiter takes the event, and drains the unit
 * of that event instead.
 *
 * core/object/channel_units.h counts the units of completion channels, which are added without the
 * lock, and by peers.
 */

/* A new descriptor, or -errno. */
int event_fd_open(void) __attribute__((warn_unused_result));

void event_fd_post(int fd, uint32_t units);

/* Whether it has a unit. */
bool event_fd_is_readable(int fd);

/* Takes one unit if there is one. 0 or -EAGAIN. Never blocks. */
int event_fd_try(int fd) __attribute__((warn_unused_result));

/*
 * Takes one unit; waits for it unless the descriptor is O_NONBLOCK. 0, -EAGAIN, -EINTR, or the
 * -errno of read().
 */
int event_fd_wait(int fd) __attribute__((warn_unused_result));

/*
 * Takes up to count units, for events that were removed from the queue. Returns how many are still
 * missing.
 */
uint32_t event_fd_drain(int fd, uint32_t count) __attribute__((warn_unused_result));

#endif
