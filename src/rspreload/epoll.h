/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_EPOLL_H
#define USRDMA_RSPRELOAD_EPOLL_H

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "rspreload/sock.h"

/*
 * Rsockets among the members of an epoll descriptor. The kernel cannot report when an rsocket is readable. If the program adds
 * a socket of this library to an epoll descriptor, this module creates a repoll set (repoll_create()). The members of the
 * repoll set are the rsockets and the kernel's epoll set. repoll_wait() has the semantics of epoll_wait() for both (ADR 0031).
 */
struct epoll_set;

/* epoll_ctl() for a descriptor that is a socket of this library. 0 or -errno. Not a cancellation point. */
int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
	__attribute__((warn_unused_result));

/*
 * epoll_wait() on a descriptor that has a repoll set; epoll_pwait() if `mask` is not NULL. Returns the number of events, or
 * -errno. A cancellation point; the caller's reference is the only resource that a cancelled thread has to release.
 */
int epoll_set_wait(struct sock *epoll, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask) __attribute__((warn_unused_result));

/*
 * A TCP socket becomes an rsocket: epoll_change_to_rdma() removes it from the kernel's sets, before the TCP connection ends.
 * epoll_now_rdma() adds the rsocket to the repoll sets. Between the calls the thread holds the lock of all sets. The caller
 * holds sock->lock.
 */
void epoll_change_to_rdma(struct sock *sock);
void epoll_now_rdma(struct sock *sock);
/* The sock becomes an ordinary descriptor: sets sock->kind and moves its members to the kernel. The caller holds sock->lock. */
void epoll_now_plain(struct sock *sock);
/* To be called when the sock was closed. */
void epoll_forget(struct sock *sock);

/*
 * To be called before dup(2) of a descriptor without a sock. The sock of an epoll descriptor, with a reference, so that its
 * numbers share one set; NULL: another descriptor, or no memory. Not a cancellation point.
 */
struct sock *epoll_duplicated(int number);

void epoll_set_free(struct epoll_set *set);

/* fork() acquires the lock of all sets. In the child the rsockets leave the sets, because they belong to the parent. */
void epoll_before_fork(void);
void epoll_after_fork_in_parent(void);
void epoll_after_fork_in_child(void);

#endif
