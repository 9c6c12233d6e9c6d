/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/xrc_forward_state.h"

#include <assert.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TARGET(doing, to)                                                    \
	{                                                                    \
		.action = XRC_TARGET_ACTION_##doing, .next = XRC_TARGET_##to \
	}

#define EXECUTOR(doing, to)                                                      \
	{                                                                        \
		.action = XRC_EXECUTOR_ACTION_##doing, .next = XRC_EXECUTOR_##to \
	}

/* clang-format off */
static const struct xrc_target_cell target_cells[XRC_TARGET_STATE_COUNT][XRC_TARGET_IN_COUNT] = {
	/* After FORWARD_FIRST, the result of sending determines the state. */
	[XRC_TARGET_IDLE] = {
		[XRC_TARGET_IN_REQUEST_OWN]	= TARGET(EXECUTE, IDLE),
		[XRC_TARGET_IN_REQUEST_BURST]	= TARGET(NEVER, IDLE),
		[XRC_TARGET_IN_REQUEST_OTHER]	= TARGET(FORWARD_FIRST, IDLE),
		[XRC_TARGET_IN_SENT]		= TARGET(NOTHING, BURST),
		[XRC_TARGET_IN_NO_SPACE]	= TARGET(DEFER, DEFERRED),
		[XRC_TARGET_IN_NO_PROCESS]	= TARGET(REJECT, IDLE),
		[XRC_TARGET_IN_SPACE]		= TARGET(NOTHING, IDLE),
		[XRC_TARGET_IN_REPORT]		= TARGET(NEVER, IDLE),
		[XRC_TARGET_IN_REPORT_LAST]	= TARGET(NEVER, IDLE),
		[XRC_TARGET_IN_REPORT_RNR]	= TARGET(NEVER, IDLE),
		[XRC_TARGET_IN_REPORT_ERROR]	= TARGET(NEVER, IDLE),
		[XRC_TARGET_IN_EXECUTOR_EXITED]	= TARGET(FATAL, IDLE),
		[XRC_TARGET_IN_STALLED]		= TARGET(NOTHING, IDLE),
		[XRC_TARGET_IN_HALT]		= TARGET(STOP, IDLE),
	},
	/* The requester may repeat the buffered request, so requests arrive in this state, too. */
	[XRC_TARGET_DEFERRED] = {
		[XRC_TARGET_IN_REQUEST_OWN]	= TARGET(EXECUTE, IDLE),
		[XRC_TARGET_IN_REQUEST_BURST]	= TARGET(NEVER, DEFERRED),
		[XRC_TARGET_IN_REQUEST_OTHER]	= TARGET(FORWARD_FIRST, DEFERRED),
		[XRC_TARGET_IN_SENT]		= TARGET(NOTHING, BURST),
		[XRC_TARGET_IN_NO_SPACE]	= TARGET(DEFER, DEFERRED),
		[XRC_TARGET_IN_NO_PROCESS]	= TARGET(REJECT, IDLE),
		[XRC_TARGET_IN_SPACE]		= TARGET(RETRY, IDLE),
		[XRC_TARGET_IN_REPORT]		= TARGET(NEVER, DEFERRED),
		[XRC_TARGET_IN_REPORT_LAST]	= TARGET(NEVER, DEFERRED),
		[XRC_TARGET_IN_REPORT_RNR]	= TARGET(NEVER, DEFERRED),
		[XRC_TARGET_IN_REPORT_ERROR]	= TARGET(NEVER, DEFERRED),
		[XRC_TARGET_IN_EXECUTOR_EXITED]	= TARGET(FATAL, IDLE),
		[XRC_TARGET_IN_STALLED]		= TARGET(SEND_RNR_NAK, DEFERRED),
		[XRC_TARGET_IN_HALT]		= TARGET(STOP, IDLE),
	},
	[XRC_TARGET_BURST] = {
		[XRC_TARGET_IN_REQUEST_OWN]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_REQUEST_BURST]	= TARGET(FORWARD_NEXT, BURST),
		[XRC_TARGET_IN_REQUEST_OTHER]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_SENT]		= TARGET(NOTHING, BURST),
		[XRC_TARGET_IN_NO_SPACE]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_NO_PROCESS]	= TARGET(REJECT, IDLE),
		[XRC_TARGET_IN_SPACE]		= TARGET(NOTHING, BURST),
		[XRC_TARGET_IN_REPORT]		= TARGET(PROGRESS, BURST),
		[XRC_TARGET_IN_REPORT_LAST]	= TARGET(END_BURST, IDLE),
		[XRC_TARGET_IN_REPORT_RNR]	= TARGET(GO_BACK, IDLE),
		[XRC_TARGET_IN_REPORT_ERROR]	= TARGET(ERROR, IDLE),
		[XRC_TARGET_IN_EXECUTOR_EXITED]	= TARGET(FATAL, IDLE),
		[XRC_TARGET_IN_STALLED]		= TARGET(SEND_RNR_NAK, BURST),
		[XRC_TARGET_IN_HALT]		= TARGET(STOP, IDLE),
	},
	[XRC_TARGET_BURST_DEFERRED] = {
		[XRC_TARGET_IN_REQUEST_OWN]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_REQUEST_BURST]	= TARGET(FORWARD_NEXT, BURST_DEFERRED),
		[XRC_TARGET_IN_REQUEST_OTHER]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_SENT]		= TARGET(NOTHING, BURST),
		[XRC_TARGET_IN_NO_SPACE]	= TARGET(DEFER, BURST_DEFERRED),
		[XRC_TARGET_IN_NO_PROCESS]	= TARGET(REJECT, IDLE),
		[XRC_TARGET_IN_SPACE]		= TARGET(RETRY, BURST),
		[XRC_TARGET_IN_REPORT]		= TARGET(PROGRESS, BURST_DEFERRED),
		[XRC_TARGET_IN_REPORT_LAST]	= TARGET(END_BURST_RETRY, IDLE),
		[XRC_TARGET_IN_REPORT_RNR]	= TARGET(GO_BACK, IDLE),
		[XRC_TARGET_IN_REPORT_ERROR]	= TARGET(ERROR, IDLE),
		[XRC_TARGET_IN_EXECUTOR_EXITED]	= TARGET(FATAL, IDLE),
		[XRC_TARGET_IN_STALLED]		= TARGET(SEND_RNR_NAK, BURST_DEFERRED),
		[XRC_TARGET_IN_HALT]		= TARGET(STOP, IDLE),
	},
};

