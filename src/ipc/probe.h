/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_PROBE_H
#define USRDMA_IPC_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "ipc/msg.h"

/* Trace points and fault points of the messages between a client and the daemon. */

/* `type`: TRACE_IPC_REQUEST, TRACE_IPC_REPLY or TRACE_IPC_NOTICE. */
PROBE_COLD void emit_ipc(enum trace_type type, const struct ipc_hdr *hdr);

static inline void trace_ipc(enum trace_type type, const void *msg)
{
	if (trace_is_on())
		emit_ipc(type, msg);
}

/*
 * The fault point of requests that wait for a reply. Returns 0, or -errno that replaces the
 * daemon's reply. Sleeps if the fault is a delay.
 */
int ipc_fault(void) __attribute__((warn_unused_result));

#endif
