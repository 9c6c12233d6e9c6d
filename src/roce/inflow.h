/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_INFLOW_H
#define USRDMA_ROCE_INFLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"
#include "wire/icrc.h"

/*
 * State to verify the ICRC of packets from one sender to one local address: the sender's source
 * port and its don't-fragment bit. The ICRC covers that bit, but a UDP socket does not report it,
 * so it is inferred from the ICRC. Owned by the receiving QP or by struct roce_datagrams.
 */
struct roce_inflow {
	struct icrc_flow flow; /* of src_port */
	uint16_t src_port;     /* 0: no packet received yet */
	bool dont_fragment;
	/* consecutive packets whose ICRC matches the other value of dont_fragment */
	unsigned other_df;
};

void inflow_init(struct roce_inflow *inflow);

/* Whether the packet's ICRC is correct. *ip_id: the IPv4 identification for which it is. */
bool inflow_is_whole(struct roce_inflow *inflow, const struct icrc_solver *solver,
		     const struct link_rx *rx, uint16_t *ip_id) __attribute__((warn_unused_result));

#endif
