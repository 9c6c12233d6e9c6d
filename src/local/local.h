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
#include "core/relay.h"
#include "ipc/segment.h"
#include "local/ring.h"

/*
 * The same-host transport: messages between two processes of one daemon, no packets and no PSNs. One-sided operations
 * are carried out by the initiator in the peer's memory where the kernel permits it; everything else travels as cells.
 * All of it is guarded by engine.lock.
 */

extern const struct transport local_transport;

/* What `usrdma status` tells of this transport. */
enum local_counter {
	LOCAL_MESSAGES_SENT, /* SENDs and whatever else went through a peer's ring */
	LOCAL_MESSAGES_RECEIVED,
	LOCAL_ONESIDED, /* READs and WRITEs carried out here, in a peer's memory */
	LOCAL_RNR_NAKS_SENT,
	LOCAL_RNR_NAKS_RECEIVED,
	LOCAL_RETRIES,
	LOCAL_QP_ERRORS,
	LOCAL_BAD_CELLS,      /* dropped: malformed, or for a QP that does not know the sender */
	LOCAL_DATAGRAMS_LOST, /* sent to nobody, or to a process that reads nothing any more */
	LOCAL_DATAGRAMS_UNKNOWN_QPN, /* from here on: dropped at the receiver, by cause */
	LOCAL_DATAGRAMS_NOT_UD,
	LOCAL_DATAGRAMS_QP_STATE,
	LOCAL_DATAGRAMS_QKEY,
	LOCAL_DATAGRAMS_NO_RECV,
	LOCAL_DATAGRAMS_RECV_TOO_SHORT,
	LOCAL_DATAGRAMS_BAD_RECV,
	LOCAL_COUNTER_COUNT
};

#define PEER_REFUSALS 64

/* A NOT_READY that is owed for a request to a QP that is not there. */
struct refusal {
	uint32_t to_qpn;
	uint32_t from_qpn;
	uint32_t ssn;
};

/* A process that this one was introduced to, or this one itself. Dies when it is gone and no QP is bound to it. */
struct peer {
	struct engine *engine;
	struct list_head node; /* local.peers */
	uint32_t slot;
	uint64_t pair_id;
	pid_t pid;
	bool is_gone;
	uint64_t gone_ns;      /* since when */
	bool can_reach_memory; /* process_vm_readv and _writev work, and segment is mapped */
	bool may_reach_ours; /* of our user, so it was given our segment: what it says of our memory may be true */
	bool has_sent; /* cells were committed since the last look at its doorbell */
	struct ring_pair *pair;
	uint64_t pair_bytes;
	const struct segment
		*segment; /* the peer's, read-only; NULL: rings only. Its own for oneself */
	int doorbell_fd;  /* our end of the pair's socket; -1 for oneself */
	struct ring_writer tx;
	struct ring_reader rx;
	struct list_head qps; /* struct local_qp.node */
	struct list_head
		blocked; /* struct local_qp.blocked_node: tx was full, or the turn's budget was used up */
	struct list_head answering; /* struct local_qp.answer_node: owe the peer an answer */
	uint64_t stuck_since_ns;    /* datagrams find no room in tx since then; 0: they do */
	bool is_datagrams_turn;	    /* to have space first */
	struct timer stuck_timer;   /* the end of patience with that */
	bool relay_waits;	    /* relay.h: a message found no room in tx */
	uint32_t refusal_count;
	struct refusal refusals[PEER_REFUSALS];
};

/* A request that the responder owes an answer of its own. */
enum answer_kind {
	ANSWER_READ,
	ANSWER_ATOMIC,
	ANSWER_EMPTY, /* READ's without data: an atomic WRITE or a FLUSH was executed */
};

struct answer_job {
	uint32_t ssn;
	enum answer_kind kind;
	bool is_started;
	uint32_t rkey;
	uint64_t remote_addr;
	uint32_t length_bytes;
	uint32_t done_bytes;
	uint64_t original;
};

/* What a requester waits for before it goes on. */
enum local_wait {
	WAIT_NOTHING,
	WAIT_RNR,	/* the RNR timer, or the peer's READY */
	WAIT_NOT_READY, /* the ACK timeout: the peer's QP cannot receive */
};

