/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/probe.h"

#include <stdio.h>

#include "base/syscalls.h"

static void print_message(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_ipc *ipc = &event->ipc;
	const struct ipc_type_info *info = ipc_type_info(ipc->message_type);

	snprintf(out, out_bytes, "%s seq %u bytes %u status %d", info ? info->name : "unknown",
		 ipc->seq, ipc->bytes, ipc->status);
}

void emit_ipc(enum trace_type type, const struct ipc_hdr *hdr)
{
	static const struct trace_point request = {TRACE_IPC_REQUEST, "ipc request", print_message};
	static const struct trace_point reply = {TRACE_IPC_REPLY, "ipc reply", print_message};
	static const struct trace_point notice = {TRACE_IPC_NOTICE, "ipc notice", print_message};
	const struct trace_point *point = type == TRACE_IPC_REQUEST ? &request :
					  type == TRACE_IPC_REPLY   ? &reply :
								      &notice;
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
