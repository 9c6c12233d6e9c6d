/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_SHARE_H
#define USRDMA_LOCAL_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/segment.h"

struct engine;
struct local;
struct mr;
struct peer;

/*
 * The owner's half of mapped memory: which memory object backs an MR, published in segment.shares
 * (docs/memory-safety.md). Files and System V segments are published. The peer determines which of
 * them it maps (peer_map.h).
 */

/*
 * Sets the share of the MR's entry before the entry is published. Memory of the preloaded allocator
 * has an object at once. For other memory, the first peer that uses the region repeatedly requests
 * it, so that registration takes no longer. engine.lock held.
 */
void share_publish(struct engine *engine, const struct mr *mr, struct segment_mr *entry);

/*
 * A peer requests the object of the MR with this key. No effect if the key is not valid or the
 * object is determined. engine.lock held.
 */
void share_resolve(struct peer *peer, uint32_t rkey);

/*
 * The MR's entry was withdrawn. The last MR of an object ends its publication; peers that may map
 * it receive CELL_SHARE_GONE. All locks held.
 */
void share_release(struct engine *engine, struct segment_mr *entry);

/*
 * Sends the CELL_SHARE_GONE that the peer's FIFO had no space for, if there is one. The lock of the
 * peer's shard held.
 */
void share_send_notice(struct peer *peer);

#endif
