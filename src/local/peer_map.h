/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_MAP_H
#define USRDMA_LOCAL_PEER_MAP_H

#include <stdint.h>

struct peer;

/*
 * The initiator's half of mapped memory: the memory objects of a peer (segment.shares) that this
 * process has mapped. An object is mapped with its first use and unmapped when the peer does not
 * publish it any more. All functions with a `struct peer` are called with the lock of the peer's
 * shard held.
 */

/* A part of an object, as an MR entry of the peer describes it. Nothing in it is trusted. */
struct peer_range {
	uint32_t share; /* segment_mr.share; 0: not determined */
	uint32_t generation;
	uint64_t offset; /* bytes */
	uint32_t bytes;
};

/* The address of the range in this process. NULL: the object is not mapped and cannot be mapped. */
uint8_t *peer_map_at(struct peer *peer, const struct peer_range *range);

/*
 * An MR whose object is not determined was used. After several uses, requests the object from the
 * peer.
 */
void peer_map_request(struct peer *peer, uint32_t rkey);

/*
 * An access to the mapped object raised SIGBUS: unmaps it. It is not mapped again until the peer
 * publishes it again.
 */
void peer_map_drop(struct peer *peer, uint32_t share);

/* Unmaps the objects that the peer does not publish any more. */
void peer_map_sweep(struct peer *peer);

/* Unmaps all objects of the peer. */
void peer_map_close(struct peer *peer);

#endif
