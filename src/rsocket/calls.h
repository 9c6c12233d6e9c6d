/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_CALLS_H
#define USRDMA_RSOCKET_CALLS_H

#include <sys/types.h>

struct rsock;

/* Functions shared by the files that define the public calls. */

/*
 * Begins a public call: finds the rsocket of a descriptor and takes a reference. -EBADF; -ENODEV:
 * this process inherited the rsocket by fork(); -EDEADLK: the caller is a signal handler that
 * interrupted another call on the rsocket.
 */
int call_begin(int fd, struct rsock **sock) __attribute__((warn_unused_result));

/*
 * Registers the fork() handlers. To be called before the process creates its first rsocket or epoll
 * set.
 */
void calls_init(void);

/* Converts -errno to -1 and errno; other values are returned unchanged. */
ssize_t call_result(ssize_t ret);

#endif
