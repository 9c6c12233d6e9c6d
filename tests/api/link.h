/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_LINK_H
#define USRDMA_TESTS_API_LINK_H

#include "peer.h"

/* This process's side of a connection to a peer process. */
struct link {
	struct pair pair;
	struct side *side;
	struct peer peer;
};

void link_open(struct link *link, struct api *api, enum peer_flavour flavour,
	       struct pair_options options);
void link_close(struct link *link);

/*
 * For each flavour: opens a connection to a peer of this flavour, calls body and closes the
 * connection.
 */
void for_each_flavour(struct api *api, void (*body)(struct link *link),
		      struct pair_options options);

/*
 * The engine thread of this process may access our memory for a peer, and the peer's reply arrives
 * by another channel. This function takes the engine lock, so that a sanitizer that observes only
 * this process sees the order.
 */
void settle(const struct link *link);

/*
 * Make a WR for an operation from this process on the peer's buffer, and the command for the
 * opposite direction.
 */
struct ibv_send_wr to_peer(const struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   uint64_t offset, uint64_t wr_id);
struct peer_command from_peer(const struct link *link, enum ibv_wr_opcode opcode, uint64_t offset,
			      uint32_t length, uint64_t wr_id);

/* Performs READs and WRITEs of `bytes` bytes, each of which must succeed. */
void one_sided_work_goes_on(struct link *link, uint32_t bytes);

#endif
