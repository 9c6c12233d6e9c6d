/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_VERDICT_H
#define USRDMA_ROCE_VERDICT_H

#include <stdbool.h>

#include "core/execute.h"
#include "wire/aeth.h"

/* What an RC responder makes of a request: that of the first check that says something (IBA 1.x §9.7.4.1, §9.9.3). */
enum verdict {
	VERDICT_ACCEPTED,
	VERDICT_DUPLICATE,   /* executed before: acknowledged again */
	VERDICT_REPLAY,	     /* a READ or atomic again: answered again */
	VERDICT_STALE,	     /* a duplicate too old to be answered */
	VERDICT_GAP,	     /* something before it is missing */
	VERDICT_AWAITED,     /* as above, and the requester was told */
	VERDICT_RNR,	     /* no receive WQE */
	VERDICT_RELAYED,     /* XRC: another process of this host has it now */
	VERDICT_PARKED,	     /* XRC: it is kept until it may go there, or be executed here */
	VERDICT_SEQUENCE,    /* an opcode that cannot follow the one before */
	VERDICT_SIZE,	     /* not as much payload as its place in the message and the MTU want */
	VERDICT_SRQ,	     /* XRC: no such SRQ, or not one of the QP's domain */
	VERDICT_OWNER,	     /* XRC: the process that had the message died */
	VERDICT_DEPTH,	     /* more READs and atomics than max_dest_rd_atomic */
	VERDICT_RECV_LENGTH, /* from here on: what execute.h answered */
	VERDICT_RECV_LOCAL,
	VERDICT_RKEY,
	VERDICT_PD,
	VERDICT_BOUNDS,
	VERDICT_RIGHTS,
	VERDICT_QP_RIGHTS,
	VERDICT_INVALIDATE,
	VERDICT_ALIGN,
	VERDICT_GONE,
	VERDICT_COUNT
};

/* What goes out. */
enum verdict_reply {
	REPLY_NOTHING,
	REPLY_IF_ASKED, /* an ACK, if the packet wants one */
	REPLY_ACK,
	REPLY_RNR_NAK,
	REPLY_NAK,
};

/* One row of the table of verdicts: what goes out, and what becomes of the QP. */
struct verdict_row {
	const char *name;
	enum verdict_reply reply;
	enum aeth_nak nak;
	bool errs_qp;
	enum ibv_event_type event; /* QP_NO_EVENT: the receive that failed says it */
};

const struct verdict_row *verdict_row(enum verdict verdict);

/* The verdict on a request that execute.h answered so. */
enum verdict verdict_of_access(enum access_result result);

/* The byte in the AETH. rnr_timer is the code that an RNR NAK carries. */
uint8_t verdict_syndrome(enum verdict verdict, unsigned rnr_timer);

/* What the requester's completion says for a NAK (IBA 1.x §9.9.2.3). */
enum ibv_wc_status nak_status(unsigned nak);
/* And its best guess at why; is_send: the request was one. */
enum vendor_err nak_vendor_err(unsigned nak, bool is_send);

#endif
