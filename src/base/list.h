/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LIST_H
#define USRDMA_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A circular doubly linked list of nodes that are embedded in objects. The head is a node without
 * an object. The head of an empty list and a node that is in no list point to themselves, so a
 * second removal of a node has no effect. The owner of the head owns the list; the lock that guards
 * the head guards the list.
 */
struct list_head {
	struct list_head *prev;
	struct list_head *next;
};

#define LIST_HEAD_INIT(name)     \
	{                        \
		&(name), &(name) \
	}

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list_head *node)
{
	node->prev = node;
	node->next = node;
}

static inline bool list_is_empty(const struct list_head *head)
{
	return head->next == head;
}

/* Whether an initialised node is in a list. */
static inline bool list_is_linked(const struct list_head *node)
{
	return node->next != node;
}

static inline void list_insert_between(struct list_head *node, struct list_head *prev,
				       struct list_head *next)
{
	node->prev = prev;
	node->next = next;
	prev->next = node;
	next->prev = node;
}

static inline void list_add(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head, head->next);
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_insert_between(node, head->prev, head);
}

/* Removes the node from its list and initialises it. */
static inline void list_del(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add_tail(node, head);
}

/* Moves all nodes of `from` to the end of `to`, in order. */
static inline void list_splice_tail(struct list_head *from, struct list_head *to)
{
	if (list_is_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(ptr, type, member)	     container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)  list_entry((head)->prev, type, member)

#define list_for_each_entry(pos, head, member)                                                 \
	for (pos = list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head); \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

/* As above; the body may remove `pos`, and no other node, from the list. */
#define list_for_each_entry_safe(pos, tmp, head, member)                  \
	for (pos = list_entry((head)->next, __typeof__(*pos), member),    \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member); \
	     &pos->member != (head);                                      \
	     pos = tmp, tmp = list_entry(tmp->member.next, __typeof__(*pos), member))

#endif
