/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_SIDR_STATE_H
#define USRDMA_CM_SIDR_STATE_H

/*
 * The life of a service ID resolution (IBA 1.x §12.11) as a table, in the manner of cm/state.h. docs/cm-states.md is
 * printed from both.
 */
enum cm_sidr_state {
	CM_SIDR_STATE_IDLE,
	CM_SIDR_STATE_REQ_SENT, /* active: SIDR_REQ is on its way, retransmitted */
	CM_SIDR_STATE_REQ_RCVD, /* passive: the consumer is asked; the protocol has no way to ask for time */
	CM_SIDR_STATE_ANSWERED, /* passive: the answer is kept for a repeated SIDR_REQ */
	CM_SIDR_STATE_CLOSED,
	CM_SIDR_STATE_COUNT
};

enum cm_sidr_input {
	/* from the consumer */
	CM_SIDR_IN_RESOLVE,
	CM_SIDR_IN_ANSWER, /* whether it accepts or refuses */
	CM_SIDR_IN_FORGET, /* a request is dropped without a word: its sender will repeat it */
	CM_SIDR_IN_DESTROY,
	/* from the peer */
	CM_SIDR_IN_REQ,
	CM_SIDR_IN_REP,
	/* from the network */
	CM_SIDR_IN_UNREACHABLE,
	/* from the clock */
	CM_SIDR_IN_RETRY,   /* no answer in time, retries are left */
	CM_SIDR_IN_EXPIRED, /* none are left, or the answer was kept long enough */
	CM_SIDR_IN_COUNT
};

enum cm_sidr_action {
	CM_SIDR_ACTION_MISSING, /* no cell: a hole in the table, which a test looks for */
	/* nothing is done, and why */
	CM_SIDR_ACTION_ILLEGAL, /* the consumer may not ask for this here: -EINVAL */
	CM_SIDR_ACTION_NOTHING, /* fine, and there is nothing to do */
	CM_SIDR_ACTION_STRAY,	/* the message means nothing here: dropped and counted */
	CM_SIDR_ACTION_NEVER,	/* no timer runs here */
	/* asking */
	CM_SIDR_ACTION_SEND_REQ,
	CM_SIDR_ACTION_RESEND,
	CM_SIDR_ACTION_TAKE_REP,
	CM_SIDR_ACTION_GIVE_UP,
	/* answering */
	CM_SIDR_ACTION_TAKE_REQ,
	CM_SIDR_ACTION_SEND_REP,
	CM_SIDR_ACTION_SEND_NO, /* rejected: the consumer left without an answer */
	CM_SIDR_ACTION_REPEAT_REP,
	CM_SIDR_ACTION_COUNT
};

struct cm_sidr_cell {
	unsigned char action; /* enum cm_sidr_action */
	unsigned char next;   /* enum cm_sidr_state */
};

struct cm_sidr_cell cm_sidr_cell(enum cm_sidr_state state, enum cm_sidr_input input);
const char *cm_sidr_state_name(enum cm_sidr_state state);
const char *cm_sidr_input_name(enum cm_sidr_input input);
const char *cm_sidr_action_name(enum cm_sidr_action action);

#endif
