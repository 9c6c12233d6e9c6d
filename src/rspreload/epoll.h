/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_EPOLL_H
#define USRDMA_RSPRELOAD_EPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

#include "rspreload/sock.h"

/*
 * Rsockets among what an epoll descriptor watches. The kernel does not know when an rsocket is
 * readable, so those are kept beside the kernel's own set, and waited for by rpoll() together with
 * that set's descriptor.
 *
 * Edges: what was told of an rsocket is not told again before the program has read or written, which
 * passes through this module, and so cannot be missed. That tells more often than the kernel would,
 * never less.
 */
struct epoll_set;

/* epoll_ctl() for a descriptor that is one of ours. 0 or -errno. */
int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
	__attribute__((warn_unused_result));

/* Whether rsockets have to be waited for too. */
bool epoll_has_rdma(const struct sock *epoll);
/* epoll_wait() then, or epoll_pwait() if there is a mask. How many, or -errno. */
int epoll_set_wait(struct sock *epoll, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask) __attribute__((warn_unused_result));

/* The program has read (or written), or tried to. */
void epoll_touched(struct sock *sock, bool by_reading);

/* The sock became an rsocket, or one that is the kernel's alone, or is no more. */
void epoll_now_rdma(struct sock *sock);
void epoll_now_plain(struct sock *sock);
void epoll_forget(struct sock *sock);

void epoll_set_free(struct epoll_set *set);
void epoll_after_fork(void);

#endif
