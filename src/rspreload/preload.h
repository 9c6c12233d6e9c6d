/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_PRELOAD_H
#define USRDMA_RSPRELOAD_PRELOAD_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>

/*
 * The configuration: the environment variables RDMAV_FORK_SAFE, RS_SQ_SIZE, RS_RQ_SIZE and
 * RS_INLINE (rsocket(7)) and the rules of rules.h. Read once by a constructor, before main().
 */

/*
 * For variables of a thread. The library is loaded at the start of the program, so that the dynamic
 * loader can assign them a fixed offset, and an access needs no function call.
 */
#define PRELOAD_THREAD __attribute__((tls_model("initial-exec")))

/* Whether a socket() call of the program creates an rsocket. */
bool preload_wants(int domain, int type, int protocol);
/* Whether streams are TCP sockets at first (RDMAV_FORK_SAFE). */
bool preload_is_fork_safe(void);

/* rsocket(), with the queue sizes and inline size of the environment. */
int preload_rsocket(int domain, int type, int protocol);

/*
 * The kernel's poll(), with this signal mask during the call; NULL: the signal mask is not changed.
 */
int preload_poll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask);

/*
 * rpoll() and repoll_wait(), with a signal mask as in preload_poll(). Both call poll() or
 * epoll_wait(). During that call preload_is_polling() is true, and poll() calls preload_sleep(), or
 * epoll_wait() preload_sleep_in_epoll(), which apply the mask. Pending events take precedence over
 * signals.
 */
int preload_rpoll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask);
int preload_repoll_wait(int set, struct epoll_event *events, int most, int timeout_ms,
			const sigset_t *mask);
bool preload_is_polling(void);
int preload_sleep(struct pollfd *fds, nfds_t count, int timeout_ms);
int preload_sleep_in_epoll(int epoll, struct epoll_event *events, int most, int timeout_ms);

/* Whether this address is in the code of librdmacm or libibverbs. */
bool preload_is_ours(const void *address);

#endif
