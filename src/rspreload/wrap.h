/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_WRAP_H
#define USRDMA_RSPRELOAD_WRAP_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "rspreload/sock.h"

/* Common functions of the wrap_*.c files, which replace functions of the C library. */

/*
 * The first declaration of a function that replaces a system call. A thread with
 * PTHREAD_CANCEL_ASYNCHRONOUS may be cancelled in system calls, as iperf3 does with its threads,
 * but not while it holds locks of this library: until the function returns, it is cancelled at
 * cancellation points only.
 */
#define DEFERS_CANCEL \
	__attribute__((cleanup(wrap_restore_cancel), unused)) int cancel_type = wrap_defer_cancel()

static inline int wrap_defer_cancel(void)
{
	int before = PTHREAD_CANCEL_DEFERRED;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before);
	return before;
}

static inline void wrap_restore_cancel(const int *before)
{
	if (*before != PTHREAD_CANCEL_DEFERRED)
		pthread_setcanceltype(*before, NULL);
}

/*
 * The sock of an rsocket's number, with a reference; NULL: not an rsocket, the call is passed to
 * the kernel.
 */
struct sock *wrap_find(int number);

/*
 * A copy without a reference, so that a thread that is cancelled in a call has no reference to
 * release.
 */
struct wrap_rsocket {
	int fd;
	int domain;
	int type;
	int error; /* of wrap_is_rsocket_to_read() */
};

/*
 * Fills *rsocket for an rsocket's number. False: not an rsocket, the call is passed to the kernel.
 */
bool wrap_is_rsocket(int number, struct wrap_rsocket *rsocket);
/* The same before a write: first calls tcp_settle() for a TCP socket. A cancellation point. */
bool wrap_is_rsocket_settled(int number, struct wrap_rsocket *rsocket);
/*
 * The same before a read with these flags (MSG_*). False: the call fails with the errno
 * rsocket->error or, if that is 0, is passed to the kernel.
 */
bool wrap_is_rsocket_to_read(int number, int flags, struct wrap_rsocket *rsocket);
/* The result of a call that fails with this errno. */
int wrap_fail(int error);

/*
 * Converts a timeout to milliseconds, as select_timeout_ms(). -1 and errno: the timeout is invalid.
 */
int wrap_timeout_ms(const struct timespec *time, int *timeout_ms);

/* fork() acquires the lock of the list of streams. */
void stdio_before_fork(void);
void stdio_after_fork_in_parent(void);
void stdio_after_fork_in_child(void);
/*
 * Writes the buffered data of all streams over rsockets, except of streams that other threads have
 * locked: such a thread may be blocked in a read or write until the process ends.
 */
void stdio_flush(void);

/* Ends a call: releases the reference and returns ret. Does not change errno. */
ssize_t wrap_done(struct sock *sock, ssize_t ret);
/* Cleanup handler of a cancelled thread: releases the reference. */
void wrap_cancelled(void *sock);

#endif
