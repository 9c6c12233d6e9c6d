/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_REPOLL_POLL_H
#define USRDMA_RSOCKET_REPOLL_POLL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a descriptor is a set of repoll_create(). */
bool repoll_is_among(const struct pollfd *fds, size_t count);

/*
 * rpoll() for descriptors that include sets of repoll_create(). A set is readable while
 * repoll_wait() would return an event. Returns the number of descriptors with events, or -errno. A
 * cancellation point.
 */
int repoll_poll(struct pollfd *fds, size_t count, int timeout_ms)
	__attribute__((warn_unused_result));

#endif
