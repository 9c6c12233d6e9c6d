/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_POLL_H
#define USRDMA_RSOCKET_POLL_H

#include <poll.h>

/* rpoll() without its convention: how many descriptors have something, or -errno. */
int rsock_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms) __attribute__((warn_unused_result));

#endif
