/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_PHASE_H
#define USRDMA_RDMACM_PHASE_H

/*
 * The phase of a connection as far as the application knows it, as a table: the action and the next
 * phase for each phase and each input. docs/id-phases.md is generated from it.
 *
 * The daemon has the state of each id (enum cma_state in daemon/cma_priv.h) and checks every
 * request against it. Its state changes when a message of the peer arrives; the phase changes when
 * a call succeeds or the application receives the event. The library decides by the phase only what
 * the daemon cannot decide: ADR 0080.
 */
enum rcm_phase {
	/* no connection; the daemon knows whether the id is bound, resolved or connecting */
	RCM_PHASE_IDLE,
	RCM_PHASE_LISTENING,
	/* created by a connection request, which was neither accepted nor rejected */
	RCM_PHASE_REQUESTED,
	RCM_PHASE_ACCEPTED,  /* passive: from rdma_accept() to the last event of the connection */
	RCM_PHASE_CONNECTED, /* active: from the completion of the connection to its last event */
	RCM_PHASE_OVER,	     /* rejected, or the last event was received */
	/* the library reported CONNECT_ERROR; the connection's later events are not reported */
	RCM_PHASE_FAILED,
	RCM_PHASE_COUNT
};

enum rcm_input {
	/*
	 * calls; ACCEPT is the start of rdma_accept(), DISCONNECT the end of a synchronous
	 * rdma_disconnect()
	 */
	RCM_IN_ACCEPT,
	RCM_IN_DISCONNECT,
	RCM_IN_GET_REQUEST,
	RCM_IN_DESTROY,
	/* results of requests to the daemon */
	RCM_IN_LISTENS,
	RCM_IN_ACCEPT_FAILED, /* rdma_accept() fails after RCM_IN_ACCEPT */
	RCM_IN_ESTABLISHED, /* the connection is completed, by rdma_establish() or by the library */
	RCM_IN_NOT_COMPLETED, /* the library could not complete the connection */
	RCM_IN_REJECT,
	/* events that the application is about to receive */
	RCM_IN_EVENT_CONNECT_REQUEST, /* the first input of the id that the request created */
	/* the daemon refused an accept or a completion that was sent without waiting */
	RCM_IN_EVENT_CONNECT_ERROR,
	RCM_IN_EVENT_REJECTED,
	RCM_IN_EVENT_UNREACHABLE,
	RCM_IN_EVENT_DISCONNECTED,
	RCM_IN_EVENT_TIMEWAIT_EXIT,
	RCM_IN_EVENT_DEVICE_REMOVAL,
	RCM_IN_EVENT_OTHER,
	RCM_IN_COUNT
};

enum rcm_action {
	RCM_ACTION_MISSING, /* an empty cell; a test looks for empty cells */
	RCM_ACTION_ILLEGAL, /* invalid call in this phase: -EINVAL */
	RCM_ACTION_NEVER,   /* the daemon refuses the request in this phase */
	RCM_ACTION_NOTHING,
	RCM_ACTION_SEND_ACCEPT,
	RCM_ACTION_AWAIT_REQUEST, /* waits for CONNECT_REQUEST */
	RCM_ACTION_AWAIT_END,	  /* waits for DISCONNECTED or TIMEWAIT_EXIT */
	RCM_ACTION_REFUSE_UNREAD, /* rejects the requests that the application has not received */
	RCM_ACTION_DROP_UNREAD,	  /* drops the events that the application has not received */
	RCM_ACTION_REPORT,	  /* the application receives the event */
	RCM_ACTION_CONCEAL,	  /* the application does not receive the event */
	RCM_ACTION_COUNT
};

struct rcm_cell {
	unsigned char action; /* enum rcm_action */
	unsigned char next;   /* enum rcm_phase */
};

struct rcm_cell rcm_cell(enum rcm_phase phase, enum rcm_input input);
const char *rcm_phase_name(enum rcm_phase phase);
const char *rcm_input_name(enum rcm_input input);
const char *rcm_action_name(enum rcm_action action);

#endif
