/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/trace_points.h"

#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "base/trace_points.h"

static void print_cm_event(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_cm_event *cm = &event->cm_event;
	char local[TRACE_GID_TEXT_BYTES], remote[TRACE_GID_TEXT_BYTES];

	snprintf(out, out_bytes,
		 "id 0x%" PRIx64
		 " %s status %d local %s port %u remote %s port %u qpn 0x%x remote qpn 0x%x "
		 "private data %u bytes",
		 cm->id, rdma_event_str((enum rdma_cm_event_type)cm->event), cm->status,
		 trace_gid_text(local, cm->local_gid), cm->local_port,
		 trace_gid_text(remote, cm->remote_gid), cm->remote_port, event->qpn,
		 cm->remote_qpn, cm->private_bytes);
}

const struct trace_point point_cm_event = {TRACE_CM_EVENT, "cm event", print_cm_event};
