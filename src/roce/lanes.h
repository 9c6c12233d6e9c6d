/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_LANES_H
#define USRDMA_ROCE_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

/*
 * The order in which the packets of a batch are sent (docs/adr/0062). The packets of a lane have
 * one flow and one length, so that they form one GSO burst. The lanes are sent one after the other.
 * Packets of different sequences have no order among each other; a sequence is, for example, the
 * requests of one QP. A packet may join a lane before that of an earlier packet of its sequence
 * only if the peer buffers it. No I/O.
 *
 * The first packet of a lane is the end of the burst before it if it is shorter. A lane is bound if
 * it has packets of a sequence that has packets in another lane, too. The bound lanes of a flow
 * keep their order, and so do those that follow longer packets. The others are sent behind them,
 * the longest packets first.
 */

#define LANES_MAX 60
/* A packet joins one of the last lanes, so that the search is short. */
#define LANES_SEARCHED 8

/*
 * The lanes that the packets of a sequence are in. Those of another batch do not count. All zeros
 * at first.
 */
struct lane_range {
	uint32_t batch;
	uint8_t first; /* packets of the sequence may join this lane and later ones */
	uint8_t last;
};

struct lanes {
	uint32_t batch; /* not 0 */
	int count;
	struct burst_lane {
		const struct link_path *path;
		uint32_t bytes;
		uint8_t flow; /* the first lane of the same flow */
		bool is_bound;
	} of[LANES_MAX];
};

/* Begins a batch without packets. To be called before the first one, too. */
void lanes_begin(struct lanes *lanes);

/*
 * The lane of the next packet. To be called at most LANES_MAX times for each batch. may_overtake:
 * the peer buffers the packet until those before it have arrived. is_ahead: packets of the sequence
 * that precede it are in a later lane.
 */
unsigned int lanes_join(struct lanes *lanes, struct lane_range *range, const struct link_path *path,
			uint32_t bytes, bool may_overtake, bool *is_ahead);

/* Later packets of `range` are sent after the packets of `other` that are in the batch. */
void lanes_follow(struct lanes *lanes, struct lane_range *range, const struct lane_range *other);

/*
 * order[i] is the index of the packet that is sent as the i-th one, by the lanes of all n packets.
 * false: the packets are in order.
 */
bool lanes_order(const struct lanes *lanes, const uint8_t *lane_of, int n, uint8_t *order);

#endif
