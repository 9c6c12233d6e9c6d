/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_QP_H
#define USRDMA_LOCAL_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"
#include "core/object/objects.h"
#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "core/queue/reply_wait.h"
#include "local/local.h"
#include "local/peer.h"

struct inbound;
struct local_hold;

#define RNR_CODE_NONE 255

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

/*
 * The state of this transport in a connected QP: qp.transport_qp. Allocated and freed with the QP.
 * Guarded by the lock of the QP.
 */
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

static inline struct local_qp *local_qp_of(const struct qp *qp)
{
	return qp->transport_qp;
}

/* Also for a QP without a peer. */
static inline void local_qp_count(const struct local_qp *lqp, enum local_counter counter)
{
	if (lqp->peer)
		peer_count(lqp->peer, counter);
	else
		local_count(lqp->qp->context->engine, counter);
}

void local_join(struct local_qp *lqp, struct peer *peer); /* the QP has found its peer */

#endif
