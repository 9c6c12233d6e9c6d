/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_XRC_FORWARD_STATE_H
#define USRDMA_ROCE_XRC_FORWARD_STATE_H

/*
 * The state machines of XRC forwarding (xrc_forward.h; ADR 0020) as tables: the action and the next
 * state for each state and each input. docs/xrc-forward-states.md is generated from them. The
 * inputs of an XRC target QP are requests with the expected PSN, the results of sending them to an
 * executor, and the executor's reports.
 */
enum xrc_target_state {
	/* no forwarded request is outstanding; this process executes requests and responds */
	XRC_TARGET_IDLE,
	/* the same, but the request with the expected PSN is buffered until it can be forwarded */
	XRC_TARGET_DEFERRED,
	XRC_TARGET_BURST, /* forwarded requests are outstanding; only the executor responds */
	XRC_TARGET_BURST_DEFERRED, /* the same, and the request with the expected PSN is buffered */
	XRC_TARGET_STATE_COUNT
};

enum xrc_target_input {
	/* a request with the expected PSN */
	XRC_TARGET_IN_REQUEST_OWN,   /* for an SRQ of this process */
	XRC_TARGET_IN_REQUEST_BURST, /* for an SRQ of the burst's executor */
	XRC_TARGET_IN_REQUEST_OTHER, /* for an SRQ of any other process */
	/* result of forwarding it */
	XRC_TARGET_IN_SENT,
	/* in the queue to the executor, or responses of this process are unsent */
	XRC_TARGET_IN_NO_SPACE,
	XRC_TARGET_IN_NO_PROCESS, /* no process owns the SRQ */
	XRC_TARGET_IN_SPACE,	  /* there is space, or the responses of this process were sent */
	/* a report of the executor about the current burst */
	XRC_TARGET_IN_REPORT,	   /* requests were executed, others are outstanding */
	XRC_TARGET_IN_REPORT_LAST, /* all requests were executed */
	XRC_TARGET_IN_REPORT_RNR,  /* no receive WQE; the executor sent the RNR NAK */
	XRC_TARGET_IN_REPORT_ERROR,
	/* the executor of the burst or of an incomplete message exited */
	XRC_TARGET_IN_EXECUTOR_EXITED,
	/* the requester repeated a request, and no report arrived for STALL_NS */
	XRC_TARGET_IN_STALLED,
	XRC_TARGET_IN_HALT, /* the QP left the states in which it receives */
	XRC_TARGET_IN_COUNT
};

enum xrc_target_action {
	/* the table has no entry; a test verifies that this does not occur */
	XRC_TARGET_ACTION_MISSING,
	XRC_TARGET_ACTION_NEVER, /* the input does not occur in this state */
	XRC_TARGET_ACTION_NOTHING,
	XRC_TARGET_ACTION_EXECUTE,	   /* execute the request in this process */
	XRC_TARGET_ACTION_FORWARD_FIRST,   /* begin a burst and forward the request */
	XRC_TARGET_ACTION_FORWARD_NEXT,	   /* forward the request within the burst */
	XRC_TARGET_ACTION_DEFER,	   /* buffer the request */
	XRC_TARGET_ACTION_RETRY,	   /* process the buffered request again */
	XRC_TARGET_ACTION_REJECT,	   /* reject the request: unknown SRQ */
	XRC_TARGET_ACTION_PROGRESS,	   /* record which requests were executed */
	XRC_TARGET_ACTION_END_BURST,	   /* send the pending responses */
	XRC_TARGET_ACTION_END_BURST_RETRY, /* the same, and process the buffered request */
	/* expect the rejected request again; drop the buffered packets */
	XRC_TARGET_ACTION_GO_BACK,
	XRC_TARGET_ACTION_ERROR, /* send the NAK again if necessary; the QP enters ERROR */
	/* the QP enters ERROR: it is unknown which requests were executed */
	XRC_TARGET_ACTION_FATAL,
	/* delay the requester, so that it does not use up its retries */
	XRC_TARGET_ACTION_SEND_RNR_NAK,
	XRC_TARGET_ACTION_STOP, /* end the burst without a response */
	XRC_TARGET_ACTION_COUNT
};

struct xrc_target_cell {
	unsigned char action; /* enum xrc_target_action */
	unsigned char next;   /* enum xrc_target_state */
};

enum xrc_executor_state {
	XRC_EXECUTOR_ATTACHED, /* no request was received yet */
	XRC_EXECUTOR_REPORTED, /* all executed requests of the burst are reported */
	XRC_EXECUTOR_EXECUTED, /* a report is pending */
	XRC_EXECUTOR_FAILED,   /* a request failed, which ends the burst; the report is pending */
	XRC_EXECUTOR_ENDED,    /* the failure is reported */
	XRC_EXECUTOR_STATE_COUNT
};

enum xrc_executor_input {
	XRC_EXECUTOR_IN_BURST,	 /* the first request of a burst */
	XRC_EXECUTOR_IN_REQUEST, /* a request with the expected PSN; also the first of a burst */
	XRC_EXECUTOR_IN_RNR,	 /* no receive WQE */
	XRC_EXECUTOR_IN_ERROR, /* a request was rejected, or the memory of a READ is inaccessible */
	XRC_EXECUTOR_IN_RESPONDED, /* all responses were sent */
	XRC_EXECUTOR_IN_REPORTED,  /* the report was sent */
	XRC_EXECUTOR_IN_DETACH,
	XRC_EXECUTOR_IN_COUNT
};

enum xrc_executor_action {
	XRC_EXECUTOR_ACTION_MISSING,
	XRC_EXECUTOR_ACTION_NEVER,
	XRC_EXECUTOR_ACTION_NOTHING,
	XRC_EXECUTOR_ACTION_BEGIN,   /* expect the PSN of the first request */
	XRC_EXECUTOR_ACTION_EXECUTE, /* execute the request */
	XRC_EXECUTOR_ACTION_DROP,   /* the target QP process repeats the request in another burst */
	XRC_EXECUTOR_ACTION_REPORT, /* report to the target QP process */
	XRC_EXECUTOR_ACTION_COUNT
};

struct xrc_executor_cell {
	unsigned char action; /* enum xrc_executor_action */
	unsigned char next;   /* enum xrc_executor_state */
};

struct xrc_target_cell xrc_target_cell(enum xrc_target_state state, enum xrc_target_input input);
struct xrc_executor_cell xrc_executor_cell(enum xrc_executor_state state,
					   enum xrc_executor_input input);

const char *xrc_target_state_name(enum xrc_target_state state);
const char *xrc_target_input_name(enum xrc_target_input input);
const char *xrc_target_action_name(enum xrc_target_action action);
const char *xrc_executor_state_name(enum xrc_executor_state state);
const char *xrc_executor_input_name(enum xrc_executor_input input);
const char *xrc_executor_action_name(enum xrc_executor_action action);

#endif
