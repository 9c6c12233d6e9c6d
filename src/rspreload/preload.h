/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_PRELOAD_H
#define USRDMA_RSPRELOAD_PRELOAD_H

#include <poll.h>
#include <stdbool.h>

/*
 * What the environment and the configuration want: RDMAV_FORK_SAFE, RS_SQ_SIZE, RS_RQ_SIZE,
 * RS_INLINE (rsocket(7)) and the rules of rules.h. Read once, before the program begins.
 */

/* Whether a socket that the program asks for is to be an rsocket. */
bool preload_wants(int domain, int type, int protocol);
/* Whether streams begin as TCP. */
bool preload_is_fork_safe(void);

/* rsocket(), with the sizes that the environment names. */
int preload_rsocket(int domain, int type, int protocol);

/*
 * rpoll(), which itself asks poll(): not ours then, but the kernel's. preload_is_polling() says so.
 */
int preload_rpoll(struct pollfd *fds, nfds_t count, int timeout_ms);
bool preload_is_polling(void);

/* Whether this address lies in one of the libraries that rsockets are made of. */
bool preload_is_ours(const void *address);

#endif
