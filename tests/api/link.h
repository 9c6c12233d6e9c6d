/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_LINK_H
#define USRDMA_TESTS_API_LINK_H

#include "peer.h"

/* This process's side of a connection to a peer. */
struct link {
	struct pair pair;
	struct side *side;
	struct peer peer;
};

void link_open(struct link *link, struct api *api, enum peer_flavour flavour,
	       struct pair_options options);
void link_close(struct link *link);

/* Opens a link to a peer of each flavour in turn, runs body over it, and closes it. */
void for_each_flavour(struct api *api, void (*body)(struct link *link),
		      struct pair_options options);

/* It may be our own engine that reads and writes our memory for a peer, and the peer's word on that comes another way:
 * asks the engine something, so that whoever watches this process alone sees the order too. */
void settle(const struct link *link);

/* A WR from here to the peer's buffer, and the command for one from there to ours. */
struct ibv_send_wr to_peer(const struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   uint64_t offset, uint64_t wr_id);
struct peer_command from_peer(const struct link *link, enum ibv_wr_opcode opcode, uint64_t offset,
			      uint32_t length, uint64_t wr_id);

/* READs and WRITEs, each of which must succeed. */
void one_sided_work_goes_on(struct link *link);

#endif