struct local_qp {
	struct qp *qp;
	struct peer *peer; /* NULL: nobody owns the peer's QPN (yet) */
	struct list_head node;
	struct list_head blocked_node;
	struct list_head answer_node;
	struct {		/* requester */
		uint32_t ssn;	/* of the next message */
		uint32_t reads; /* requests sent that are answered by themselves, and were not */
		enum local_wait wait;
		struct timer timer;
		uint32_t rnr_left;
		uint32_t retries_left;
	} tx;
	struct {		/* responder */
		uint32_t ssn;	/* of the message that is due */
		bool is_inside; /* between CELL_FIRST and CELL_LAST */
		uint8_t type;	/* of that message */
		struct inbound *in;
		bool owes_ack; /* up to ssn - 1 */
		uint8_t owes;  /* a CELL_NAK, CELL_RNR, CELL_NOT_READY to send, or CELL_NONE */
		uint32_t owes_ssn;
		uint32_t owes_code;
		bool owes_ready;
		struct answer_job *jobs; /* [jobs_tail, jobs_head) of max_jobs */
		uint32_t max_jobs;
		uint32_t jobs_head;
		uint32_t jobs_tail;
	} rx;
};

struct local {
	struct engine *engine;
	struct segment *segment; /* ours, writable */
	uint64_t *counters;	 /* in it, by enum local_counter */
	uint64_t probe;		 /* what peers read to see that our pid is us */
	struct list_head peers;
	struct peer *by_slot[IPC_SLOTS];
	uint64_t absent_until_ns[IPC_SLOTS]; /* nobody had it when a datagram was sent there */
	bool has_strangers; /* whom an XRC request is for: introduced in the next turn (relay.c) */
	bool is_stranger[IPC_SLOTS];
	uint32_t absent_slot; /* nobody has it, as was found just now; 0: none */
};

static inline struct local *local_of(struct engine *engine)
{
	return engine->transport_state;
}

static inline void local_count(struct engine *engine, enum local_counter counter)
{
	local_of(engine)->counters[counter]++;
}

static inline struct local_qp *local_qp_of(const struct qp *qp)
{
	return qp->transport_qp;
}

/* segment.c */
int segment_open(struct local *local, int *fd) __attribute__((warn_unused_result));
void segment_close(struct local *local);
void segment_publish_qp(struct qp *qp);
void segment_withdraw_qp(struct qp *qp);
void segment_publish_mr(struct engine *engine, const struct mr *mr);
void segment_revoke_mr(struct engine *engine, const struct mr *mr);

/* local.c */
void local_drain(struct peer *peer); /* executes what a peer had sent when it died */
void local_finish_turn(struct peer *peer);

/* peer.c */
struct peer *peer_get(struct engine *engine,
		      uint32_t slot); /* introduces if need be; NULL: nobody has that slot */
void peer_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds, int nfds);
void peer_unref_if_gone(struct peer *peer);
void peer_ring_doorbell(struct peer *peer);
void peer_close_all(struct local *local);

/* requester.c */
void requester_run(struct local_qp *lqp);
void requester_peer_gone(struct local_qp *lqp);
void requester_timer(struct timer *timer, uint64_t now_ns);

/* completer.c */
void completer_answer(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);

/* onesided.c: tries the WQE at sq.nxt directly in the peer's memory. */
enum onesided_result {
	ONESIDED_DONE,	      /* *result says how */
	ONESIDED_MORE,	      /* the budget ran out; wqe.done_bytes tells how far it came */
	ONESIDED_NOT_READY,   /* the peer's QP cannot receive */
	ONESIDED_LOCAL_FAULT, /* *vendor_err: our own SGEs are wrong */
	ONESIDED_CUT_OFF,     /* the peer's process is gone, or does not let us any more */
};
enum onesided_result onesided_move(struct local_qp *lqp, struct send_wqe *wqe,
				   uint32_t *budget_bytes, enum access_result *result,
				   enum vendor_err *vendor_err);

/* responder.c */
void responder_request(struct local_qp *lqp, const struct cell *cell, const uint8_t *payload);
void responder_recv_posted(struct local_qp *lqp);
void responder_abandon(struct local_qp *lqp);

/* datagram.c */
int local_ah_open(struct ah *ah);
int local_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
void local_datagram_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
void local_datagram_has_room(struct peer *peer); /* again, after some could not be sent */
void local_datagram_timer(struct timer *timer, uint64_t now_ns);

/* relay.c */
int local_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const struct iovec *pieces, int count);
void local_relay_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
void local_relay_introduce(struct local *local);
unsigned int local_relay_resume(struct peer *peer); /* again, after some could not be sent */

/* For what may come in any number, as ring_reserve(): leaves some space to datagrams that wait for it. */
static inline struct cell *peer_reserve(struct peer *peer, uint32_t far_bytes, uint8_t **far)
{
	if (peer->stuck_since_ns && !ring_has_space(&peer->tx, far_bytes + RING_FRAGMENT_BYTES))
		return NULL;
	return ring_reserve(&peer->tx, far_bytes, far);
}

/* answer.c */
void responder_answer_all(struct peer *peer);
void responder_refuse(struct peer *peer, const struct cell *cell);

#endif
