/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/probe.h"

#include "cm/trace_points.h"

void emit_cm_state(const struct cm_conn *conn, enum cm_state from, enum cm_input input)
{
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

	trace_emit(&point_cm_state, &event);
}

void emit_sidr_state(uint32_t request_id, enum cm_sidr_state from, enum cm_sidr_state to,
		     enum cm_sidr_input input)
{
	struct trace_event event = {
		.state = {.from = from, .to = to, .input = input, .local_comm_id = request_id},
	};

	if (from != to)
		trace_emit(&point_sidr_state, &event);
}
