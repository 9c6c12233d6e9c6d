/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer.h"

#include <assert.h>
#include <stddef.h>

/*
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1986): a tree in which no node
 * has an earlier deadline than its parent. Two trees are melded: the root with the later deadline
 * becomes the first child of the other root. When a node is removed, its children are melded in
 * pairs from left to right, then the pairs from right to left. This order bounds the amortised
 * cost.
 */

void timer_heap_init(struct timer_heap *heap)
{
	*heap = (struct timer_heap){0};
}

void timer_init(struct timer *timer, void (*fn)(struct timer *timer, uint64_t now_ns))
{
	*timer = (struct timer){.fn = fn};
}

static struct timer *meld(struct timer *a, struct timer *b)
{
	struct timer *first = a, *later = b;

	if (!a)
		return b;
	if (!b)
		return a;
	if (b->deadline_ns < a->deadline_ns) {
		first = b;
		later = a;
	}
	later->prev = first;
	later->next = first->child;
	if (first->child)
		first->child->prev = later;
	first->child = later;
	return first;
}

/* Melds a list of siblings into one tree. */
static struct timer *meld_siblings(struct timer *first)
{
	struct timer *pairs = NULL, *root = NULL;

	while (first) {
		struct timer *a = first, *b = first->next, *pair;

		first = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		pair = meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct timer *pair = pairs;

		pairs = pair->next;
		pair->next = NULL;
		root = meld(root, pair);
	}
	if (root)
		root->prev = NULL;
	return root;
}

void timer_cancel(struct timer_heap *heap, struct timer *timer)
{
	struct timer *below;

	if (!timer->is_pending)
		return;
	timer->is_pending = false;
	below = meld_siblings(timer->child);
	timer->child = NULL;
	if (heap->root == timer) {
		heap->root = below;
		return;
	}
	if (timer->prev->child == timer)
		timer->prev->child = timer->next;
	else
		timer->prev->next = timer->next;
	if (timer->next)
		timer->next->prev = timer->prev;
	timer->next = NULL;
	timer->prev = NULL;
	heap->root = meld(heap->root, below);
}

void timer_add(struct timer_heap *heap, struct timer *timer, uint64_t deadline_ns)
{
	assert(timer->fn);
	timer_cancel(heap, timer);
	if (deadline_ns <= heap->expiring_ns)
		deadline_ns = heap->expiring_ns + 1;
	timer->deadline_ns = deadline_ns;
	timer->child = NULL;
	timer->next = NULL;
	timer->prev = NULL;
	timer->is_pending = true;
	heap->root = meld(heap->root, timer);
}

uint64_t timer_next_deadline(const struct timer_heap *heap)
{
	return heap->root ? heap->root->deadline_ns : TIMER_NEVER_NS;
}

unsigned timer_expire(struct timer_heap *heap, uint64_t now_ns)
{
	unsigned count = 0;

	heap->expiring_ns = now_ns;
	while (heap->root && heap->root->deadline_ns <= now_ns) {
		struct timer *timer = heap->root;

		timer_cancel(heap, timer);
		timer->fn(timer, now_ns);
		count++;
	}
	heap->expiring_ns = 0;
	return count;
}
