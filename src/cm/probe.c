/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/probe.h"

#include <stdio.h>

static void print_cm_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_state *state = &event->state;

	snprintf(out, out_bytes,
		 "comm id 0x%x remote comm id 0x%x qpn 0x%x remote qpn 0x%x from %s to %s on %s",
		 state->local_comm_id, state->remote_comm_id, event->qpn, state->remote_qpn,
		 cm_state_name((enum cm_state)state->from), cm_state_name((enum cm_state)state->to),
		 cm_input_name((enum cm_input)state->input));
}

void emit_cm_state(const struct cm_conn *conn, enum cm_state from, enum cm_input input)
{
	static const struct trace_point point = {TRACE_CM_STATE, "cm state", print_cm_state};
	struct trace_event event = {
		.qpn = conn->local_qpn,
		.psn = conn->psn,
		.state =
			{
				.from = from,
				.to = conn->state,
				.input = input,
				.local_comm_id = conn->local_comm_id,
				.remote_comm_id = conn->remote_comm_id,
				.remote_qpn = conn->remote_qpn,
			},
	};

	trace_emit(&point, &event);
}

static void print_sidr_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_state *state = &event->state;

	snprintf(out, out_bytes, "request id 0x%x from %s to %s on %s", state->local_comm_id,
		 cm_sidr_state_name((enum cm_sidr_state)state->from),
		 cm_sidr_state_name((enum cm_sidr_state)state->to),
		 cm_sidr_input_name((enum cm_sidr_input)state->input));
}

void emit_sidr_state(uint32_t request_id, enum cm_sidr_state from, enum cm_sidr_state to,
		     enum cm_sidr_input input)
{
	static const struct trace_point point = {TRACE_SIDR_STATE, "sidr state", print_sidr_state};
	struct trace_event event = {
		.state = {.from = from, .to = to, .input = input, .local_comm_id = request_id},
	};

	if (from != to)
		trace_emit(&point, &event);
}
