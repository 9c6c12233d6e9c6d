/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_LOCAL_H
#define USRDMA_LOCAL_LOCAL_H

#include <sys/types.h>

#include "base/list.h"
#include "base/timer.h"
#include "core/datagram.h"
#include "core/engine.h"
#include "core/execute.h"
#include "core/objects.h"
#include "core/opcode.h"
#include "core/reply_wait.h"
#include "core/vendor_err.h"
#include "core/xrc_forward.h"
#include "ipc/segment.h"
#include "local/ring.h"

/*
 * The same-host transport: messages between two processes of one daemon, without packets and PSNs.
 * The requester executes RDMA READ and WRITE in the peer's memory if the kernel permits it. All
 * other operations are FIFO elements (struct cell). engine.lock guards the state of this transport,
 * except what belongs to the QPs of another shard than 0 (core/shard.h).
 */

#define LOCAL_TRANSPORT 0 /* its number, see core/transport.h */

extern const struct transport local_transport;

/* The counters of this transport, shown by `usrdma status`. */
enum local_counter {
	LOCAL_MESSAGES_SENT, /* requests and datagrams sent through a FIFO */
	LOCAL_MESSAGES_RECEIVED,
	/* READs, WRITEs and atomics that this process executed in a peer's memory */
	LOCAL_ONESIDED,
	LOCAL_MAPPED,	     /* of these, in memory that this process has mapped */
	LOCAL_MAPPED_FAULTS, /* accesses to mapped memory that ended with SIGBUS */
	LOCAL_RNR_NAKS_SENT,
	LOCAL_RNR_NAKS_RECEIVED,
	LOCAL_RETRIES,
	LOCAL_QP_ERRORS,
	LOCAL_BAD_CELLS, /* dropped: malformed, or refused without space for the refusal */
	/* lost: no process has the QPN, or the peer does not empty its FIFO */
	LOCAL_DATAGRAMS_LOST,
	LOCAL_DATAGRAMS_SOURCE,	     /* dropped: the source address does not belong to this host */
	LOCAL_DATAGRAMS_UNKNOWN_QPN, /* this and the following: dropped by the receiver, by cause */
	LOCAL_DATAGRAMS_NOT_UD,
	LOCAL_DATAGRAMS_QP_STATE,
	LOCAL_DATAGRAMS_QKEY,
	LOCAL_DATAGRAMS_NO_RECV,
	LOCAL_DATAGRAMS_RECV_TOO_SHORT,
	LOCAL_DATAGRAMS_BAD_RECV,
	LOCAL_COUNTER_COUNT
};

#define PEER_REFUSALS 64
#define RNR_CODE_NONE 255

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
 * (core/shard.h) have FIFOs of their own, and therefore a peer of their own for each pair of shards
 * (peer_shard.c). Freed when the process has ended, no QP is bound to it and its last access to our
 * memory is over.
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
	bool xrc_forward_waits; /* a message of core/xrc_forward.h found no space in tx */
	/* the doorbell for cells that only respond waits for the application's reply */
	bool has_deferred_doorbell;
	bool has_waiting_acks; /* waiting_acks is not empty */
	bool has_sent;	       /* cells were committed since the last peer_ring_doorbell() */
	uint32_t our_shard;    /* of the QPs of this process that use these FIFOs */
	uint64_t *counters;    /* by enum local_counter: of the shard */
	struct list_head node; /* local.peers */
	struct peer *
		/*
		 * the one of shard 0 of both processes, which owns what all share; itself: this is
		 * it
		 */
		main;
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
	struct list_head
		/* struct local_qp.ack_node: the doorbell for their ACKs waits (ack_wait.c) */
		waiting_acks;
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

/* A responder resource: a request that was executed and whose own response is pending. */
struct response_job {
	uint32_t ssn;
	enum wr_response response;
	bool is_started;
	enum access_result failure; /* of a READ after it was accepted; ACCESS_OK: none */
	uint32_t rkey;
	uint64_t remote_addr;
	uint32_t length_bytes;
	uint32_t done_bytes;
	uint64_t original;
};

