/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/lanes.h"

#include <assert.h>

#include "link/gso.h"

void lanes_begin(struct lanes *lanes)
{
	/* 0 is the batch of a range that was never used. */
	lanes->batch = lanes->batch == UINT32_MAX ? 1 : lanes->batch + 1;
	lanes->count = 0;
}

/* The lane with this flow and length from `first` on, or a new one. */
static unsigned int lanes_find(struct lanes *lanes, unsigned int first,
			       const struct link_path *path, uint32_t bytes)
{
	unsigned int count = (unsigned int)lanes->count;
	unsigned int searched = count > LANES_SEARCHED ? count - LANES_SEARCHED : 0;
	uint8_t flow = (uint8_t)count;

	for (unsigned int i = searched; i < count; i++) {
		const struct burst_lane *lane = &lanes->of[i];

		if (!gso_is_same_flow(lane->path, path))
			continue;
		if (lane->bytes == bytes && i >= first)
			return i;
		flow = lane->flow;
	}
	assert(count < LANES_MAX);
	lanes->of[count] = (struct burst_lane){.path = path, .bytes = bytes, .flow = flow};
	lanes->count++;
	return count;
}

unsigned int lanes_join(struct lanes *lanes, struct lane_range *range, const struct link_path *path,
			uint32_t bytes, bool may_overtake, bool *is_ahead)
{
	bool is_first = range->batch != lanes->batch;
	unsigned int lane;

	if (is_first)
		*range = (struct lane_range){.batch = lanes->batch};
	lane = lanes_find(lanes, may_overtake ? range->first : range->last, path, bytes);
	*is_ahead = lane < range->last;
	if (!is_first && lane != range->last) {
		lanes->of[range->last].is_bound = true;
		lanes->of[lane].is_bound = true;
	}
	if (is_first || lane > range->last)
		range->last = (uint8_t)lane;
	if (!may_overtake)
		range->first = (uint8_t)lane;
	return lane;
}

void lanes_follow(struct lanes *lanes, struct lane_range *range, const struct lane_range *other)
{
	if (other->batch != lanes->batch)
		return;
	if (range->batch != lanes->batch) {
		*range = *other;
	} else {
		lanes->of[range->last].is_bound = true;
		lanes->of[other->last].is_bound = true;
		if (other->last > range->last)
			range->last = other->last;
	}
	range->first = range->last;
}

/*
 * Whether lane a is sent before lane b. stays[i]: lane i is not moved, because its packets keep
 * their order.
 */
static bool lanes_precede(const struct lanes *lanes, const bool *stays, uint8_t a, uint8_t b)
{
	const struct burst_lane *lane = &lanes->of[a], *other = &lanes->of[b];

	if (lane->flow != other->flow)
		return lane->flow < other->flow;
	if (stays[a] != stays[b])
		return stays[a];
	if (!stays[a] && lane->bytes != other->bytes)
		return lane->bytes > other->bytes;
	return a < b;
}

/* sorted[i] is the i-th lane to be sent. */
static void lanes_sort(const struct lanes *lanes, uint8_t *sorted)
{
	bool stays[LANES_MAX];

	for (int i = 0; i < lanes->count; i++) {
		const struct burst_lane *lane = &lanes->of[i];
		int at = i;

		stays[i] = lane->is_bound || (i && stays[i - 1] && lane[-1].flow == lane->flow &&
					      lane[-1].bytes > lane->bytes);
		for (; at && lanes_precede(lanes, stays, (uint8_t)i, sorted[at - 1]); at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = (uint8_t)i;
	}
}

bool lanes_order(const struct lanes *lanes, const uint8_t *lane_of, int n, uint8_t *order)
{
	uint8_t sorted[LANES_MAX], next[LANES_MAX] = {0}, sum = 0;
	bool is_other = false;

	lanes_sort(lanes, sorted);
	for (int i = 0; i < n; i++)
		next[lane_of[i]]++;
	for (int i = 0; i < lanes->count; i++) {
		uint8_t count = next[sorted[i]];

		next[sorted[i]] = sum;
		sum = (uint8_t)(sum + count);
	}
	for (int i = 0; i < n; i++) {
		is_other |= next[lane_of[i]] != i;
		order[next[lane_of[i]]++] = (uint8_t)i;
	}
	return is_other;
}
