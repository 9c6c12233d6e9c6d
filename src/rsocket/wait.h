/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_WAIT_H
#define USRDMA_RSOCKET_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/spin.h"
#include "rsocket/watch.h"

struct rsock;

#define WAIT_FOR_EVER UINT64_MAX

/*
 * A thread that waits for rsockets. It is woken by a descriptor of the rsocket or by another
 * thread. The other thread has processed an event on the descriptor and signals the waiter's
 * eventfd. Owned by the sleeping thread from waiter_get() to waiter_put(). Other threads access it
 * only through its links, with the lock of the link's rsocket held.
 */
struct waiter {
	int event_fd;
	uint64_t id; /* watch_new_id() */
	atomic_bool is_signalled;
	struct watch watch;
	struct list_head node; /* in the list of idle waiters */
};

/*
 * Links one waiter to one rsocket. node is in the rsocket's list. node and is_asleep are guarded by
 * the rsocket's lock. A thread that is not asleep checks its condition before it sleeps, so it
 * needs no signal.
 */
struct wait_link {
	struct list_head node;
	struct rsock *sock;
	struct waiter *waiter;
	bool is_asleep;
};

/* NULL with errno: ENOMEM, EMFILE or ENFILE. */
struct waiter *waiter_get(void) __attribute__((warn_unused_result));
void waiter_put(struct waiter *waiter);
void waiter_signal(struct waiter *waiter);
/* Clears the signal of a waiter that is awake and checks its conditions next. */
void waiter_drain(struct waiter *waiter);

/*
 * Waits until done(sock) is true. The caller holds sock->lock, which is released while the thread
 * sleeps. Returns 0; -EAGAIN: must_not_wait is set, or `deadline_ns` (clock_now_ns()) has passed;
 * -EINTR; -EBADF: another thread closed the rsocket; an error of waiter_get(). The thread may be
 * cancelled while it sleeps, unless the caller disabled cancellation. On cancellation the call's
 * reference is dropped, and ops->abandon() releases the rest.
 */
int rsock_wait(struct rsock *sock, bool (*done)(struct rsock *sock), bool must_not_wait,
	       uint64_t deadline_ns) __attribute__((warn_unused_result));

/*
 * Begins a wait: whether the thread polls before it sleeps (base/spin.h). It polls at least for
 * `polling_time` of rsocket(7), and not at all if that is 0.
 */
bool wait_spin_begin(struct spin *spin, uint64_t now_ns);

/* Milliseconds until the deadline for poll(2), rounded up and limited to most_ms. */
int wait_timeout_ms(uint64_t now_ns, uint64_t deadline_ns, uint32_t most_ms);

/*
 * fork() handlers for the lock of the idle waiters. The child must neither receive signals from
 * threads of the parent nor wake them.
 */
void wait_before_fork(void);
void wait_after_fork_in_parent(void);
void wait_after_fork_in_child(void);

#endif
