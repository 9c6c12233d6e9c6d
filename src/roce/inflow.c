/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/inflow.h"

#include <string.h>

/*
 * A corrupted packet may by chance match the other don't-fragment bit. After this many consecutive
 * matches the sender is assumed to use the other bit.
 */
#define OTHER_DF_IN_A_ROW 3

void inflow_init(struct roce_inflow *inflow)
{
	memset(inflow, 0, sizeof(*inflow));
	inflow->dont_fragment = true;
}

bool inflow_is_whole(struct roce_inflow *inflow, const struct icrc_solver *solver,
		     const struct link_rx *rx, uint16_t *ip_id)
{
	if (!inflow->src_port || inflow->src_port != rx->src_port) {
		icrc_flow_init(&inflow->flow, rx->remote_gid, rx->local_gid, rx->src_port,
			       PACKET_UDP_PORT);
		icrc_flow_set_dont_fragment(&inflow->flow, inflow->dont_fragment);
		inflow->src_port = rx->src_port;
	}
	switch (icrc_check(&inflow->flow, solver, rx->bytes, rx->len, ip_id)) {
	case ICRC_RIGHT:
		inflow->other_df = 0;
		return !rx->is_ip_id_known || !inflow->flow.is_ipv4 || *ip_id == rx->ip_id;
	case ICRC_OTHER_DONT_FRAGMENT:
		if (++inflow->other_df < OTHER_DF_IN_A_ROW)
			return false;
		inflow->other_df = 0;
		inflow->dont_fragment = !inflow->dont_fragment;
		icrc_flow_set_dont_fragment(&inflow->flow, inflow->dont_fragment);
		return false;
	default:
		return false;
	}
}