/* The event that a requester waits for before it sends again. */
enum local_wait {
	WAIT_NOTHING,
	WAIT_RNR,	/* the RNR timer, or the peer's CELL_READY */
	WAIT_NOT_READY, /* the ACK timeout: the peer's QP cannot receive */
};

struct local_hold;

struct local_qp {
	struct qp *qp;
	struct peer *peer; /* NULL: no process owned the peer's QPN so far */
	struct list_head node;
	struct list_head blocked_node; /* peer.blocked, or local.seeking */
	struct list_head response_node;
	struct {	      /* requester */
		uint32_t ssn; /* of the next message */
		bool has_ssn; /* set at the first transition to RTS */
		/* peer.tx.head after the last message whose payload is in cells */
		uint32_t cells_end;
		uint32_t reads; /* outstanding requests that have a response of their own */
		enum local_wait wait;
		struct timer timer;
		uint32_t rnr_left;
		uint32_t rnr_naks; /* received RNR NAKs, and the total wait after them */
		uint64_t rnr_waited_ns;
		/* end of the last RNR timer; 0: none since the last success */
		uint64_t rnr_until_ns;
		uint32_t retries_left;
		bool has_waited_last; /* the ACK timeout after the last retry has begun */
		uint8_t rnr_code;     /* RNR timer field of the last RNR NAK; RNR_CODE_NONE: none */
		bool is_held;	      /* fault injection delays the message at sq.nxt (fault.h) */
		bool has_passed;      /* this message has passed its fault point */
		bool has_compared_mtu;	 /* with that of the peer */
		struct local_hold *hold; /* fault.c; NULL: no message was held so far */
	} tx;
	struct {		  /* responder */
		uint32_t ssn;	  /* of the next expected message */
		bool is_inside;	  /* CELL_FIRST was received, CELL_LAST was not */
		uint8_t type;	  /* of that message */
		bool ack_pending; /* an ACK up to ssn - 1 is pending */
		/* the pending CELL_NAK, CELL_RNR or CELL_NOT_READY; CELL_NONE: none */
		uint8_t response;
		struct inbound *in;
		uint32_t response_ssn;
		uint32_t response_code;
		struct response_job
			*jobs; /* [jobs_tail, jobs_head), at most max_jobs; see local_job_at() */
		uint32_t jobs_mask; /* number of entries - 1; the number is a power of two */
		uint32_t max_jobs;
		uint32_t jobs_head;
		uint32_t jobs_tail;
		bool ready_pending; /* a CELL_READY is pending */
		struct reply_wait reply;
	} rx;
	struct list_head ack_node;
};

/*
 * A request to the daemon to connect this process with the owner of one slot (connect peer,
 * IPC_CONNECT_PEER).
 */
struct peer_connect {
	uint64_t began_ns; /* 0: no request is outstanding */
	/* IPC_CONNECT_PEER was sent; the daemon will push IPC_PEER or IPC_CONNECT_PEER_FAILED */
	bool is_asked;
	/* the last request failed; the next one is sent after this time */
	uint64_t unresolved_until_ns;
};

/* What the lock of one shard guards; of shard 0, engine.lock. */
struct local_shard {
	struct list_head peers; /* struct peer.shard_node; changes with engine.lock held, too */
	/* not added to local.counters yet; shard 0: not used */
	uint64_t counters[LOCAL_COUNTER_COUNT];
	uint8_t unused[64]; /* the next shard is in other cache lines */
};

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

static inline void peer_count(struct peer *peer, enum local_counter counter)
{
	peer->counters[counter]++;
}

static inline struct local_qp *local_qp_of(const struct qp *qp)
{
	return qp->transport_qp;
}

/*
 * Whether both messages belong to the same connection of two QPs: the requester has at most
 * MAX_QP_WR messages outstanding. Other connections have distant numbers, except by chance
 * (ring_first_ssn()).
 */
static inline bool local_ssn_is_near(uint32_t a, uint32_t b)
{
	return a - b + MAX_QP_WR <= 2 * MAX_QP_WR;
}

static inline struct response_job *local_job_at(const struct local_qp *lqp, uint32_t index)
{
	return &lqp->rx.jobs[index & lqp->rx.jobs_mask];
}

