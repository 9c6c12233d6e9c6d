/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_EVENT_FD_H
#define USRDMA_CORE_EVENT_FD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The descriptor of a queue of events: readable while the queue is not empty, one unit per event. Whoever adds or takes
 * an event of the queue does it, and the post or drain, under the queue's lock; waiting is done without it. So the
 * units, and the waiters that took one and have not locked the queue yet, are as many as there are events and units
 * owed: those of events that were taken back when a waiter had the unit already. The waiter settles that: a queue that
 * is empty was owed its unit, and it waits again; if it gets another event, the other's unit goes instead.
 */

/* A new descriptor, or -errno. */
int event_fd_open(void) __attribute__((warn_unused_result));

void event_fd_post(int fd);

/* Takes one unit if there is one: 0 or -EAGAIN. Never blocks. */
int event_fd_try(int fd) __attribute__((warn_unused_result));

/* Takes one unit, waiting for it unless the descriptor is O_NONBLOCK: 0, -EAGAIN, -EINTR, or what read() said. */
int event_fd_wait(int fd) __attribute__((warn_unused_result));

/* Takes back up to count units, for events that left the queue unfetched. Tells how many are still owed. */
uint32_t event_fd_drain(int fd, uint32_t count) __attribute__((warn_unused_result));

#endif
