/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_STATE_H
#define USRDMA_CM_STATE_H

/*
 * The life of a connection (IBA 1.x §12.9) as a table: what happens, and where it leads, for every state and every
 * input. docs/cm-states.md is printed from it.
 */
enum cm_state {
	CM_STATE_IDLE,
	CM_STATE_REQ_SENT,     /* active: REQ is on its way, retransmitted */
	CM_STATE_MRA_REQ_RCVD, /* active: the peer asked for more time */
	CM_STATE_REQ_RCVD,     /* passive: the consumer is asked */
	CM_STATE_MRA_REQ_SENT, /* passive: the same, and the peer was told to wait */
	CM_STATE_REP_SENT,     /* passive: REP is on its way, retransmitted */
	CM_STATE_MRA_REP_RCVD, /* passive: the peer asked for more time */
	CM_STATE_REP_RCVD,     /* active: the consumer is asked */
	CM_STATE_MRA_REP_SENT, /* active: the same, and the peer was told to wait */
	CM_STATE_ESTABLISHED,
	CM_STATE_DREQ_SENT, /* DREQ is on its way, retransmitted */
	CM_STATE_DREQ_RCVD, /* the peer disconnects, the consumer was told */
	CM_STATE_TIMEWAIT,  /* over; its QPN is not to be used again yet */
	CM_STATE_CLOSED,    /* over; nothing refers to it but its owner */
	CM_STATE_COUNT
};

enum cm_input {
	/* from the consumer */
	CM_IN_CONNECT,
	CM_IN_ACCEPT,
	CM_IN_ESTABLISH,
	CM_IN_NOTIFY, /* the QP received before the RTU did */
	CM_IN_REJECT,
	CM_IN_DISCONNECT,
	CM_IN_FORGET, /* a request is dropped without a word: its sender will repeat it */
	CM_IN_DESTROY,
	/* from the peer */
	CM_IN_REQ,
	CM_IN_MRA_REQ, /* an MRA about a REQ */
	CM_IN_MRA_REP, /* an MRA about a REP */
	CM_IN_REJ,
	CM_IN_REP,
	CM_IN_RTU,
	CM_IN_DREQ,
	CM_IN_DREP,
	CM_IN_LAP,
	/* from the network */
	CM_IN_UNREACHABLE,
	/* from the clock */
	CM_IN_RETRY,   /* no answer in time, retries are left */
	CM_IN_EXPIRED, /* none are left, or timewait is over */
	CM_IN_COUNT
};

enum cm_action {
	CM_ACTION_MISSING, /* no cell: a hole in the table, which a test looks for */
	/* nothing is done, and why */
	CM_ACTION_ILLEGAL, /* the consumer may not ask for this here: -EINVAL */
	CM_ACTION_ALREADY, /* what the consumer asks for is so already: -EISCONN */
	CM_ACTION_NOTHING, /* fine, and there is nothing to do */
	CM_ACTION_STRAY,   /* the peer's message means nothing here: dropped and counted */
	CM_ACTION_NEVER,   /* no timer runs here */
	/* connecting */
	CM_ACTION_SEND_REQ,
	CM_ACTION_TAKE_REQ,
	CM_ACTION_SEND_MRA,
	CM_ACTION_WAIT_LONGER,
	CM_ACTION_SEND_REP,
	CM_ACTION_TAKE_REP,
	CM_ACTION_SEND_RTU,
	CM_ACTION_TAKE_RTU,
	CM_ACTION_REPEAT_REP, /* at once, because the peer repeated its REQ */
	CM_ACTION_RESEND,     /* the retransmission of what was sent last */
	CM_ACTION_LOSE_REQ,
	CM_ACTION_LOSE_REP,
	CM_ACTION_MISS_REQ, /* nobody is there who would want a REJ */
	/* refusing */
	CM_ACTION_SEND_REJ,
	CM_ACTION_WITHDRAW, /* REJ, timeout: the active side no longer wants what it asked for */
	CM_ACTION_TAKE_REJ,
	CM_ACTION_SEND_STALE, /* REJ, stale connection: an old REQ turned up */
	CM_ACTION_SEND_APR,   /* no alternate paths here */
	/* disconnecting */
	CM_ACTION_SEND_DREQ,
	CM_ACTION_TAKE_DREQ,
	CM_ACTION_SEND_DREP,
	CM_ACTION_CROSS_DREQ, /* both disconnect at once: answer, and be done */
	CM_ACTION_TAKE_DREP,
	CM_ACTION_LOSE_DREQ,
	CM_ACTION_LOSE_PEER, /* the peer says that it knows no such connection */
	CM_ACTION_END_TIMEWAIT,
	CM_ACTION_COUNT
};

struct cm_cell {
	unsigned char action; /* enum cm_action */
	unsigned char next;   /* enum cm_state */
};

struct cm_cell cm_cell(enum cm_state state, enum cm_input input);
const char *cm_state_name(enum cm_state state);
const char *cm_input_name(enum cm_input input);
const char *cm_action_name(enum cm_action action);

#endif
