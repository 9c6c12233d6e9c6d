/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_INFLOW_H
#define USRDMA_ROCE_INFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"
#include "wire/icrc.h"

/*
 * Packets from one sender to one local address, as far as their ICRC is concerned: which source port it sends from, and
 * whether with the don't-fragment bit, which no receiver sees. Owned by whoever receives from there.
 */
struct roce_inflow {
	struct icrc_flow flow; /* of src_port */
	uint16_t src_port;     /* 0: none yet */
	bool dont_fragment;
	unsigned other_df; /* packets in a row whose sender seems to have that bit otherwise */
};

void inflow_init(struct roce_inflow *inflow);

/* Whether the packet's ICRC is right. *ip_id is the IPv4 identification that it came under. */
bool inflow_is_whole(struct roce_inflow *inflow, const struct icrc_solver *solver,
		     const struct link_rx *rx, uint16_t *ip_id) __attribute__((warn_unused_result));

#endif