static const struct xrc_executor_cell
	executor_cells[XRC_EXECUTOR_STATE_COUNT][XRC_EXECUTOR_IN_COUNT] = {
	[XRC_EXECUTOR_ATTACHED] = {
		[XRC_EXECUTOR_IN_BURST]		= EXECUTOR(BEGIN, REPORTED),
		[XRC_EXECUTOR_IN_REQUEST]	= EXECUTOR(NEVER, ATTACHED),
		[XRC_EXECUTOR_IN_RNR]		= EXECUTOR(NEVER, ATTACHED),
		[XRC_EXECUTOR_IN_ERROR]		= EXECUTOR(NEVER, ATTACHED),
		[XRC_EXECUTOR_IN_RESPONDED]	= EXECUTOR(NOTHING, ATTACHED),
		[XRC_EXECUTOR_IN_REPORTED]	= EXECUTOR(NEVER, ATTACHED),
		[XRC_EXECUTOR_IN_DETACH]	= EXECUTOR(NOTHING, ATTACHED),
	},
	/*
	 * A response may be unsent if the target QP process began the burst before the report of
	 * the last one.
	 */
	[XRC_EXECUTOR_REPORTED] = {
		[XRC_EXECUTOR_IN_BURST]		= EXECUTOR(BEGIN, REPORTED),
		[XRC_EXECUTOR_IN_REQUEST]	= EXECUTOR(EXECUTE, EXECUTED),
		[XRC_EXECUTOR_IN_RNR]		= EXECUTOR(NEVER, REPORTED),
		[XRC_EXECUTOR_IN_ERROR]		= EXECUTOR(NOTHING, FAILED),
		[XRC_EXECUTOR_IN_RESPONDED]	= EXECUTOR(NOTHING, REPORTED),
		[XRC_EXECUTOR_IN_REPORTED]	= EXECUTOR(NEVER, REPORTED),
		[XRC_EXECUTOR_IN_DETACH]	= EXECUTOR(NOTHING, ATTACHED),
	},
	/*
	 * The report waits until the responses are sent, because the target QP process may respond
	 * after it.
	 */
	[XRC_EXECUTOR_EXECUTED] = {
		[XRC_EXECUTOR_IN_BURST]		= EXECUTOR(BEGIN, REPORTED),
		[XRC_EXECUTOR_IN_REQUEST]	= EXECUTOR(EXECUTE, EXECUTED),
		[XRC_EXECUTOR_IN_RNR]		= EXECUTOR(REPORT, FAILED),
		[XRC_EXECUTOR_IN_ERROR]		= EXECUTOR(NOTHING, FAILED),
		[XRC_EXECUTOR_IN_RESPONDED]	= EXECUTOR(REPORT, EXECUTED),
		[XRC_EXECUTOR_IN_REPORTED]	= EXECUTOR(NOTHING, REPORTED),
		[XRC_EXECUTOR_IN_DETACH]	= EXECUTOR(NOTHING, ATTACHED),
	},
	[XRC_EXECUTOR_FAILED] = {
		[XRC_EXECUTOR_IN_BURST]		= EXECUTOR(BEGIN, REPORTED),
		[XRC_EXECUTOR_IN_REQUEST]	= EXECUTOR(DROP, FAILED),
		[XRC_EXECUTOR_IN_RNR]		= EXECUTOR(NEVER, FAILED),
		[XRC_EXECUTOR_IN_ERROR]		= EXECUTOR(NOTHING, FAILED),
		[XRC_EXECUTOR_IN_RESPONDED]	= EXECUTOR(REPORT, FAILED),
		[XRC_EXECUTOR_IN_REPORTED]	= EXECUTOR(NOTHING, ENDED),
		[XRC_EXECUTOR_IN_DETACH]	= EXECUTOR(NOTHING, ATTACHED),
	},
	/* A READ before a request that had no receive WQE may still fail. */
	[XRC_EXECUTOR_ENDED] = {
		[XRC_EXECUTOR_IN_BURST]		= EXECUTOR(BEGIN, REPORTED),
		[XRC_EXECUTOR_IN_REQUEST]	= EXECUTOR(DROP, ENDED),
		[XRC_EXECUTOR_IN_RNR]		= EXECUTOR(NEVER, ENDED),
		[XRC_EXECUTOR_IN_ERROR]		= EXECUTOR(NOTHING, FAILED),
		[XRC_EXECUTOR_IN_RESPONDED]	= EXECUTOR(NOTHING, ENDED),
		[XRC_EXECUTOR_IN_REPORTED]	= EXECUTOR(NEVER, ENDED),
		[XRC_EXECUTOR_IN_DETACH]	= EXECUTOR(NOTHING, ATTACHED),
	},
};
/* clang-format on */