/* Also for a QP without a peer. */
static inline void local_qp_count(const struct local_qp *lqp, enum local_counter counter)
{
	if (lqp->peer)
		peer_count(lqp->peer, counter);
	else
		local_count(lqp->qp->context->engine, counter);
}

/* segment.c */
int segment_open(struct local *local, int *fd) __attribute__((warn_unused_result));
void segment_close(struct local *local);
void segment_publish_qp(struct qp *qp);
void segment_unpublish_qp(struct qp *qp);
void segment_note_established(struct qp *qp); /* after IBV_EVENT_COMM_EST */
void segment_publish_mr(struct engine *engine, const struct mr *mr);
void segment_unpublish_mr(struct engine *engine, const struct mr *mr);
int segment_thread_begins(struct engine *engine) __attribute__((warn_unused_result));
void segment_thread_ends(struct engine *engine);

/*
 * revoke.c: admission of peers to our memory, and revocation. revoke_mr() and revoke_qp() withdraw
 * the entry and wait until no peer accesses memory through it. They return 0, or -EBUSY if a peer
 * may still access it after 10 s; the entry is then published again. All locks held, once: both
 * release them while they wait.
 */
int revoke_mr(struct engine *engine, const struct mr *mr) __attribute__((warn_unused_result));
int revoke_qp(struct qp *qp) __attribute__((warn_unused_result));
/* Admits the peer to our memory if the state of its threads can be read. */
void revoke_admit(struct peer *peer);
/* As `main`, a peer of the same process. */
void revoke_admit_as(struct peer *peer, const struct peer *main);
/* Ends the admission: the peer begins no further access. */
void revoke_admission(struct peer *peer);
/* Whether no access of the peer is in progress. */
bool revoke_is_over(const struct peer *peer);

/* local.c */
void local_join(struct local_qp *lqp, struct peer *peer); /* the QP has found its peer */

/* run.c */
void local_drain(struct peer *peer); /* executes the cells that have arrived */
unsigned int local_run(struct engine *engine);
unsigned int local_run_shard(struct engine *engine, uint32_t number);

/* sleep.c */
/* Whether something could not be sent to the peer yet. */
static inline bool peer_has_leftover(const struct peer *peer)
{
	return !list_is_empty(&peer->blocked) || !list_is_empty(&peer->responding) ||
	       peer->refusal_count || peer->blocked_since_ns || peer->xrc_forward_waits ||
	       peer->share_notice_waits;
}

void local_finish_turn(struct peer *peer);
bool local_sleep(struct engine *engine, bool want_doorbell); /* the transport's sleep() */

/*
 * Whether a QP may use this peer although no process owned the remote QPN when the QP was bound.
 * The application specified only a QPN; a process that acquires the QPN later is accepted only if
 * it belongs to the same user.
 */
static inline bool peer_may_be_late(const struct peer *peer)
{
	return peer->may_reach_ours;
}

/* peer.c */
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

/* peer_shard.c */
/*
 * The peer of these shards of both processes; NULL: no memory. engine.lock and the lock of our
 * shard held.
 */
struct peer *peer_of_shards(struct peer *main, uint32_t our_shard, uint32_t their_shard);
/* Adds a peer to the lists, and connects it with the shared memory of the process. */
void peer_enlist(struct local *local, struct peer *peer);
/* Creates the peers whose FIFOs the process has begun to use. All locks held. */
void peer_open_shards(struct peer *main);
/* Adds what the shards have counted to local.counters. All locks held. */
void local_shards_count(struct local *local);

static inline bool peer_is_inline(const struct peer *peer)
{
	return peer->our_shard ? peer->engine->shards.each[peer->our_shard].is_inline :
				 run_by_replier(peer->engine->run_by);
}

/* ack_wait.c */
/* Whether the doorbell for an ACK of the QP may wait. */
bool local_ack_may_wait(const struct local_qp *lqp);
/* An ACK has been written; its doorbell waits. */
void local_ack_wait_begin(struct local_qp *lqp);
/* The QP's ACK does not wait any longer: the next local_finish_turn() rings the doorbell. */
void local_ack_wait_end(struct local_qp *lqp);
/* The doorbell rings. */
void local_ack_wait_end_all(struct peer *peer);
/* Whether a doorbell that waits is to be rung now. */
bool local_acks_are_due(const struct peer *peer);
void local_ack_timer(struct timer *timer, uint64_t now_ns);

