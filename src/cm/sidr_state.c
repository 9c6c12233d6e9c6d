/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/sidr_state.h"

#include <assert.h>

#include "base/util.h"

#define GO(doing, to)                                                        \
	{                                                                    \
		.action = CM_SIDR_ACTION_##doing, .next = CM_SIDR_STATE_##to \
	}

/* clang-format off */
static const struct cm_sidr_cell cells[CM_SIDR_STATE_COUNT][CM_SIDR_IN_COUNT] = {
	[CM_SIDR_STATE_IDLE] = {
		[CM_SIDR_IN_RESOLVE]		= GO(SEND_REQ, REQ_SENT),
		[CM_SIDR_IN_RESPONSE]		= GO(ILLEGAL, IDLE),
		[CM_SIDR_IN_DROP]		= GO(ILLEGAL, IDLE),
		[CM_SIDR_IN_DESTROY]		= GO(NOTHING, CLOSED),
		[CM_SIDR_IN_REQ]		= GO(TAKE_REQ, REQ_RCVD),
		[CM_SIDR_IN_REP]		= GO(STRAY, IDLE),
		[CM_SIDR_IN_UNREACHABLE]	= GO(STRAY, IDLE),
		[CM_SIDR_IN_RETRY]		= GO(NEVER, IDLE),
		[CM_SIDR_IN_EXPIRED]		= GO(NEVER, IDLE),
	},
	/* The protocol cannot cancel a SIDR_REQ: a SIDR_REP that arrives later is a stray. */
	[CM_SIDR_STATE_REQ_SENT] = {
		[CM_SIDR_IN_RESOLVE]		= GO(ILLEGAL, REQ_SENT),
		[CM_SIDR_IN_RESPONSE]		= GO(ILLEGAL, REQ_SENT),
		[CM_SIDR_IN_DROP]		= GO(ILLEGAL, REQ_SENT),
		[CM_SIDR_IN_DESTROY]		= GO(NOTHING, CLOSED),
		[CM_SIDR_IN_REQ]		= GO(STRAY, REQ_SENT),
		[CM_SIDR_IN_REP]		= GO(TAKE_REP, CLOSED),
		[CM_SIDR_IN_UNREACHABLE]	= GO(GIVE_UP, CLOSED),
		[CM_SIDR_IN_RETRY]		= GO(RESEND, REQ_SENT),
		[CM_SIDR_IN_EXPIRED]		= GO(GIVE_UP, CLOSED),
	},
	[CM_SIDR_STATE_REQ_RCVD] = {
		[CM_SIDR_IN_RESOLVE]		= GO(ILLEGAL, REQ_RCVD),
		[CM_SIDR_IN_RESPONSE]		= GO(SEND_REP, RESPONDED),
		[CM_SIDR_IN_DROP]		= GO(NOTHING, CLOSED),
		[CM_SIDR_IN_DESTROY]		= GO(SEND_NO, RESPONDED),
		[CM_SIDR_IN_REQ]		= GO(STRAY, REQ_RCVD),
		[CM_SIDR_IN_REP]		= GO(STRAY, REQ_RCVD),
		[CM_SIDR_IN_UNREACHABLE]	= GO(STRAY, REQ_RCVD),
		[CM_SIDR_IN_RETRY]		= GO(NEVER, REQ_RCVD),
		[CM_SIDR_IN_EXPIRED]		= GO(NEVER, REQ_RCVD),
	},
	[CM_SIDR_STATE_RESPONDED] = {
		[CM_SIDR_IN_RESOLVE]		= GO(ILLEGAL, RESPONDED),
		[CM_SIDR_IN_RESPONSE]		= GO(ILLEGAL, RESPONDED),
		[CM_SIDR_IN_DROP]		= GO(ILLEGAL, RESPONDED),
		[CM_SIDR_IN_DESTROY]		= GO(NOTHING, RESPONDED),
		[CM_SIDR_IN_REQ]		= GO(REPEAT_REP, RESPONDED),
		[CM_SIDR_IN_REP]		= GO(STRAY, RESPONDED),
		[CM_SIDR_IN_UNREACHABLE]	= GO(STRAY, RESPONDED),
		[CM_SIDR_IN_RETRY]		= GO(NEVER, RESPONDED),
		[CM_SIDR_IN_EXPIRED]		= GO(NOTHING, CLOSED),
	},
	/* No message reaches a closed resolution: its request ID is not in the table any more. */
	[CM_SIDR_STATE_CLOSED] = {
		[CM_SIDR_IN_RESOLVE]		= GO(ILLEGAL, CLOSED),
		[CM_SIDR_IN_RESPONSE]		= GO(ILLEGAL, CLOSED),
		[CM_SIDR_IN_DROP]		= GO(ILLEGAL, CLOSED),
		[CM_SIDR_IN_DESTROY]		= GO(NOTHING, CLOSED),
		[CM_SIDR_IN_REQ]		= GO(STRAY, CLOSED),
		[CM_SIDR_IN_REP]		= GO(STRAY, CLOSED),
		[CM_SIDR_IN_UNREACHABLE]	= GO(STRAY, CLOSED),
		[CM_SIDR_IN_RETRY]		= GO(NEVER, CLOSED),
		[CM_SIDR_IN_EXPIRED]		= GO(NEVER, CLOSED),
	},
};
/* clang-format on */

