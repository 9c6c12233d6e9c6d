/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SELECT_H
#define USRDMA_BASE_SELECT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>

/* What select(2) is, in terms of poll(2). */

enum { SELECT_READ, SELECT_WRITE, SELECT_EXCEPT, SELECT_SETS };

/* One call: whose sets, any of which may be NULL, and the descriptors that are in them, once each. */
struct select_call {
	fd_set *sets[SELECT_SETS];
	struct pollfd *fds;
	size_t count;
};

/*
 * Finds out what the sets hold below nfds, as far as the kernel would look. 0, and select_end() ends it; -EINVAL; -ENOMEM.
 */
int select_begin(struct select_call *call, int nfds, fd_set *const sets[SELECT_SETS])
	__attribute__((warn_unused_result));

/* What poll(2) answered becomes what is left in the sets: how many bits there are, or -EBADF and the sets as they were. */
int select_answer(const struct select_call *call) __attribute__((warn_unused_result));

void select_end(struct select_call *call);

/* Milliseconds for poll(2), rounded up: a wait never ends early. -1 for ever, which is NULL. -EINVAL: no time. */
int select_timeout_ms(const struct timespec *timeout, int *timeout_ms)
	__attribute__((warn_unused_result));

/* The same time, whose microseconds may be more than a second. -EINVAL: negative. */
int select_timespec(const struct timeval *timeout, struct timespec *time)
	__attribute__((warn_unused_result));

/* As Linux does it, a timeout becomes what is left of it. */
void select_take(struct timeval *timeout, uint64_t passed_ns);

#endif