/* peer_connect.c */

/*
 * Finds the peer of that slot. 0: *found is set. -EAGAIN: a request to the daemon is outstanding;
 * when it ends, the requesters on local.seeking run, and xrc_forward_space() and datagram_resume()
 * are called. -ENOENT: no process has that slot. Never blocks.
 */
int peer_get(struct engine *engine, uint32_t slot, struct peer **found)
	__attribute__((warn_unused_result));

/*
 * Whether the outstanding connect-peer request was first sent less than wait_ns ago. If so,
 * datagram_resume() is called when wait_ns has passed.
 */
bool peer_connect_may_wait(struct local *local, uint32_t slot, uint64_t wait_ns);

/*
 * The peer of that slot is connected, or the daemon's request failed. No effect if no request is
 * outstanding.
 */
void peer_connect_end(struct local *local, uint32_t slot, bool has_failed);
void peer_connect_timer(struct timer *timer, uint64_t now_ns);

/* requester.c */
void local_requester_run(struct local_qp *lqp);
void local_requester_peer_gone(struct local_qp *lqp);
void local_requester_timer(struct timer *timer, uint64_t now_ns);

/* completer.c */
void completer_response(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);

/* onesided.c: executes the WQE at sq.nxt in the peer's memory. */
enum onesided_result {
	ONESIDED_DONE,	      /* executed or refused: see *result */
	ONESIDED_MORE,	      /* the budget is used up; wqe.done_bytes were moved */
	ONESIDED_DECLINED,    /* the peer's engine must execute it: send it through the FIFO */
	ONESIDED_NOT_READY,   /* the peer's QP cannot receive */
	ONESIDED_LOCAL_FAULT, /* the local SGEs are invalid: see *vendor_err */
	ONESIDED_CUT_OFF,     /* the peer's process has ended or has revoked the admission */
};
/* Whether this process may execute the WQE at sq.nxt. */
bool onesided_is_permitted(const struct local_qp *lqp, const struct send_wqe *wqe);
enum onesided_result onesided_move(struct local_qp *lqp, struct send_wqe *wqe,
				   uint32_t *budget_bytes, enum access_result *result,
				   enum vendor_err *vendor_err);

/*
 * Executes the atomic operation at sq.nxt, if the peer's memory is mapped. ONESIDED_DECLINED also
 * for operations that the peer will refuse: its engine examines and reports them.
 */
enum onesided_result onesided_atomic(struct local_qp *lqp, struct send_wqe *wqe,
				     enum vendor_err *vendor_err);

/* responder.c */
void responder_request(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);
void responder_recv_posted(struct local_qp *lqp);
void responder_abandon(struct local_qp *lqp); /* the QP enters ERR */
/*
 * The memory of a READ that was accepted cannot be read: sends a NAK instead of the pending
 * responses. The QP enters ERR.
 */
void responder_fail_read(struct local_qp *lqp, uint32_t ssn, enum access_result result);
void responder_stop_reads(struct local_qp *lqp); /* stops copying READ responses from our memory */
void responder_unbind(struct local_qp *lqp);

/* describe.c */
void local_describe(const struct qp *qp, const struct send_wqe *wqe, struct ipc_failure *failure);

/* datagram.c */
int local_ah_open(struct ah *ah);
int local_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
/* Fills and commits the reserved cell. `at` is its payload, which begins with the GRH. */
int local_datagram_write(uint32_t src_qpn, const struct datagram_tx *datagram, struct peer *peer,
			 struct cell *cell, uint8_t *at);
void local_datagram_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
void local_datagram_has_room(struct peer *peer); /* tx has space for datagrams again */
void local_datagram_timer(struct timer *timer, uint64_t now_ns);

/* xrc_forward.c */
extern const struct xrc_forward_carrier local_xrc_forward;
void local_xrc_forward_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
unsigned int local_xrc_forward_resume(struct peer *peer); /* sends messages that waited for space */

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

/* response.c */
void responder_respond_all(struct peer *peer);
void responder_refuse(struct peer *peer, const struct cell *cell);
void responder_refuse_request(struct peer *peer, const struct refusal *refusal);

#endif
