/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_LOCAL_H
#define USRDMA_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "ipc/msg.h"
#include "ipc/segment.h"
#include "local/counters.h"
#include "local/peer_connect.h"

struct peer;
struct transport;

/*
 * The same-host transport: messages between two processes of one daemon, without packets and PSNs.
 * The requester executes RDMA READ and WRITE in the peer's memory if the kernel permits it. All
 * other operations are FIFO elements (struct cell). engine.lock guards the state of this transport,
 * except what belongs to the QPs of another shard than 0 (core/engine/shard.h).
 */

#define LOCAL_TRANSPORT 0 /* its number, see core/engine/transport.h */

extern const struct transport local_transport;

/* What the lock of one shard guards; of shard 0, engine.lock. */
struct local_shard {
	struct list_head peers; /* struct peer.shard_node; changes with engine.lock held, too */
	/* not added to local.counters yet; shard 0: not used */
	uint64_t counters[LOCAL_COUNTER_COUNT];
	uint8_t unused[64]; /* the next shard is in other cache lines */
};

/*
 * The state of this transport in one process, engine.transport_state[LOCAL_TRANSPORT]. Allocated by
 * the transport's open(), and freed by its close(). Guarded by engine.lock, except `shards`.
 */
struct local {
	struct engine *engine;
	struct segment *segment; /* of this process, writable */
	/* the list of unused entries below qps_end: the place of its first entry; 0: none */
	uint32_t unused_qp;
	uint32_t unused_mr; /* the same of the MR entries */
	uint32_t share_users
		[SEGMENT_SHARES]; /* MRs of each memory object; an arena counts as one more */
	/*
	 * [SEGMENT_MRS], by MR entry: the handle of its memory (base/arena.h), or NULL; NULL: no
	 * region had one yet
	 */
	void **arena_kept;
	uint64_t *counters; /* by enum local_counter; in the segment, or in `unshown` */
	uint64_t unshown[LOCAL_COUNTER_COUNT];
	/* peers read it to verify that our pid and address space match the segment */
	uint64_t probe;
	struct list_head peers;
	struct local_shard shards[SHARDS];
	struct peer *by_slot[IPC_SLOTS]; /* peers of shard 0 of both processes */
	struct peer_connect peer_connects[IPC_SLOTS];
	uint32_t peer_connect_count; /* outstanding requests: began_ns is not 0 */
	/*
	 * The next retry of a connect-peer request, or the next expiry of datagrams that wait for
	 * one.
	 */
	struct timer peer_connect_timer;
	/* struct local_qp.blocked_node: requesters that wait for a connect-peer request to end. */
	struct list_head seeking;
	/* set while peer_connect_end() handles a failure for that slot; 0: not set */
	uint32_t unresolved_slot;
	/*
	 * By slot, the id of a pair that this process could not map, until the daemon has received
	 * the report; 0: none.
	 */
	uint64_t not_taken[IPC_SLOTS];
	struct timer not_taken_timer; /* the next attempt to report such pairs */
	struct timer ack_timer;	      /* ends the waits of ack_wait.c */
	struct list_head delayed;     /* datagrams that a fault delays (fault_datagram.c) */
	uint32_t delayed_count;
	uint64_t delayed_until_ns; /* the deadline of the last one */
	bool is_polling; /* this process has set reader_polls in the FIFOs that it reads */
};

static inline struct local *local_of(const struct engine *engine)
{
	return engine->transport_state[LOCAL_TRANSPORT];
}

static inline void local_count(struct engine *engine, enum local_counter counter)
{
	local_of(engine)->counters[counter]++;
}

#endif
