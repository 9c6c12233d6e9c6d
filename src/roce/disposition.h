/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_DISPOSITION_H
#define USRDMA_ROCE_DISPOSITION_H

#include <stdbool.h>

#include "core/object/vendor_err.h"
#include "core/queue/execute.h"
#include "wire/aeth.h"

/*
 * Disposition of a request: result of the RC responder's checks; the first failed check decides
 * (IBA 1.x §9.7.4.1, §9.9.3).
 */
enum disposition {
	DISPOSITION_ACCEPTED,
	DISPOSITION_DUPLICATE, /* duplicate SEND or WRITE: acknowledged again */
	DISPOSITION_REPLAY,    /* duplicate READ or atomic: the response is sent again */
	DISPOSITION_STALE,     /* a duplicate whose response is not available */
	DISPOSITION_GAP,       /* a preceding packet is missing: sequence NAK */
	DISPOSITION_AWAITED,   /* a preceding packet is missing; the NAK was already sent */
	DISPOSITION_AHEAD,     /* the preceding packets follow: buffered */
	DISPOSITION_RNR,       /* no receive WQE */
	DISPOSITION_FORWARDED, /* XRC: forwarded to another process of this host */
	DISPOSITION_DEFERRED,  /* XRC: buffered until it can be forwarded or executed here */
	DISPOSITION_SEQUENCE,  /* invalid opcode sequence */
	DISPOSITION_SIZE,      /* the payload length does not match the MTU or the message length */
	DISPOSITION_SRQ,       /* XRC: unknown SRQ, or an SRQ of another domain */
	DISPOSITION_EXECUTOR,  /* XRC: the process that executed the message exited */
	DISPOSITION_DEPTH,     /* more outstanding READs and atomics than max_dest_rd_atomic */
	DISPOSITION_RECV_LENGTH, /* this and the following: results of core/queue/execute.h */
	DISPOSITION_RECV_LOCAL,
	DISPOSITION_RKEY,
	DISPOSITION_PD,
	DISPOSITION_BOUNDS,
	DISPOSITION_RIGHTS,
	DISPOSITION_QP_RIGHTS,
	DISPOSITION_INVALIDATE,
	DISPOSITION_ALIGN,
	DISPOSITION_GONE,
	DISPOSITION_COUNT
};

/* Reply of the responder. */
enum disposition_reply {
	REPLY_NOTHING,
	REPLY_IF_ASKED, /* an ACK, if the packet has the AckReq bit */
	REPLY_ACK,
	REPLY_RNR_NAK,
	REPLY_NAK,
};

/* One row of the table of dispositions: the reply, and whether the QP moves to ERROR. */
struct disposition_row {
	const char *name;
	enum disposition_reply reply;
	enum aeth_nak nak;
	bool errs_qp;
	/* QP_NO_EVENT: the completion of the receive reports the error */
	enum ibv_event_type event;
};

const struct disposition_row *disposition_row(enum disposition disposition);

/* The disposition for a result of core/queue/execute.h. */
enum disposition disposition_of_access(enum access_result result);

/* The syndrome field of the AETH. rnr_timer: the timer code of an RNR NAK. */
uint8_t disposition_syndrome(enum disposition disposition, unsigned rnr_timer);

/* The requester's completion status for a NAK code (IBA 1.x §9.9.2.3). */
enum ibv_wc_status nak_status(unsigned nak);
/* The most probable vendor error for a NAK code; is_send: the request was a SEND. */
enum vendor_err nak_vendor_err(unsigned nak, bool is_send);

#endif
