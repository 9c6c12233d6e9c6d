/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_WAIT_H
#define USRDMA_RSOCKET_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct rsock;

#define WAIT_FOR_EVER UINT64_MAX

/*
 * A thread that sleeps for rsockets. What wakes it is either a descriptor of the rsocket, or another
 * thread, which has taken what that descriptor announced and must hand the news on: it signals the
 * waiter's own descriptor. Owned by the sleeping thread from waiter_get() to waiter_put(); others
 * see it only through its links, under the lock of the rsocket that each link is on.
 */
struct waiter {
	int event_fd;
	atomic_bool is_signalled;
	struct list_head node; /* while nobody uses it */
};

/*
 * One waiter on one rsocket: node is on the rsocket's list, and both it and is_asleep are under the
 * rsocket's lock. Who is not asleep has yet to look, and needs no signal.
 */
struct wait_link {
	struct list_head node;
	struct waiter *waiter;
	bool is_asleep;
};

/* NULL with errno. */
struct waiter *waiter_get(void) __attribute__((warn_unused_result));
void waiter_put(struct waiter *waiter);
void waiter_signal(struct waiter *waiter);
/* The waiter is awake and about to look at everything: what was signalled is heard. */
void waiter_hear(struct waiter *waiter);

/*
 * Waits until done(sock) is true. The caller holds sock->lock, which is given up while sleeping.
 * 0; -EAGAIN: not yet, and must not wait, or `deadline_ns` (clock_now_ns) has come; -EINTR; -EBADF:
 * another thread closed the rsocket.
 */
int rsock_wait(struct rsock *sock, bool (*done)(struct rsock *sock), bool must_not_wait,
	       uint64_t deadline_ns) __attribute__((warn_unused_result));

/*
 * Whether a call that a signal interrupted would begin anew if it were a system call: all handlers
 * of this process were installed with SA_RESTART.
 */
bool wait_restarts(void);

/* Milliseconds for poll(2) until then, at most so many; a wait that began never ends early. */
int wait_timeout_ms(uint64_t now_ns, uint64_t deadline_ns, uint32_t most_ms);

/* In the child of a fork(), which must not hear nor wake its parent's threads. */
void wait_after_fork(void);

#endif
