/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_H
#define USRDMA_LOCAL_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/timer.h"
#include "local/counters.h"
#include "local/ring.h"

struct channel_copies;
struct channel_wakes;
struct doorbell;
struct engine;
struct local;
struct pair_memory;
struct peer_maps;
struct segment;

#define PEER_REFUSALS 64

/* A pending CELL_NOT_READY for a request to a QP that does not exist or cannot receive. */
struct refusal {
	uint32_t to_qpn;
	uint32_t from_qpn;
	uint32_t ssn;
	bool acknowledges; /* the preceding messages (CELL_ACKNOWLEDGES) */
};

#define PEER_SELF 2

/*
 * A process to which this process is connected, or this process itself. QPs of different shards
 * (core/engine/shard.h) have FIFOs of their own, and therefore a peer of their own for each pair of
 * shards (peer_shard.c). Freed when the process has ended, no QP is bound to it and its last access
 * to our memory is over.
 */
struct peer {
	struct engine *engine;
	struct list_head shard_node; /* local_shard.peers of our_shard */
	/* Each poll of an empty CQ reads the fields up to has_sent. */
	struct ring_reader rx;
	/* struct local_qp.blocked_node: requesters that found tx full or used up TURN_BYTES. */
	struct list_head blocked;
	struct list_head responding; /* struct local_qp.response_node: responses are pending */
	/* datagrams have found no space in tx since this time; 0: tx has space */
	uint64_t blocked_since_ns;
	uint32_t refusal_count;
	bool xrc_forward_waits; /* a message of core/qp/xrc_forward.h found no space in tx */
	/* the doorbell for cells that only respond waits for the application's reply */
	bool has_deferred_doorbell;
	bool has_waiting_acks; /* waiting_acks is not empty */
	bool has_sent;	       /* cells were committed since the last peer_ring_doorbell() */
	uint32_t our_shard;    /* of the QPs of this process that use these FIFOs */
	uint64_t *counters;    /* by enum local_counter: of the shard */
	struct list_head node; /* local.peers */
	/* the one of shard 0 of both processes, which owns what all share; itself: this is it */
	struct peer *main;
	uint32_t their_shard;
	uint32_t side;		/* of ring_pair.rings; PEER_SELF: this process */
	uint32_t links;		/* of main: number of other peers that refer to it */
	uint32_t shards_opened; /* of main: bits of shards_used for which there are peers */
	bool is_datagrams_turn; /* datagrams get space in tx before requests and XRC messages */
	bool is_gone;
	bool share_notice_waits; /* a CELL_SHARE_GONE found no space in tx */
	uint64_t gone_ns;	 /* when is_gone was set */
	uint32_t slot;
	uint64_t pair_id;
	pid_t pid;
	/* process_vm_readv() and process_vm_writev() work; segment is mapped */
	bool can_reach_memory;
	pid_t engine_tid;    /* the peer's engine thread, the target of both calls */
	uint64_t life_word;  /* of the peer's segment_life while its engine thread runs */
	bool may_reach_ours; /* same user: the peer has our segment and may access our memory */
	/* rx.shared->admitted was set: an access of the peer may still be in progress */
	bool was_admitted;
	/* struct local_qp.ack_node: the doorbell for their ACKs waits (ack_wait.c) */
	struct list_head waiting_acks;
	struct channel_wakes *wakes;	       /* channel_wake.c; NULL: none yet */
	struct channel_copies *channel_copies; /* of main (channel_copy.c); NULL: none yet */
	atomic_uint channels_taken;	       /* of main: number of copies that were ever taken */
	uint32_t woken_end;	/* tx.head after the last message that a woken application reads */
	struct peer_maps *maps; /* of the peer's memory objects (peer_map.h); NULL: none yet */
	struct pair_memory *pair;
	/*
	 * The peer's segment, read-only; NULL: only the FIFOs can be used. For this process its own
	 * segment.
	 */
	const struct segment *segment;
	struct doorbell
		*doorbell; /* our end of the pair's socket; NULL if the peer is this process */
	uint64_t doorbell_watch;    /* of its descriptor; 0: not watched */
	bool is_doorbell_checked;   /* a process of another user can send descriptors through it */
	struct list_head qps;	    /* struct local_qp.node */
	struct timer blocked_timer; /* expires when datagrams that wait for space are dropped */
	/* while datagrams wait: how long they may; otherwise: what is left of it */
	uint64_t wait_left_ns;
	uint64_t unblocked_ns; /* when they last got space; 0: they never waited */
	struct ring_writer tx;
	struct refusal refusals[PEER_REFUSALS];
};

static inline void peer_count(struct peer *peer, enum local_counter counter)
{
	peer->counters[counter]++;
}

/*
 * Whether a QP may use this peer although no process owned the remote QPN when the QP was bound.
 * The application specified only a QPN; a process that acquires the QPN later is accepted only if
 * it belongs to the same user.
 */
static inline bool peer_may_be_late(const struct peer *peer)
{
	return peer->may_reach_ours;
}

/*
 * As ring_reserve(), for requests, READ responses and XRC messages: leaves space for datagrams that
 * wait for it.
 */
static inline struct cell *peer_reserve(struct peer *peer, uint32_t far_bytes, uint8_t **far)
{
	if (peer->blocked_since_ns && !ring_has_space(&peer->tx, far_bytes + RING_FRAGMENT_BYTES))
		return NULL;
	return ring_reserve(&peer->tx, far_bytes, far);
}

/* A peer of shard 0, in no list yet. NULL: no memory. */
struct peer *peer_new(struct engine *engine, uint32_t slot);
/* The connected peer of a slot; NULL: not connected. */
struct peer *peer_find(struct engine *engine, uint32_t slot);
/* Connects an unresolved peer and waits for the daemon's reply. Called without engine.lock. */
void peer_request(struct engine *engine, uint32_t slot);
/* Registers the handlers of the notices about peers. 0 or -errno. */
int peer_register_notices(struct engine *engine) __attribute__((warn_unused_result));
void peer_not_taken_timer(struct timer *timer, uint64_t now_ns);
void peer_unref_if_gone(struct peer *peer);
/* Frees the peers whose process has ended and whose last access to our memory is over. */
void peer_free_gone(struct local *local);
void peer_ring_doorbell(struct peer *peer);
void peer_close_all(struct local *local);
void peer_disown_all(struct local *local); /* in the child of a fork(): closes the doorbells */

#endif
