/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/trace_points.h"

#include <stdio.h>

#include "cm/sidr_state.h"
#include "cm/state.h"

static void print_cm_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_state *state = &event->state;

	snprintf(out, out_bytes,
		 "comm id 0x%x remote comm id 0x%x qpn 0x%x remote qpn 0x%x from %s to %s on %s",
		 state->local_comm_id, state->remote_comm_id, event->qpn, state->remote_qpn,
		 cm_state_name((enum cm_state)state->from), cm_state_name((enum cm_state)state->to),
		 cm_input_name((enum cm_input)state->input));
}

const struct trace_point point_cm_state = {TRACE_CM_STATE, "cm state", print_cm_state};

static void print_sidr_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_state *state = &event->state;

	snprintf(out, out_bytes, "request id 0x%x from %s to %s on %s", state->local_comm_id,
		 cm_sidr_state_name((enum cm_sidr_state)state->from),
		 cm_sidr_state_name((enum cm_sidr_state)state->to),
		 cm_sidr_input_name((enum cm_sidr_input)state->input));
}

const struct trace_point point_sidr_state = {TRACE_SIDR_STATE, "sidr state", print_sidr_state};