static const char *const target_state_names[] = {
	[XRC_TARGET_IDLE] = "idle",
	[XRC_TARGET_DEFERRED] = "deferred",
	[XRC_TARGET_BURST] = "burst",
	[XRC_TARGET_BURST_DEFERRED] = "burst_deferred",
};
static_assert(COUNT(target_state_names) == XRC_TARGET_STATE_COUNT, "every state has a name");

static const char *const target_input_names[] = {
	[XRC_TARGET_IN_REQUEST_OWN] = "request for this process",
	[XRC_TARGET_IN_REQUEST_BURST] = "request for the executor of the burst",
	[XRC_TARGET_IN_REQUEST_OTHER] = "request for another process",
	[XRC_TARGET_IN_SENT] = "sent",
	[XRC_TARGET_IN_NO_SPACE] = "no space",
	[XRC_TARGET_IN_NO_PROCESS] = "no process",
	[XRC_TARGET_IN_SPACE] = "space",
	[XRC_TARGET_IN_REPORT] = "report",
	[XRC_TARGET_IN_REPORT_LAST] = "last report",
	[XRC_TARGET_IN_REPORT_RNR] = "report of an RNR NAK",
	[XRC_TARGET_IN_REPORT_ERROR] = "report of an error",
	[XRC_TARGET_IN_EXECUTOR_EXITED] = "executor exited",
	[XRC_TARGET_IN_STALLED] = "stalled",
	[XRC_TARGET_IN_HALT] = "halt",
};
static_assert(COUNT(target_input_names) == XRC_TARGET_IN_COUNT, "every input has a name");

