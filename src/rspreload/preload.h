/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_PRELOAD_H
#define USRDMA_RSPRELOAD_PRELOAD_H

#include <poll.h>
#include <signal.h>
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

/* The kernel's poll(), with the signals of this mask blocked meanwhile; NULL: as they are. */
int preload_poll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask);

/*
 * rpoll(), with such a mask. It asks poll() itself: preload_is_polling() says so, and then that is
 * preload_sleep(), where the mask takes effect. What is there already goes before signals.
 */
int preload_rpoll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask);
bool preload_is_polling(void);
int preload_sleep(struct pollfd *fds, nfds_t count, int timeout_ms);

/* Whether this address lies in one of the libraries that rsockets are made of. */
bool preload_is_ours(const void *address);

#endif
