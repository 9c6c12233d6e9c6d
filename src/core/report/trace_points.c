/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/trace_points.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/trace_line.h"
#include "base/trace_points.h"
#include "core/object/access_result.h"
#include "core/object/opcode.h"
#include "core/object/qp_state.h"
#include "core/object/vendor_err.h"

static void print_wr(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_wr *wr = &event->wr;
	struct trace_line line = trace_line_begin(out, out_bytes);

	trace_line_text_hex(&line, "qpn ", event->qpn);
	trace_line_text_hex(&line, " wr_id ", wr->wr_id);
	trace_line_text(&line, " ");
	trace_line_text(&line, wr_title(wr->opcode));
	trace_line_text_decimal(&line, " length ", wr->length_bytes);
	trace_line_text_decimal(&line, " sges ", wr->num_sge);
	trace_line_text_hex(&line, " va ", wr->remote_addr);
	trace_line_text_hex(&line, " rkey ", wr->rkey);
	trace_line_text_hex(&line, " remote qpn ", wr->remote_qpn);
	trace_line_text_hex(&line, " flags ", wr->send_flags);
	trace_line_text_decimal(&line, " message ", event->psn);
}

const struct trace_point point_wr_posted = {TRACE_WR_POSTED, "wr posted", print_wr};

static void print_recv(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_wr *wr = &event->wr;
	struct trace_line line = trace_line_begin(out, out_bytes);

	if (event->qpn)
		trace_line_text_hex(&line, "qpn ", event->qpn);
	else
		trace_line_text(&line, "srq");
	trace_line_text_hex(&line, " wr_id ", wr->wr_id);
	trace_line_text_decimal(&line, " sges ", wr->num_sge);
}

const struct trace_point point_recv_posted = {TRACE_RECV_POSTED, "receive posted", print_recv};

static void print_cqe(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_cqe *cqe = &event->cqe;
	struct trace_line line = trace_line_begin(out, out_bytes);

	trace_line_text_hex(&line, "qpn ", event->qpn);
	trace_line_text_hex(&line, " wr_id ", cqe->wr_id);
	trace_line_text(&line, " ");
	/* On failure only wr_id, status, qp_num and vendor_err are valid (ibv_poll_cq(3)). */
	if (cqe->status == IBV_WC_SUCCESS) {
		trace_line_text(&line, wr_title_of_wc((enum ibv_wc_opcode)cqe->opcode));
		trace_line_text_decimal(&line, " length ", cqe->byte_len);
		trace_line_text(&line, ": success");
		return;
	}
	if (cqe->wr_opcode != TRACE_NO_OPCODE) {
		trace_line_text(&line, wr_title(cqe->wr_opcode));
		trace_line_text(&line, " ");
	}
	trace_line_text(&line, ibv_wc_status_str((enum ibv_wc_status)cqe->status));
	trace_line_text(&line, ": ");
	trace_line_text(&line, vendor_err_text(cqe->vendor_err));
	trace_line_text_decimal(&line, " (vendor_err ", cqe->vendor_err);
	trace_line_text(&line, ")");
}

const struct trace_point point_cqe = {TRACE_CQE, "cqe", print_cqe};

static void print_qp_state(char *out, size_t out_bytes, const struct trace_event *event)
{
	snprintf(out, out_bytes, "qpn 0x%x from %s to %s", event->qpn,
		 qp_state_name((enum ibv_qp_state)event->state.from),
		 qp_state_name((enum ibv_qp_state)event->state.to));
}

const struct trace_point point_qp_state = {TRACE_QP_STATE, "qp state", print_qp_state};

static const char *qp_type_text(uint8_t type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_XRC_SEND:
		return "XRC send";
	case IBV_QPT_XRC_RECV:
		return "XRC receive";
	default:
		return "unknown";
	}
}

static void print_qp_path(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_qp_path *path = &event->qp_path;
	char local[TRACE_GID_TEXT_BYTES], remote[TRACE_GID_TEXT_BYTES];
	char transport[sizeof(path->transport) + 1];

	snprintf(out, out_bytes,
		 "qpn 0x%x %s %s over %s from %s to %s qpn 0x%x sq_psn %u rq_psn %u mtu %u "
		 "timeout %u retry_cnt %u rnr_retry %u min_rnr_timer %u",
		 event->qpn, qp_type_text(path->qp_type),
		 qp_state_name((enum ibv_qp_state)path->state),
		 trace_string(transport, path->transport, sizeof(path->transport)),
		 trace_gid_text(local, path->local_gid), trace_gid_text(remote, path->remote_gid),
		 path->remote_qpn, path->sq_psn, path->rq_psn, path->mtu_bytes, path->timeout,
		 path->retry_cnt, path->rnr_retry, path->min_rnr_timer);
}

const struct trace_point point_qp_path = {TRACE_QP_PATH, "qp path", print_qp_path};

static void print_one_sided(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_one_sided *op = &event->one_sided;

	snprintf(out, out_bytes,
		 "qpn 0x%x wr_id 0x%" PRIx64 " %s to qpn 0x%x ssn %u length %u va 0x%" PRIx64
		 " rkey 0x%x: %s",
		 event->qpn, op->wr_id, wr_title(op->opcode), op->remote_qpn, op->message_seq,
		 op->length_bytes, op->remote_addr, op->rkey,
		 access_result_name((enum access_result)op->status));
}

const struct trace_point point_one_sided = {TRACE_ONE_SIDED, "one-sided", print_one_sided};

static void print_async_event(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_async_event *async = &event->async_event;
	const char *text = ibv_event_type_str((enum ibv_event_type)async->event);

	if (event->qpn)
		snprintf(out, out_bytes, "qpn 0x%x %s", event->qpn, text);
	else if (async->port)
		snprintf(out, out_bytes, "port %u %s", async->port, text);
	else
		snprintf(out, out_bytes, "%s", text);
}

const struct trace_point point_async_event = {TRACE_ASYNC_EVENT, "asynchronous event",
					      print_async_event};
