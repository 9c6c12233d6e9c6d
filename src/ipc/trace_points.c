/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/trace_points.h"

#include <stdio.h>

#include "ipc/msg.h"

static void print_message(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_ipc *ipc = &event->ipc;
	const struct ipc_type_info *info = ipc_type_info(ipc->message_type);

	snprintf(out, out_bytes, "%s seq %u bytes %u status %d", info ? info->name : "unknown",
		 ipc->seq, ipc->bytes, ipc->status);
}

const struct trace_point point_ipc_request = {TRACE_IPC_REQUEST, "ipc request", print_message};
const struct trace_point point_ipc_reply = {TRACE_IPC_REPLY, "ipc reply", print_message};
const struct trace_point point_ipc_notice = {TRACE_IPC_NOTICE, "ipc notice", print_message};
