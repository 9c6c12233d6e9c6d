/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TIMER_H
#define USRDMA_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Timers in a pairing heap; the nodes are embedded in objects. Adding takes O(1) and cannot fail;
 * cancelling and expiring take O(log n) amortised. No memory is allocated. Callers pass the time in
 * monotonic nanoseconds. The owner's lock guards the heap and all its timers.
 */
#define TIMER_NEVER_NS UINT64_MAX

/*
 * Owned by the object that embeds it, which cancels the timer before it is freed. When fn is
 * called, the timer is not pending. fn may add or cancel any timer, and free the object of this
 * one.
 */
struct timer {
	struct timer *child; /* first child; children have later or equal deadlines */
	struct timer *next;  /* sibling */
	struct timer *prev;  /* previous sibling; of a first child, the parent */
	uint64_t deadline_ns;
	void (*fn)(struct timer *timer, uint64_t now_ns);
	bool is_pending;
};

struct timer_heap {
	struct timer *root;
	uint64_t expiring_ns; /* now_ns of the current timer_expire(), or 0 */
};

void timer_heap_init(struct timer_heap *heap);
void timer_init(struct timer *timer, void (*fn)(struct timer *timer, uint64_t now_ns));

/*
 * Arms the timer; a pending timer gets the new deadline. If a callback arms a timer whose deadline
 * has passed, the timer expires in the next timer_expire(), so that timer_expire() terminates.
 */
void timer_add(struct timer_heap *heap, struct timer *timer, uint64_t deadline_ns);

/* Cancels the timer; no effect if it is not pending. */
void timer_cancel(struct timer_heap *heap, struct timer *timer);

/* The nearest deadline, or TIMER_NEVER_NS. */
uint64_t timer_next_deadline(const struct timer_heap *heap);

/* Calls fn of all timers whose deadline is <= now_ns, earliest first; returns their number. */
unsigned timer_expire(struct timer_heap *heap, uint64_t now_ns);

#endif
