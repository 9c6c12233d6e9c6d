/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_PROBE_H
#define USRDMA_RDMACM_PROBE_H

#include "base/trace.h"
#include "rdmacm/event.h"

PROBE_COLD void emit_cm_event(const struct rcm_event *event);

/* The application gets this event. */
static inline void trace_cm_event(const struct rcm_event *event)
{
	if (trace_is_on())
		emit_cm_event(event);
}

#endif
