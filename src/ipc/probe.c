/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/probe.h"

#include "base/syscalls.h"
#include "ipc/trace_points.h"

void emit_ipc(enum trace_type type, const struct ipc_hdr *hdr)
{
	const struct trace_point *point = type == TRACE_IPC_REQUEST ? &point_ipc_request :
					  type == TRACE_IPC_REPLY   ? &point_ipc_reply :
								      &point_ipc_notice;
	struct trace_event event = {
		.ipc =
			{
				.message_type = hdr->type,
				.seq = hdr->seq,
				.bytes = hdr->len,
				.status = hdr->status,
			},
	};

	trace_emit(point, &event);
}

int ipc_fault(void)
{
	struct fault fault;

	if (!fault_due(FAULT_IPC_CALL, NULL, &fault))
		return 0;
	if (fault.action == FAULT_FAIL)
		return -fault.code;
	sys_sleep_ns(fault.delay_ns);
	return 0;
}
