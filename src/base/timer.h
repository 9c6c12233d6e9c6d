/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_TIMER_H
#define USRDMA_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Deadlines, nearest first, as a pairing heap of nodes embedded in the objects they belong to: adding
 * takes O(1) and cannot fail, cancelling and expiring take O(log n) amortised, and nothing is allocated.
 * No clock inside: callers pass monotonic ns. No lock inside: the owner of the heap guards it and all
 * timers on it.
 */
#define TIMER_NEVER_NS UINT64_MAX

/*
 * Owned by the object it is embedded in, which cancels it before it dies. fn is called with the timer no
 * longer pending; it may add or cancel any timer and free this one's object.
 */
struct timer {
	struct timer *child; /* first of those that are due later */
	struct timer *next;  /* sibling */
	struct timer *prev;  /* sibling before, or the parent of the first child */
	uint64_t deadline_ns;
	void (*fn)(struct timer *timer, uint64_t now_ns);
	bool is_pending;
};

struct timer_heap {
	struct timer *root;
	uint64_t expiring_ns; /* the `now` of the timer_expire that is under way, or 0 */
};

void timer_heap_init(struct timer_heap *heap);
void timer_init(struct timer *timer, void (*fn)(struct timer *timer, uint64_t now_ns));

/* Arms the timer, or moves it if it is pending. One armed by a callback for a time that has come fires
 * in the next timer_expire, so that expiring ends. */
void timer_add(struct timer_heap *heap, struct timer *timer, uint64_t deadline_ns);

/* Harmless if the timer is not pending. */
void timer_cancel(struct timer_heap *heap, struct timer *timer);

/* The nearest deadline, or TIMER_NEVER_NS. */
uint64_t timer_next_deadline(const struct timer_heap *heap);

/* Calls every timer whose deadline is <= now_ns, nearest first; returns how many. */
unsigned timer_expire(struct timer_heap *heap, uint64_t now_ns);

#endif
