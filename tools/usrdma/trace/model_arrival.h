/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_TRACE_MODEL_ARRIVAL_H
#define TOOLS_USRDMA_TRACE_MODEL_ARRIVAL_H

#include "model.h"

/*
 * The packets of one connection in the order of their arrival, by sender. They are sorted once, so
 * that a trace with millions of packets and of dropped packets is searched in a short time. Owned
 * by model_follow().
 */
struct arrivals {
	struct item *items;
	struct arrival *sorted[2];
	uint32_t count[2];
};

/* Whether the item is a rule of `usrdma fault` that dropped a packet at the receiver. */
bool arrivals_is_drop(const struct item *item);

/*
 * order: the items of the connection, as `count` indices of `items`. Sorts nothing if no item is a
 * drop at the receiver. 0 or -ENOMEM.
 */
int arrivals_open(struct arrivals *arrivals, struct item *items, const uint32_t *order,
		  uint32_t count) __attribute__((warn_unused_result));
void arrivals_close(struct arrivals *arrivals);

/*
 * The packet that a rule dropped at the side of `note`: the event has no PSN, but the receiver
 * recorded the packet directly before. This is the packet of the other side that arrived last;
 * NULL: none arrived in the millisecond before the note.
 */
struct item *arrivals_dropped(const struct arrivals *arrivals, const struct item *note);

#endif
