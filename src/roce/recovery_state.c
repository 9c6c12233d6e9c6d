/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/recovery.h"

#include <assert.h>

#include "base/util.h"
#include "wire/psn.h"

/*
 * If the packet after a retransmitted gap is also missing, and the peer is known to buffer
 * out-of-order packets, the next gap is assumed to be GAP_GROWTH times as long. A gap of more than
 * GAP_MAX_PKTS means that the peer does not buffer.
 */
#define GAP_GROWTH   4u
#define GAP_MAX_PKTS 64u

/* The longest hold-off is 2^6 losses. */
#define HOLD_OFF_EXPONENT_MAX 6u

#define GO(doing, to)                                                    \
	{                                                                \
		.action = RECOVERY_ACTION_##doing, .next = RECOVERY_##to \
	}

/* clang-format off */
static const struct recovery_cell cells[RECOVERY_STATE_COUNT][RECOVERY_IN_COUNT] = {
	[RECOVERY_OPEN] = {
		[RECOVERY_IN_ACK]		= GO(NOTHING, OPEN),
		[RECOVERY_IN_RECOVERED]		= GO(NEVER, OPEN),
		[RECOVERY_IN_GAP]		= GO(RETRANSMIT_GAP, SELECTIVE),
		[RECOVERY_IN_GAP_ALL]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_GAP_HOLD_OFF]	= GO(RETRANSMIT_ALL_COUNT, GO_BACK_N),
		[RECOVERY_IN_NOT_BUFFERED]	= GO(NEVER, OPEN),
		[RECOVERY_IN_RTO]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_RNR_EXPIRED]	= GO(NEVER, OPEN),
		[RECOVERY_IN_RNR_NAK]		= GO(WAIT_RNR, RNR_WAIT),
	},
	/* A second gap and a lost retransmission are both retransmitted in this state. */
	[RECOVERY_SELECTIVE] = {
		[RECOVERY_IN_ACK]		= GO(NOTHING, SELECTIVE),
		[RECOVERY_IN_RECOVERED]		= GO(CONFIRM, OPEN),
		[RECOVERY_IN_GAP]		= GO(RETRANSMIT_GAP, SELECTIVE),
		[RECOVERY_IN_GAP_ALL]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_GAP_HOLD_OFF]	= GO(NEVER, SELECTIVE),
		[RECOVERY_IN_NOT_BUFFERED]	= GO(RETRANSMIT_ALL_DENY, GO_BACK_N),
		[RECOVERY_IN_RTO]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_RNR_EXPIRED]	= GO(NEVER, SELECTIVE),
		[RECOVERY_IN_RNR_NAK]		= GO(WAIT_RNR, RNR_WAIT),
	},
	/*
	 * While older copies of the packets are in the network, an acknowledged PSN does not show
	 * whether the peer buffers. So selective repeat is not used until all packets that were in
	 * flight at the start of go-back-N are acknowledged.
	 */
	[RECOVERY_GO_BACK_N] = {
		[RECOVERY_IN_ACK]		= GO(NOTHING, GO_BACK_N),
		[RECOVERY_IN_RECOVERED]		= GO(NOTHING, OPEN),
		[RECOVERY_IN_GAP]		= GO(NEVER, GO_BACK_N),
		[RECOVERY_IN_GAP_ALL]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_GAP_HOLD_OFF]	= GO(NEVER, GO_BACK_N),
		[RECOVERY_IN_NOT_BUFFERED]	= GO(NEVER, GO_BACK_N),
		[RECOVERY_IN_RTO]		= GO(RETRANSMIT_ALL, GO_BACK_N),
		[RECOVERY_IN_RNR_EXPIRED]	= GO(NEVER, GO_BACK_N),
		[RECOVERY_IN_RNR_NAK]		= GO(WAIT_RNR, RNR_WAIT),
	},
	/*
	 * All packets are retransmitted after the wait, so recovery_on_gap() ignores reports of
	 * gaps in this state.
	 */
	[RECOVERY_RNR_WAIT] = {
		[RECOVERY_IN_ACK]		= GO(NOTHING, RNR_WAIT),
		[RECOVERY_IN_RECOVERED]		= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_GAP]		= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_GAP_ALL]		= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_GAP_HOLD_OFF]	= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_NOT_BUFFERED]	= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_RTO]		= GO(NEVER, RNR_WAIT),
		[RECOVERY_IN_RNR_EXPIRED]	= GO(RESUME, GO_BACK_N),
		[RECOVERY_IN_RNR_NAK]		= GO(NOTHING, RNR_WAIT),
	},
};
/* clang-format on */

static const char *const state_names[] = {
	[RECOVERY_OPEN] = "open",
	[RECOVERY_SELECTIVE] = "selective",
	[RECOVERY_GO_BACK_N] = "go_back_n",
	[RECOVERY_RNR_WAIT] = "rnr_wait",
};
static_assert(COUNT(state_names) == RECOVERY_STATE_COUNT, "every state has a name");

