/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_CALLS_H
#define USRDMA_RSOCKET_CALLS_H

#include <sys/types.h>

struct rsock;

/* What the files with public calls share. */

/*
 * A call begins: the rsocket of its descriptor, with a reference. -EBADF; -ENODEV: it is a fork()ed
 * parent's; -EDEADLK: the call interrupts another one.
 */
int call_begin(int fd, struct rsock **sock) __attribute__((warn_unused_result));

/* -errno becomes -1 and errno; anything else stays. */
ssize_t call_result(ssize_t ret);

#endif
