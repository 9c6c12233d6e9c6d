/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_EPOLL_H
#define USRDMA_RSPRELOAD_EPOLL_H

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "rspreload/sock.h"

/*
 * Rsockets among the members of an epoll descriptor. The kernel cannot report when an rsocket is
 * readable. If the program adds a socket of this library to an epoll descriptor, this module
 * creates a repoll set (repoll_create()). The members of the repoll set are the rsockets and the
 * kernel's epoll set. repoll_wait() has the semantics of epoll_wait() for both (ADR 0031). Threads
 * that already wait for the epoll descriptor, or for one that contains it, are woken and use the
 * repoll set (ADR 0068).
 */
struct epoll_set;

/*
 * epoll_ctl() for a socket of this library or an epoll descriptor. 0 or -errno. Not a cancellation
 * point.
 */
int epoll_control(int epoll, int op, int number, struct sock *sock, const struct epoll_event *event)
	__attribute__((warn_unused_result));

/*
 * epoll_wait() on a descriptor whose set is active; epoll_pwait() if `mask` is not NULL. Returns
 * the number of events, or -errno. A cancellation point; the caller's reference is the only
 * resource that a cancelled thread has to release.
 */
int epoll_set_wait(struct sock *epoll, struct epoll_event *events, int most, int timeout_ms,
		   const sigset_t *mask) __attribute__((warn_unused_result));

/*
 * A TCP socket becomes an rsocket: epoll_change_to_rdma() removes it from the kernel's sets, before
 * the TCP connection ends. epoll_now_rdma() adds the rsocket to the repoll sets. Between the calls
 * the thread holds the lock of all sets. The caller holds sock->lock.
 */
void epoll_change_to_rdma(struct sock *sock);
void epoll_now_rdma(struct sock *sock);
/*
 * The sock becomes an ordinary descriptor: sets sock->kind and moves its members to the kernel. The
 * caller holds sock->lock.
 */
void epoll_now_plain(struct sock *sock);
/* To be called when the sock was closed. */
void epoll_forget(struct sock *sock);

/*
 * The sock of an epoll descriptor that may have none yet, with a reference. NULL: another
 * descriptor, or no memory. To be called before dup(2), so that the numbers of a descriptor share
 * one sock, and before an epoll descriptor becomes a member of another one. Not a cancellation
 * point. Does not change errno.
 */
struct sock *epoll_sock(int number);

/*
 * Stores that a number is an epoll descriptor, so that epoll_ctl(2) and poll(2) need no system call
 * to find nested and polled epoll descriptors. If the program closes a number without a function of
 * this library, the number stays marked until it is used again. epoll_mark_received() finds out
 * whether a number is an epoll descriptor. It does not change errno.
 */
void epoll_mark(int number);
void epoll_mark_received(int number);
bool epoll_is_marked(int number);
/* To be called before the numbers are closed. */
void epoll_unmark(int number);
void epoll_unmark_range(unsigned first, unsigned last);

/* Whether the set of an epoll descriptor is active: the kernel does not report all events. */
bool epoll_is_active(struct sock *sock);
/* The repoll set of an active set. -errno: after a fork() it cannot be created. */
int epoll_repoll(struct sock *sock) __attribute__((warn_unused_result));

void epoll_set_free(struct epoll_set *set);

/*
 * fork() acquires the lock of all sets. In the child the rsockets leave the sets, because they
 * belong to the parent.
 */
void epoll_before_fork(void);
void epoll_after_fork_in_parent(void);
void epoll_after_fork_in_child(void);

#endif
