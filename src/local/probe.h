/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PROBE_H
#define USRDMA_LOCAL_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "local/ring.h"

/* Trace and fault points of the shared-memory FIFOs. */

PROBE_COLD void emit_fifo(enum trace_type type, const struct cell *cell);

static inline void trace_fifo_sent(const struct cell *cell)
{
	if (trace_is_on())
		emit_fifo(TRACE_FIFO_SENT, cell);
}

/* `cell` is this process's copy: the peer can change the element in the FIFO. */
static inline void trace_fifo_received(const struct cell *cell)
{
	if (trace_is_on())
		emit_fifo(TRACE_FIFO_RECEIVED, cell);
}

#endif