static const char *const input_names[] = {
	[RECOVERY_IN_ACK] = "ACK",
	[RECOVERY_IN_RECOVERED] = "ACK of all that was lost",
	[RECOVERY_IN_GAP] = "gap",
	[RECOVERY_IN_GAP_ALL] = "gap, go-back-N required",
	[RECOVERY_IN_GAP_HOLD_OFF] = "gap during hold-off",
	[RECOVERY_IN_NOT_BUFFERED] = "gap behind the gap",
	[RECOVERY_IN_RTO] = "RTO",
	[RECOVERY_IN_RNR_EXPIRED] = "RNR timer",
	[RECOVERY_IN_RNR_NAK] = "RNR NAK",
};
static_assert(COUNT(input_names) == RECOVERY_IN_COUNT, "every input has a name");

static const char *const action_names[] = {
	[RECOVERY_ACTION_MISSING] = "missing",
	[RECOVERY_ACTION_NEVER] = "never",
	[RECOVERY_ACTION_NOTHING] = "nothing",
	[RECOVERY_ACTION_RETRANSMIT_GAP] = "retransmit the gap",
	[RECOVERY_ACTION_RETRANSMIT_ALL] = "retransmit all",
	[RECOVERY_ACTION_RETRANSMIT_ALL_COUNT] = "retransmit all, count the loss",
	[RECOVERY_ACTION_RETRANSMIT_ALL_DENY] = "retransmit all, start hold-off",
	[RECOVERY_ACTION_CONFIRM] = "confirm that the peer buffers",
	[RECOVERY_ACTION_WAIT_RNR] = "start the RNR timer",
	[RECOVERY_ACTION_RESUME] = "retransmit all",
};
static_assert(COUNT(action_names) == RECOVERY_ACTION_COUNT, "every action has a name");

struct recovery_cell recovery_cell(enum recovery_state state, enum recovery_input input)
{
	return cells[state][input];
}

const char *recovery_state_name(enum recovery_state state)
{
	return state_names[state];
}

const char *recovery_input_name(enum recovery_input input)
{
	return input_names[input];
}

const char *recovery_action_name(enum recovery_action action)
{
	return action_names[action];
}

enum recovery_input recovery_classify_ack(const struct recovery *recovery, uint32_t una_psn)
{
	uint32_t end_psn = recovery->retransmit_end_psn;

	if ((recovery->state == RECOVERY_GO_BACK_N && !psn_is_before(una_psn, end_psn)) ||
	    (recovery->state == RECOVERY_SELECTIVE && psn_is_after(una_psn, end_psn)))
		return RECOVERY_IN_RECOVERED;
	return RECOVERY_IN_ACK;
}

bool recovery_is_gap_acked(const struct recovery *recovery, uint32_t una_psn)
{
	return recovery->state == RECOVERY_SELECTIVE && una_psn == recovery->retransmit_end_psn;
}

enum recovery_input recovery_classify_gap(const struct recovery *recovery,
					  const struct recovery_gap *gap, uint32_t *gap_pkts)
{
	const struct recovery_reorder *reorder = &recovery->reorder;

	*gap_pkts = gap->burst_pkts;
	if (gap->has_responses || recovery->state == RECOVERY_GO_BACK_N)
		return RECOVERY_IN_GAP_ALL;
	if (recovery_is_gap_acked(recovery, gap->una_psn)) {
		*gap_pkts = recovery->gap_pkts * GAP_GROWTH;
		if (reorder->confidence != REORDER_CONFIRMED || *gap_pkts > GAP_MAX_PKTS)
			return RECOVERY_IN_NOT_BUFFERED;
	} else if (reorder->confidence == REORDER_HOLD_OFF) {
		return RECOVERY_IN_GAP_HOLD_OFF;
	}
	return *gap_pkts < psn_sub(gap->max_psn, gap->una_psn) ? RECOVERY_IN_GAP :
								 RECOVERY_IN_GAP_ALL;
}

void recovery_reorder_confirm(struct recovery_reorder *reorder)
{
	*reorder = (struct recovery_reorder){.confidence = REORDER_CONFIRMED};
}

void recovery_reorder_deny(struct recovery_reorder *reorder)
{
	reorder->confidence = REORDER_HOLD_OFF;
	reorder->hold_off_losses = 1u << reorder->hold_off_exponent;
	if (reorder->hold_off_exponent < HOLD_OFF_EXPONENT_MAX)
		reorder->hold_off_exponent++;
}

void recovery_reorder_count(struct recovery_reorder *reorder)
{
	if (!--reorder->hold_off_losses)
		reorder->confidence = REORDER_UNKNOWN;
}
