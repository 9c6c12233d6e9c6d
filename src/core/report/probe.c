/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/probe.h"

#include <stdio.h>
#include <string.h>

#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/object/opcode.h"
#include "core/report/fault_points.h"
#include "core/report/trace_points.h"

static void emit_wr_posted(const struct qp *qp, const struct send_wqe *wqe)
{
	struct trace_event event;

	trace_event_begin(&event, qp->qpn, qp->sq.head - 1, qp->context->device->dev_id);
	event.wr = (struct trace_wr){
		.wr_id = wqe->wr_id,
		.remote_addr = wqe->remote_addr,
		.length_bytes = send_wqe_reported_bytes(wqe),
		.rkey = wqe->rkey,
		.remote_qpn = qp->type == IBV_QPT_UD ? wqe->remote_qpn : qp->attr.dest_qp_num,
		.send_flags = wqe->send_flags,
		.opcode = wqe->opcode,
		.num_sge = wqe->num_sge,
	};
	trace_emit(&point_wr_posted, &event);
}

void probe_wr_accepted(const struct qp *qp, struct send_wqe *wqe)
{
	wqe->injected_status = (unsigned int)fault_wr_execute(qp, wqe) & 0x7f;
	if (trace_is_on())
		emit_wr_posted(qp, wqe);
}

void emit_recv_posted(uint32_t qpn, const struct ibv_recv_wr *wr)
{
	struct trace_event event;

	trace_event_begin(&event, qpn, 0, 0);
	event.wr = (struct trace_wr){.wr_id = wr->wr_id, .num_sge = (uint8_t)wr->num_sge};
	trace_emit(&point_recv_posted, &event);
}

void emit_cqe(const struct ibv_wc *wc)
{
	int wr_opcode = wr_opcode_of_wc(wc->opcode);
	struct trace_event event;

	trace_event_begin(&event, wc->qp_num, 0, 0);
	event.cqe = (struct trace_cqe){
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.remote_qpn = wc->src_qp,
		.wr_opcode = wr_opcode < 0 ? TRACE_NO_OPCODE : (uint8_t)wr_opcode,
	};
	trace_emit(&point_cqe, &event);
}

static void emit_qp_path(const struct qp *qp, enum ibv_qp_state state)
{
	const struct ibv_global_route *grh = &qp->attr.ah_attr.grh;
	struct device *device = qp->context->device;
	struct trace_event event = {
		.qpn = qp->qpn,
		.ifindex = device->dev_id,
		.qp_path =
			{
				.remote_qpn = qp->attr.dest_qp_num,
				.sq_psn = qp->attr.sq_psn,
				.rq_psn = qp->attr.rq_psn,
				.mtu_bytes = (uint16_t)(128u << qp->attr.path_mtu),
				.qp_type = (uint8_t)qp->type,
				.state = (uint8_t)state,
				.timeout = qp->attr.timeout,
				.retry_cnt = qp->attr.retry_cnt,
				.rnr_retry = qp->attr.rnr_retry,
				.min_rnr_timer = qp->attr.min_rnr_timer,
				.traffic_class = grh->traffic_class,
				.hop_limit = grh->hop_limit,
				.max_rd_atomic = qp->attr.max_rd_atomic,
				.max_dest_rd_atomic = qp->attr.max_dest_rd_atomic,
			},
	};
	struct trace_qp_path *path = &event.qp_path;
	struct ipc_gid gid;

	memcpy(path->remote_gid, grh->dgid.raw, sizeof(path->remote_gid));
	if (!device_gid(device, grh->sgid_index, &gid))
		memcpy(path->local_gid, gid.raw, sizeof(path->local_gid));
	if (qp->transport)
		snprintf(path->transport, sizeof(path->transport), "%s", qp->transport->name);
	trace_emit(&point_qp_path, &event);
}

void probe_emit_paths(struct engine *engine)
{
	const struct qp *qp;
	uint32_t cursor = 0;

	engine_assert_locked(engine);
	while ((qp = qp_table_next(&engine->tables.qps, &cursor))) {
		if (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
		    qp->state == IBV_QPS_SQD)
			emit_qp_path(qp, qp->state);
	}
}

void emit_async_event(const struct context *context, uint32_t qpn,
		      const struct ibv_async_event *pub)
{
	struct trace_event event = {
		.qpn = qpn,
		.ifindex = context->device->dev_id,
		.async_event = {.event = (uint32_t)pub->event_type},
	};

	switch (pub->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		event.async_event.port = (uint32_t)pub->element.port_num;
		break;
	default:
		break;
	}
	trace_emit(&point_async_event, &event);
}

void emit_qp_state(const struct qp *qp, enum ibv_qp_state to)
{
	struct trace_event event = {
		.qpn = qp->qpn,
		.ifindex = qp->context->device->dev_id,
		.state =
			{
				.from = qp->state,
				.to = to,
				.remote_qpn = qp->attr.dest_qp_num,
			},
	};

	if (qp->state == to)
		return;
	trace_emit(&point_qp_state, &event);
	if (to == IBV_QPS_RTR || to == IBV_QPS_RTS)
		emit_qp_path(qp, to);
}
