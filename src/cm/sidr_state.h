/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_SIDR_STATE_H
#define USRDMA_CM_SIDR_STATE_H

/*
 * The state machine of a service ID resolution (IBA 1.x §12.11) as a table, as in cm/state.h.
 * docs/cm-states.md is generated from both.
 */
enum cm_sidr_state {
	CM_SIDR_STATE_IDLE,
	CM_SIDR_STATE_REQ_SENT, /* active: the SIDR_REQ is sent, and repeated */
	/* passive: the SIDR_REQ is reported to the consumer; SIDR has no MRA */
	CM_SIDR_STATE_REQ_RCVD,
	CM_SIDR_STATE_RESPONDED, /* passive: the response is kept for repetitions of the SIDR_REQ */
	CM_SIDR_STATE_CLOSED,
	CM_SIDR_STATE_COUNT
};

enum cm_sidr_input {
	/* from the consumer */
	CM_SIDR_IN_RESOLVE,
	CM_SIDR_IN_RESPONSE, /* accepts or rejects */
	CM_SIDR_IN_DROP,     /* drop a SIDR_REQ without a response: its sender repeats it */
	CM_SIDR_IN_DESTROY,
	/* from the peer */
	CM_SIDR_IN_REQ,
	CM_SIDR_IN_REP,
	/* from the network */
	CM_SIDR_IN_UNREACHABLE,
	/* from the clock */
	CM_SIDR_IN_RETRY,   /* no response in time, repetitions are left */
	CM_SIDR_IN_EXPIRED, /* no repetitions are left, or the response was kept long enough */
	CM_SIDR_IN_COUNT
};

enum cm_sidr_action {
	CM_SIDR_ACTION_MISSING, /* an empty cell; a test looks for empty cells */
	/* no action, with the reason */
	CM_SIDR_ACTION_ILLEGAL, /* invalid call in this state: -EINVAL */
	CM_SIDR_ACTION_NOTHING, /* valid, without effect */
	CM_SIDR_ACTION_STRAY,	/* invalid message in this state: dropped and counted */
	CM_SIDR_ACTION_NEVER,	/* impossible: no timer runs in this state */
	/* active side */
	CM_SIDR_ACTION_SEND_REQ,
	CM_SIDR_ACTION_RESEND,
	CM_SIDR_ACTION_TAKE_REP,
	CM_SIDR_ACTION_GIVE_UP,
	/* passive side */
	CM_SIDR_ACTION_TAKE_REQ,
	CM_SIDR_ACTION_SEND_REP,
	CM_SIDR_ACTION_SEND_NO, /* rejected: the owner freed the resolution */
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
