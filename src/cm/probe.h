/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_PROBE_H
#define USRDMA_CM_PROBE_H

#include "base/trace.h"
#include "cm/conn.h"
#include "cm/sidr_state.h"

/* Trace points of the communication manager's state machines. */

/* The functions behind the points. */
PROBE_COLD void emit_cm_state(const struct cm_conn *conn, enum cm_state from, enum cm_input input);
PROBE_COLD void emit_sidr_state(uint32_t request_id, enum cm_sidr_state from, enum cm_sidr_state to,
				enum cm_sidr_input input);

/* The connection went from this state to the one that it is in. */
static inline void trace_cm_state(const struct cm_conn *conn, enum cm_state from,
				  enum cm_input input)
{
	if (trace_is_on())
		emit_cm_state(conn, from, input);
}

static inline void trace_sidr_state(uint32_t request_id, enum cm_sidr_state from,
				    enum cm_sidr_state to, enum cm_sidr_input input)
{
	if (trace_is_on())
		emit_sidr_state(request_id, from, to, input);
}

#endif
