/* SPDX-License-Identifier: BSD-2-Clause */
#include "points.h"

#include <stdio.h>

#include "base/trace_points.h"
#include "base/util.h"
#include "cm/trace_points.h"
#include "core/report/trace_points.h"
#include "ipc/trace_points.h"
#include "local/trace_points.h"
#include "rdmacm/trace_points.h"
#include "roce/trace_points.h"
#include "wire/trace_packet.h"

static const struct trace_point *const points[] = {
	[TRACE_PACKET_SENT] = &trace_packet_sent,
	[TRACE_PACKET_RECEIVED] = &trace_packet_received,
	[TRACE_MAD_SENT] = &trace_mad_sent,
	[TRACE_MAD_RECEIVED] = &trace_mad_received,
	[TRACE_WR_POSTED] = &point_wr_posted,
	[TRACE_RECV_POSTED] = &point_recv_posted,
	[TRACE_CQE] = &point_cqe,
	[TRACE_FIFO_SENT] = &point_fifo_sent,
	[TRACE_FIFO_RECEIVED] = &point_fifo_received,
	[TRACE_IPC_REQUEST] = &point_ipc_request,
	[TRACE_IPC_REPLY] = &point_ipc_reply,
	[TRACE_IPC_NOTICE] = &point_ipc_notice,
	[TRACE_CM_STATE] = &point_cm_state,
	[TRACE_SIDR_STATE] = &point_sidr_state,
	[TRACE_QP_STATE] = &point_qp_state,
	[TRACE_RETRANSMIT] = &point_retransmit,
	[TRACE_RECOVERY_STATE] = &point_recovery_state,
	[TRACE_WINDOW] = &point_window,
	[TRACE_FAULT] = &point_fault,
	[TRACE_ONE_SIDED] = &point_one_sided,
	[TRACE_CM_EVENT] = &point_cm_event,
	[TRACE_ASYNC_EVENT] = &point_async_event,
	[TRACE_CALL_FAILED] = &point_call_failed,
	[TRACE_DROP] = &point_drop,
	[TRACE_PORT] = &point_port,
	[TRACE_QP_PATH] = &point_qp_path,
};
static_assert(COUNT(points) == TRACE_TYPE_COUNT, "every type has a point");

static void print_unknown(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "type %u of a newer version", event->type);
}

static const struct trace_point unknown = {TRACE_NONE, "unknown", print_unknown};

const struct trace_point *trace_point_of(uint8_t type)
{
	return type < COUNT(points) && points[type] ? points[type] : &unknown;
}
