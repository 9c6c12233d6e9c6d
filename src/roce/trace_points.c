/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/trace_points.h"

#include <assert.h>
#include <stdio.h>

#include "base/util.h"
#include "roce/probe.h"
#include "roce/recovery.h"

static void print_retransmit(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "qpn 0x%x psn %u", event->qpn, event->psn);
}

const struct trace_point point_retransmit = {TRACE_RETRANSMIT, "retransmission", print_retransmit};

static const char *state_text(uint32_t state)
{
	return state < RECOVERY_STATE_COUNT ? recovery_state_name((enum recovery_state)state) :
					      "unknown";
}

static const char *input_text(uint32_t input)
{
	return input < RECOVERY_IN_COUNT ? recovery_input_name((enum recovery_input)input) :
					   "unknown";
}

static void print_recovery(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "qpn 0x%x from %s to %s after %s una_psn %u", event->qpn,
		 state_text(event->state.from), state_text(event->state.to),
		 input_text(event->state.input), event->psn);
}

const struct trace_point point_recovery_state = {TRACE_RECOVERY_STATE, "loss recovery",
						 print_recovery};

static const char *const cause_names[] = {
	[ROCE_WINDOW_ACK] = "ack",
	[ROCE_WINDOW_LOSS] = "loss",
	[ROCE_WINDOW_ECN] = "ecn",
	[ROCE_WINDOW_TIMEOUT] = "timeout",
};
static_assert(COUNT(cause_names) == ROCE_WINDOW_CAUSE_COUNT, "every cause has a name");

static void print_window(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_window *window = &event->window;

	snprintf(out, out_bytes, "qpn 0x%x %u psns threshold %u una_psn %u after %s", event->qpn,
		 window->psns, window->threshold_psns, event->psn,
		 window->cause < ROCE_WINDOW_CAUSE_COUNT ? cause_names[window->cause] : "unknown");
}

const struct trace_point point_window = {TRACE_WINDOW, "congestion window", print_window};
