/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_STATE_H
#define USRDMA_CM_STATE_H

/*
 * The state machine of a connection (IBA 1.x §12.9) as a table: the action and the next state for
 * each state and each input. docs/cm-states.md is generated from it.
 */
enum cm_state {
	CM_STATE_IDLE,
	CM_STATE_REQ_SENT,     /* active: the REQ is sent, and repeated */
	CM_STATE_MRA_REQ_RCVD, /* active: the peer sent an MRA for the REQ */
	CM_STATE_REQ_RCVD,     /* passive: the REQ is reported to the consumer */
	CM_STATE_MRA_REQ_SENT, /* passive: the same, and an MRA was sent */
	CM_STATE_REP_SENT,     /* passive: the REP is sent, and repeated */
	CM_STATE_MRA_REP_RCVD, /* passive: the peer sent an MRA for the REP */
	CM_STATE_REP_RCVD,     /* active: the REP is reported to the consumer */
	CM_STATE_MRA_REP_SENT, /* active: the same, and an MRA was sent */
	CM_STATE_ESTABLISHED,
	CM_STATE_DREQ_SENT, /* the DREQ is sent, and repeated */
	CM_STATE_DREQ_RCVD, /* the peer's DREQ is reported to the consumer */
	CM_STATE_TIMEWAIT,  /* ended; its QPN must not be used again yet */
	CM_STATE_CLOSED,    /* ended; only its owner refers to it */
	CM_STATE_COUNT
};

enum cm_input {
	/* from the consumer */
	CM_IN_CONNECT,
	CM_IN_ACCEPT,
	CM_IN_ESTABLISH,
	CM_IN_NOTIFY, /* the QP received a packet before the RTU arrived */
	CM_IN_REJECT,
	CM_IN_DISCONNECT,
	CM_IN_DROP, /* drop a REQ without a response: its sender repeats it */
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
	CM_IN_STALE, /* a REQ or REP that names the QP or the ID of this connection's peer */
	CM_IN_CHALLENGE_DREP, /* a DREP to a challenge: the peer does not have this connection */
	/* a SIDR_REP to an address challenge: the peer receives at its address */
	CM_IN_ADDRESS_REP,
	/* from the network */
	CM_IN_UNREACHABLE,
	/* from the clock */
	CM_IN_RETRY,   /* no response in time, repetitions are left */
	CM_IN_EXPIRED, /* no repetitions are left, or timewait is over */
	CM_IN_COUNT
};

enum cm_action {
	CM_ACTION_MISSING, /* an empty cell; a test looks for empty cells */
	/* no action, with the reason */
	CM_ACTION_ILLEGAL, /* invalid call in this state: -EINVAL */
	CM_ACTION_ALREADY, /* the connection is established already: -EISCONN */
	CM_ACTION_NOTHING, /* valid, without effect */
	CM_ACTION_STRAY,   /* invalid message in this state: dropped and counted */
	CM_ACTION_NEVER,   /* impossible: no timer runs in this state */
	/* connecting */
	CM_ACTION_SEND_REQ,
	CM_ACTION_TAKE_REQ,
	CM_ACTION_SEND_MRA,
	CM_ACTION_WAIT_LONGER,
	CM_ACTION_SEND_REP,
	CM_ACTION_TAKE_REP,
	CM_ACTION_SEND_RTU,
	CM_ACTION_TAKE_RTU,
	CM_ACTION_REPEAT, /* repeats the last message at once, because the peer repeated its own */
	CM_ACTION_RESEND, /* repeats the last message */
	/* sends the REP or DREQ that waited for the validation of the peer's address */
	CM_ACTION_SEND_WITHHELD,
	CM_ACTION_TIMEOUT_REQ,
	CM_ACTION_TIMEOUT_REP,
	CM_ACTION_REQ_UNREACHABLE, /* as CM_ACTION_TIMEOUT_REQ, but without a REJ */
	/* refusing */
	CM_ACTION_SEND_REJ,
	CM_ACTION_SEND_REJ_TIMEOUT, /* REJ, reason timeout: the active side cancels its REQ */
	CM_ACTION_TAKE_REJ,
	CM_ACTION_SEND_STALE, /* REJ, reason stale connection: the REQ is an old one */
	CM_ACTION_SEND_APR,   /* rejects the alternate path: not supported */
	/* disconnecting */
	CM_ACTION_SEND_DREQ,
	CM_ACTION_TAKE_DREQ,
	CM_ACTION_SEND_DREP,
	CM_ACTION_CROSS_DREQ, /* both sides sent a DREQ: sends the DREP and ends the connection */
	CM_ACTION_TAKE_DREP,
	CM_ACTION_TIMEOUT_DREQ,
	CM_ACTION_END_STALE, /* the peer does not have this connection */
	CM_ACTION_CHALLENGE,
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
