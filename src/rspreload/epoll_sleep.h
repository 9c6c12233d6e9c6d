/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_EPOLL_SLEEP_H
#define USRDMA_RSPRELOAD_EPOLL_SLEEP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

/*
 * Threads that wait in the kernel for epoll descriptors without a repoll set. When such a
 * descriptor gets a repoll set, these threads must leave the kernel, because the kernel does not
 * report the rsockets. Such a thread
 *
 *	1. stores the descriptor's number where other threads find it,
 *	2. checks that the descriptor has no repoll set,
 *	3. waits in the kernel.
 *
 * A thread that creates the repoll set stores the set first, and then wakes all threads that it
 * finds. The store and the load of each thread are ordered: either the waiting thread finds the
 * repoll set in step 2, or the other thread finds the waiting thread (ADR 0068). The thread that
 * creates the set orders the steps of the others by barrier_threads(), so that a wait has no atomic
 * operation.
 */

/*
 * A thread in epoll_wait(2) is woken by a readable descriptor in the kernel's set, the wake-up
 * descriptor. It is level-triggered, so that it wakes all threads one after the other, and stays in
 * the set until the last of them has left the kernel. Its event has this data. The number is
 * random, so that no program uses it. epoll_sleep_filter() removes the event.
 */
#define EPOLL_WAKE_DATA UINT64_C(0x6fd2b4095e1c83a7)

struct epoll_sleeper;

/*
 * Step 1 of an epoll_wait(2), and its end. NULL: out of memory. epoll_sleep_end() is also the
 * cleanup handler of a cancelled thread, and does not change errno.
 */
struct epoll_sleeper *epoll_sleep_begin(int number);
void epoll_sleep_end(void *sleeper);

/* Removes the events of wake-up descriptors. Returns the number of the other events. */
static inline int epoll_sleep_filter(struct epoll_event *events, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		if (events[i].data.u64 == EPOLL_WAKE_DATA)
			continue;
		if (kept != i)
			events[kept] = events[i];
		kept++;
	}
	return kept;
}

/*
 * Pending events of a kernel's set, without those of wake-up descriptors. Does not wait. The
 * number, or -1 and errno.
 */
int epoll_sleep_look(int kernel_fd, struct epoll_event *events, int most);

/*
 * A thread in poll(2) or select(2) with epoll descriptors among its descriptors. It is woken by the
 * wake-up descriptor of one of them, too. The object is not on the stack, because a signal handler
 * may leave the call by longjmp(3).
 */
struct epoll_poll;

/*
 * Step 1 of a poll(2), and its end. NULL: out of memory. epoll_poll_end() returns whether the
 * thread was woken: the events of the call may be those of a wake-up descriptor.
 * epoll_poll_cancel() is the cleanup handler of a cancelled thread.
 */
struct epoll_poll *epoll_poll_begin(const struct pollfd *fds, size_t count);
bool epoll_poll_end(struct epoll_poll *poll);
void epoll_poll_cancel(void *poll);

/* A wake-up descriptor of one kernel's set. Guarded by epoll_sets_lock. */
struct epoll_wake {
	struct list_head node; /* in the list of all, until it is closed */
	int fd;
	int kernel_fd;	   /* the kernel's set; -1: closed */
	unsigned sleepers; /* threads that have not left the kernel */
	/* a pointer of the owner of kernel_fd, which is NULL if there is no wake-up descriptor */
	struct epoll_wake **at;
};

/*
 * Adds a wake-up descriptor to a kernel's set. It is not readable yet, so that epoll_wake_all()
 * cannot fail. *at: set to the wake-up descriptor until it is closed. 0 or -errno.
 */
int epoll_wake_new(int kernel_fd, struct epoll_wake **at) __attribute__((warn_unused_result));
/*
 * Wakes the threads that wait for any of these numbers, which have got a repoll set. The wake-up
 * descriptor is closed when the last of them has left the kernel. The caller holds epoll_sets_lock.
 */
void epoll_wake_all(struct epoll_wake *wake, const int *numbers, size_t count);
/* Closes a wake-up descriptor that is not needed. The caller holds epoll_sets_lock. */
void epoll_wake_free(struct epoll_wake *wake);
/*
 * Whether a wake-up descriptor was readable at any time since epoll_wake_now() returned this value:
 * the kernel may have found a set readable without an event of the program.
 */
unsigned epoll_wake_now(void);
bool epoll_wake_since(unsigned then);
/*
 * Makes the kernel's sets unreadable that have no other event, until epoll_wake_resume() wakes the
 * threads again. The caller holds epoll_sets_lock in between.
 */
void epoll_wake_pause(void);
void epoll_wake_resume(void);
/* To be called before kernel_fd is closed. The caller holds epoll_sets_lock. */
void epoll_wake_orphan(struct epoll_wake *wake);

/*
 * In the child of a fork(), which has acquired epoll_sets_lock: the other threads and the wake-up
 * descriptors are the parent's.
 */
void epoll_sleep_after_fork_in_child(void);

/*
 * A number is closed, and the same file has another one: threads that wait for the first are found
 * by the second.
 */
void epoll_sleep_rename(int number, int other);

#endif
