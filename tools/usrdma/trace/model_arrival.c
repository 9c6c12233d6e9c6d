/* SPDX-License-Identifier: BSD-2-Clause */
#include "model_arrival.h"

/* Packets further back in time are not searched. */
#define FLIGHT_NS UINT64_C(1000000000)
/*
 * Packets that the network may have reordered: they were sent before a packet and arrived after it.
 */
#define REORDERED 16

struct item *model_last_arrival(struct item *items, const uint32_t *order, uint32_t count,
				const struct item *note)
{
	struct item *last = NULL;
	uint32_t arrived_count = 0;

	while (count && arrived_count < REORDERED) {
		struct item *item = &items[order[--count]];

		if (item->time_ns + FLIGHT_NS < note->time_ns)
			break;
		if (item->kind != ITEM_PACKET || item->side == note->side || !item->arrival_ns ||
		    item->arrival_ns > note->time_ns)
			continue;
		arrived_count++;
		if (!last || item->arrival_ns > last->arrival_ns)
			last = item;
	}
	return last;
}
