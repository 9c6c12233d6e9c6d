/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SELECT_H
#define USRDMA_BASE_SELECT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>

/* select(2) implemented with poll(2). */

enum { SELECT_READ, SELECT_WRITE, SELECT_EXCEPT, SELECT_SETS };

/*
 * State of one call: the caller's sets, any of which may be NULL, and one pollfd for each
 * descriptor in them.
 */
struct select_call {
	fd_set *sets[SELECT_SETS];
	struct pollfd *fds;
	size_t count;
};

/*
 * Reads the sets up to nfds; an nfds above FD_SETSIZE is limited to the size of the descriptor
 * table. 0: the caller ends the call with select_end(). -EINVAL: nfds is negative; -ENOMEM.
 */
int select_begin(struct select_call *call, int nfds, fd_set *const sets[SELECT_SETS])
	__attribute__((warn_unused_result));

/*
 * Writes the result of poll(2) to the sets and returns the number of set bits; -EBADF: the sets are
 * unchanged.
 */
int select_report(const struct select_call *call) __attribute__((warn_unused_result));

void select_end(struct select_call *call);

/*
 * Converts a timeout to milliseconds for poll(2), rounded up; NULL: -1 (unlimited). 0, or -EINVAL:
 * invalid timeout.
 */
int select_timeout_ms(const struct timespec *timeout, int *timeout_ms)
	__attribute__((warn_unused_result));

/* Converts a timeval, whose microseconds may exceed one second. 0, or -EINVAL: negative. */
int select_timespec(const struct timeval *timeout, struct timespec *time)
	__attribute__((warn_unused_result));

/* Subtracts the elapsed time from a timeout, as select(2) does on Linux. */
void select_take(struct timeval *timeout, uint64_t passed_ns);

#endif
