/* SPDX-License-Identifier: BSD-2-Clause */
#include "model_arrival.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"

/* From the record of a packet to the rule that drops it. */
#define DROP_DISTANCE_NS UINT64_C(1000000)

struct arrival {
	uint64_t time_ns;
	uint32_t item; /* index */
};

bool arrivals_is_drop(const struct item *item)
{
	return item->kind == ITEM_FAULT && item->note.status == FAULT_PACKET_RECEIVE &&
	       item->note.opcode == FAULT_DROP;
}

/*
 * 0: the trace does not contain the arrival. If only the receiver is traced, its record is the
 * item.
 */
static uint64_t arrival_of(const struct item *item)
{
	if (item->kind != ITEM_PACKET)
		return 0;
	return item->is_received && !item->is_sent ? item->time_ns : item->arrival_ns;
}

static int by_arrival(const void *left, const void *right)
{
	const struct arrival *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->item < b->item ? -1 : a->item > b->item;
}

static bool has_drop(const struct item *items, const uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (arrivals_is_drop(&items[order[i]]))
			return true;
	}
	return false;
}

static int sort_side(struct arrivals *arrivals, uint8_t side, const uint32_t *order, uint32_t count)
{
	struct arrival *sorted = malloc(count * sizeof(*sorted));
	uint32_t n = 0;

	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t time_ns = arrival_of(&arrivals->items[order[i]]);

		if (time_ns && arrivals->items[order[i]].side == side)
			sorted[n++] = (struct arrival){time_ns, order[i]};
	}
	qsort(sorted, n, sizeof(*sorted), by_arrival);
	arrivals->sorted[side] = sorted;
	arrivals->count[side] = n;
	return 0;
}

int arrivals_open(struct arrivals *arrivals, struct item *items, const uint32_t *order,
		  uint32_t count)
{
	int ret;

	*arrivals = (struct arrivals){.items = items};
	if (!has_drop(items, order, count))
		return 0;
	ret = sort_side(arrivals, 0, order, count);
	if (!ret)
		ret = sort_side(arrivals, 1, order, count);
	if (ret)
		arrivals_close(arrivals);
	return ret;
}

void arrivals_close(struct arrivals *arrivals)
{
	free(arrivals->sorted[0]);
	free(arrivals->sorted[1]);
	*arrivals = (struct arrivals){0};
}

struct item *arrivals_dropped(const struct arrivals *arrivals, const struct item *note)
{
	const struct arrival *sorted = arrivals->sorted[!note->side];
	uint32_t low = 0, high = arrivals->count[!note->side];

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (sorted[middle].time_ns <= note->time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || note->time_ns - sorted[low - 1].time_ns > DROP_DISTANCE_NS)
		return NULL;
	return &arrivals->items[sorted[low - 1].item];
}
