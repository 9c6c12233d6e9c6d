/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/lanes.h"

#include <assert.h>

#include "link/gso.h"

void lanes_begin(struct lanes *lanes)
{
	/* 0 is the batch of a range that was never used. */
	lanes->batch = lanes->batch == UINT32_MAX ? 1 : lanes->batch + 1;
	lanes->count = 0;
	lanes->is_sorted = true;
}

static unsigned int lanes_find(struct lanes *lanes, unsigned int first,
			       const struct link_path *path, uint32_t bytes)
{
	unsigned int count = (unsigned int)lanes->count;

	if (count > LANES_SEARCHED && first < count - LANES_SEARCHED)
		first = count - LANES_SEARCHED;
	for (unsigned int i = first; i < count; i++) {
		if (lanes->of[i].bytes == bytes && gso_is_same_flow(lanes->of[i].path, path))
			return i;
	}
	assert(count < LANES_MAX);
	lanes->of[count] = (struct burst_lane){path, bytes};
	lanes->count++;
	return count;
}

unsigned int lanes_join(struct lanes *lanes, struct lane_range *range, const struct link_path *path,
			uint32_t bytes, bool may_overtake, bool *is_ahead)
{
	unsigned int lane;

	if (range->batch != lanes->batch)
		*range = (struct lane_range){.batch = lanes->batch};
	lane = lanes_find(lanes, may_overtake ? range->first : range->last, path, bytes);
	*is_ahead = lane < range->last;
	if (lane + 1 < (unsigned int)lanes->count)
		lanes->is_sorted = false;
	if (lane > range->last)
		range->last = (uint8_t)lane;
	if (!may_overtake)
		range->first = (uint8_t)lane;
	return lane;
}

void lanes_order(const struct lanes *lanes, const uint8_t *lane_of, int n, uint8_t *order)
{
	uint8_t next[LANES_MAX + 1] = {0};

	for (int i = 0; i < n; i++)
		next[lane_of[i] + 1]++;
	for (int lane = 0; lane < lanes->count; lane++)
		next[lane + 1] = (uint8_t)(next[lane + 1] + next[lane]);
	for (int i = 0; i < n; i++)
		order[next[lane_of[i]]++] = (uint8_t)i;
}