static const char *const state_names[] = {
	[CM_SIDR_STATE_IDLE] = "idle",
	[CM_SIDR_STATE_REQ_SENT] = "sidr_req_sent",
	[CM_SIDR_STATE_REQ_RCVD] = "sidr_req_rcvd",
	[CM_SIDR_STATE_RESPONDED] = "answered",
	[CM_SIDR_STATE_CLOSED] = "closed",
};
static_assert(COUNT(state_names) == CM_SIDR_STATE_COUNT, "every state has a name");

static const char *const input_names[] = {
	[CM_SIDR_IN_RESOLVE] = "resolve",
	[CM_SIDR_IN_RESPONSE] = "answer",
	[CM_SIDR_IN_DROP] = "forget",
	[CM_SIDR_IN_DESTROY] = "destroy",
	[CM_SIDR_IN_REQ] = "SIDR_REQ",
	[CM_SIDR_IN_REP] = "SIDR_REP",
	[CM_SIDR_IN_UNREACHABLE] = "ICMP unreachable",
	[CM_SIDR_IN_RETRY] = "retry",
	[CM_SIDR_IN_EXPIRED] = "expired",
};
static_assert(COUNT(input_names) == CM_SIDR_IN_COUNT, "every input has a name");

static const char *const action_names[] = {
	[CM_SIDR_ACTION_MISSING] = "missing",
	[CM_SIDR_ACTION_ILLEGAL] = "illegal",
	[CM_SIDR_ACTION_NOTHING] = "nothing",
	[CM_SIDR_ACTION_STRAY] = "stray",
	[CM_SIDR_ACTION_NEVER] = "never",
	[CM_SIDR_ACTION_SEND_REQ] = "send SIDR_REQ",
	[CM_SIDR_ACTION_RESEND] = "resend",
	[CM_SIDR_ACTION_TAKE_REP] = "take SIDR_REP",
	[CM_SIDR_ACTION_GIVE_UP] = "give up on SIDR_REQ",
	[CM_SIDR_ACTION_TAKE_REQ] = "take SIDR_REQ",
	[CM_SIDR_ACTION_SEND_REP] = "send SIDR_REP",
	[CM_SIDR_ACTION_SEND_NO] = "send SIDR_REP (rejected)",
	[CM_SIDR_ACTION_REPEAT_REP] = "repeat SIDR_REP",
};
static_assert(COUNT(action_names) == CM_SIDR_ACTION_COUNT, "every action has a name");

struct cm_sidr_cell cm_sidr_cell(enum cm_sidr_state state, enum cm_sidr_input input)
{
	return cells[state][input];
}

const char *cm_sidr_state_name(enum cm_sidr_state state)
{
	return (unsigned)state < CM_SIDR_STATE_COUNT ? state_names[state] : "?";
}

const char *cm_sidr_input_name(enum cm_sidr_input input)
{
	return (unsigned)input < CM_SIDR_IN_COUNT ? input_names[input] : "?";
}

const char *cm_sidr_action_name(enum cm_sidr_action action)
{
	return (unsigned)action < CM_SIDR_ACTION_COUNT ? action_names[action] : "?";
}