static const char *const target_action_names[] = {
	[XRC_TARGET_ACTION_MISSING] = "missing",
	[XRC_TARGET_ACTION_NEVER] = "never",
	[XRC_TARGET_ACTION_NOTHING] = "nothing",
	[XRC_TARGET_ACTION_EXECUTE] = "execute",
	[XRC_TARGET_ACTION_FORWARD_FIRST] = "begin a burst, forward",
	[XRC_TARGET_ACTION_FORWARD_NEXT] = "forward",
	[XRC_TARGET_ACTION_DEFER] = "buffer",
	[XRC_TARGET_ACTION_RETRY] = "process the buffered request",
	[XRC_TARGET_ACTION_REJECT] = "reject",
	[XRC_TARGET_ACTION_PROGRESS] = "record",
	[XRC_TARGET_ACTION_END_BURST] = "respond",
	[XRC_TARGET_ACTION_END_BURST_RETRY] = "respond, process the buffered request",
	[XRC_TARGET_ACTION_GO_BACK] = "expect the request again",
	[XRC_TARGET_ACTION_ERROR] = "enter ERROR",
	[XRC_TARGET_ACTION_FATAL] = "enter ERROR, QP_FATAL",
	[XRC_TARGET_ACTION_SEND_RNR_NAK] = "send an RNR NAK",
	[XRC_TARGET_ACTION_STOP] = "stop",
};
static_assert(COUNT(target_action_names) == XRC_TARGET_ACTION_COUNT, "every action has a name");

static const char *const executor_state_names[] = {
	[XRC_EXECUTOR_ATTACHED] = "attached", [XRC_EXECUTOR_REPORTED] = "reported",
	[XRC_EXECUTOR_EXECUTED] = "executed", [XRC_EXECUTOR_FAILED] = "failed",
	[XRC_EXECUTOR_ENDED] = "ended",
};
static_assert(COUNT(executor_state_names) == XRC_EXECUTOR_STATE_COUNT, "every state has a name");

static const char *const executor_input_names[] = {
	[XRC_EXECUTOR_IN_BURST] = "new burst",
	[XRC_EXECUTOR_IN_REQUEST] = "request",
	[XRC_EXECUTOR_IN_RNR] = "no receive WQE",
	[XRC_EXECUTOR_IN_ERROR] = "error",
	[XRC_EXECUTOR_IN_RESPONDED] = "all responses sent",
	[XRC_EXECUTOR_IN_REPORTED] = "report sent",
	[XRC_EXECUTOR_IN_DETACH] = "detach",
};
static_assert(COUNT(executor_input_names) == XRC_EXECUTOR_IN_COUNT, "every input has a name");

static const char *const executor_action_names[] = {
	[XRC_EXECUTOR_ACTION_MISSING] = "missing", [XRC_EXECUTOR_ACTION_NEVER] = "never",
	[XRC_EXECUTOR_ACTION_NOTHING] = "nothing", [XRC_EXECUTOR_ACTION_BEGIN] = "begin the burst",
	[XRC_EXECUTOR_ACTION_EXECUTE] = "execute", [XRC_EXECUTOR_ACTION_DROP] = "drop",
	[XRC_EXECUTOR_ACTION_REPORT] = "report",
};
static_assert(COUNT(executor_action_names) == XRC_EXECUTOR_ACTION_COUNT, "every action has a name");

struct xrc_target_cell xrc_target_cell(enum xrc_target_state state, enum xrc_target_input input)
{
	return target_cells[state][input];
}

struct xrc_executor_cell xrc_executor_cell(enum xrc_executor_state state,
					   enum xrc_executor_input input)
{
	return executor_cells[state][input];
}

const char *xrc_target_state_name(enum xrc_target_state state)
{
	return target_state_names[state];
}

const char *xrc_target_input_name(enum xrc_target_input input)
{
	return target_input_names[input];
}

const char *xrc_target_action_name(enum xrc_target_action action)
{
	return target_action_names[action];
}

const char *xrc_executor_state_name(enum xrc_executor_state state)
{
	return executor_state_names[state];
}

const char *xrc_executor_input_name(enum xrc_executor_input input)
{
	return executor_input_names[input];
}

const char *xrc_executor_action_name(enum xrc_executor_action action)
{
	return executor_action_names[action];
}
