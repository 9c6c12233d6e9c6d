/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/probe.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/opcode.h"
#include "core/qp_state.h"
#include "core/vendor_err.h"

static const char *wr_title(unsigned int opcode)
{
	const char *title = opcode < WR_OPCODE_COUNT ? wr_opcodes[opcode].title : NULL;

	return title ? title : "unknown";
}

static const char *wc_opcode_name(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WC_RECV:
		return "receive";
	case IBV_WC_RECV_RDMA_WITH_IMM:
		return "receive of RDMA WRITE with immediate";
	default:
		return wr_title_of_wc((enum ibv_wc_opcode)opcode);
	}
}

static void print_wr(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_wr *wr = &event->wr;

	snprintf(out, out_bytes,
		 "qpn 0x%x wr_id 0x%" PRIx64 " %s length %u sges %u va 0x%" PRIx64
		 " rkey 0x%x remote qpn 0x%x flags 0x%x",
		 event->qpn, wr->wr_id, wr_title(wr->opcode), wr->length_bytes, wr->num_sge,
		 wr->remote_addr, wr->rkey, wr->remote_qpn, wr->send_flags);
}

static void emit_wr_posted(const struct qp *qp, const struct send_wqe *wqe)
{
	static const struct trace_point point = {TRACE_WR_POSTED, "wr posted", print_wr};
	struct trace_event event = {
		.qpn = qp->qpn,
		.wr =
			{
				.wr_id = wqe->wr_id,
				.remote_addr = wqe->remote_addr,
				.length_bytes = wqe->length_bytes,
				.rkey = wqe->rkey,
				.remote_qpn = qp->type == IBV_QPT_UD ? wqe->remote_qpn :
								       qp->attr.dest_qp_num,
				.send_flags = wqe->send_flags,
				.opcode = wqe->opcode,
				.num_sge = wqe->num_sge,
			},
	};

	trace_emit(&point, &event);
}

void probe_wr_accepted(const struct qp *qp, struct send_wqe *wqe)
{
	wqe->injected_status = (unsigned int)fault_code(FAULT_WR_EXECUTE) & 0x7f;
	if (trace_is_on())
		emit_wr_posted(qp, wqe);
}

static void print_recv(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_wr *wr = &event->wr;

	if (event->qpn)
		snprintf(out, out_bytes, "qpn 0x%x wr_id 0x%" PRIx64 " sges %u", event->qpn,
			 wr->wr_id, wr->num_sge);
	else
		snprintf(out, out_bytes, "srq wr_id 0x%" PRIx64 " sges %u", wr->wr_id, wr->num_sge);
}

void emit_recv_posted(uint32_t qpn, const struct ibv_recv_wr *wr)
{
	static const struct trace_point point = {TRACE_RECV_POSTED, "receive posted", print_recv};
	struct trace_event event = {
		.qpn = qpn,
		.wr = {.wr_id = wr->wr_id, .num_sge = (uint8_t)wr->num_sge},
	};

	trace_emit(&point, &event);
}

static void print_cqe(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_cqe *cqe = &event->cqe;
	int len = snprintf(out, out_bytes, "qpn 0x%x wr_id 0x%" PRIx64 " ", event->qpn, cqe->wr_id);

	if (len < 0 || (size_t)len >= out_bytes)
		return;
	/* On failure only wr_id, status, qp_num and vendor_err are valid (ibv_poll_cq(3)). */
	if (cqe->status == IBV_WC_SUCCESS)
		snprintf(out + len, out_bytes - (size_t)len, "%s length %u: success",
			 wc_opcode_name(cqe->opcode), cqe->byte_len);
	else
		snprintf(out + len, out_bytes - (size_t)len, "%s: %s (vendor_err %u)",
			 ibv_wc_status_str((enum ibv_wc_status)cqe->status),
			 vendor_err_text(cqe->vendor_err), cqe->vendor_err);
}

void emit_cqe(const struct ibv_wc *wc)
{
	static const struct trace_point point = {TRACE_CQE, "cqe", print_cqe};
	struct trace_event event = {
		.qpn = wc->qp_num,
		.cqe =
			{
				.wr_id = wc->wr_id,
				.status = wc->status,
				.opcode = wc->opcode,
				.vendor_err = wc->vendor_err,
				.byte_len = wc->byte_len,
			},
	};

	trace_emit(&point, &event);
}

static void print_qp_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "qpn 0x%x from %s to %s", event->qpn,
		 qp_state_name((enum ibv_qp_state)event->state.from),
		 qp_state_name((enum ibv_qp_state)event->state.to));
}

void emit_qp_state(const struct qp *qp, enum ibv_qp_state to)
{
	static const struct trace_point point = {TRACE_QP_STATE, "qp state", print_qp_state};
	struct trace_event event = {
		.qpn = qp->qpn,
		.state =
			{
				.from = qp->state,
				.to = to,
				.remote_qpn = qp->attr.dest_qp_num,
			},
	};

	if (qp->state != to)
		trace_emit(&point, &event);
}
