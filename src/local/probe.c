/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/probe.h"

#include <string.h>

#include "base/trace_points.h"
#include "base/user_copy.h"
#include "base/util.h"
#include "core/object/opcode.h"
#include "core/queue/sge.h"
#include "core/report/trace_points.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/request.h"
#include "local/ring.h"
#include "local/trace_points.h"

/* The events contain these numbers, which the command reads without the headers of this module. */
static_assert((int)CELL_SEND == (int)TRACE_ELEMENT_SEND, "the same numbers");
static_assert((int)CELL_FAULT == (int)TRACE_ELEMENT_FAULT, "the same numbers");
static_assert((int)CELL_READ_DATA == (int)TRACE_ELEMENT_READ_DATA, "the same numbers");
static_assert((int)CELL_XRC_FORWARD == (int)TRACE_ELEMENT_XRC_FORWARD, "the same numbers");
static_assert((int)CELL_CHANNEL_REQUEST == (int)TRACE_ELEMENT_CHANNEL_REQUEST, "the same numbers");
static_assert((int)CELL_FIRST == (int)TRACE_ELEMENT_FIRST, "the same flags");
static_assert((int)CELL_SOLICITED == (int)TRACE_ELEMENT_SOLICITED, "the same flags");
static_assert((int)CELL_PLACED == (int)TRACE_ELEMENT_PLACED, "the same flags");

/*
 * The opcode of the WR, as far as the element determines it: the last element of a message has the
 * immediate.
 */
static uint8_t opcode_of_element(const struct cell *cell)
{
	int opcode;

	switch (cell->type) {
	case CELL_SEND:
		return cell->flags & CELL_IMM	     ? IBV_WR_SEND_WITH_IMM :
		       cell->flags & CELL_INVALIDATE ? IBV_WR_SEND_WITH_INV :
						       IBV_WR_SEND;
	case CELL_WRITE:
		return cell->flags & CELL_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	default:
		opcode = request_opcode_of_cell(cell->type);
		return opcode < 0 ? TRACE_NO_OPCODE : (uint8_t)opcode;
	}
}

static void fill_atomic(struct trace_fifo *fifo, const struct cell *cell)
{
	if (cell->type == CELL_COMPARE_SWAP || cell->type == CELL_FETCH_ADD ||
	    cell->type == CELL_ATOMIC_RESULT) {
		fifo->compare_add = cell->atomic.compare_add;
		fifo->swap = cell->atomic.swap;
	}
}

void emit_fifo(enum trace_type type, const struct cell *cell, const uint8_t *payload,
	       uint64_t wr_id)
{
	bool is_sent = type == TRACE_FIFO_SENT;
	struct trace_event event;
	struct trace_fifo *fifo = &event.fifo;

	trace_event_begin(&event, cell->dst_qpn, 0, 0);
	/* Without the payload, of which only the first payload_bytes are read. */
	memset(fifo, 0, offsetof(struct trace_fifo, payload));
	fifo->remote_addr = cell->remote_addr;
	fifo->src_qpn = cell->src_qpn;
	fifo->message_seq = cell->ssn;
	fifo->message_bytes = cell->length;
	fifo->rkey = cell->rkey;
	fifo->imm_or_code = cell->imm_or_code;
	fifo->element_bytes = cell->bytes;
	fifo->element_type = cell->type;
	fifo->flags = cell->flags;
	fifo->remote_qpn = is_sent ? cell->dst_qpn : cell->src_qpn;
	fifo->opcode = opcode_of_element(cell);
	fifo->wr_id = wr_id;
	/* The sender of a response leaves these members of the element unchanged. */
	if (fifo->opcode == TRACE_NO_OPCODE && cell->type != CELL_DATAGRAM) {
		fifo->remote_addr = 0;
		fifo->rkey = 0;
	}
	fill_atomic(fifo, cell);
	if (payload && cell->bytes) {
		fifo->payload_bytes = (uint16_t)min_u32(cell->bytes, TRACE_PAYLOAD_BYTES);
		memcpy(fifo->payload, payload, fifo->payload_bytes);
	}
	trace_emit(is_sent ? &point_fifo_sent : &point_fifo_received, &event);
}

/*
 * The first bytes of the data that a one-sided operation has moved. Data whose memory is gone is
 * not captured.
 */
static void fill_one_sided_payload(struct trace_one_sided *op, struct local_qp *lqp,
				   struct send_wqe *wqe)
{
	struct iovec iov[4];
	struct sge_iovs data = {.iov = iov, .max = (int)COUNT(iov)};
	uint32_t bytes = min_u32(wqe->length_bytes, TRACE_PAYLOAD_BYTES);
	bool is_read = wqe_scatters(wqe);

	if (!is_read) {
		if (!sge_copy_from(lqp->qp, wqe, 0, op->payload, bytes))
			op->payload_bytes = (uint16_t)bytes;
		return;
	}
	if (sge_gather(lqp->qp, wqe, 0, bytes, is_read, &data))
		return;
	if (user_gather(op->payload, iov, data.count))
		op->payload_bytes = (uint16_t)data.bytes;
}

void emit_one_sided(struct local_qp *lqp, struct send_wqe *wqe, enum access_result result)
{
	struct trace_event event = {
		.qpn = lqp->qp->qpn,
		.ifindex = lqp->qp->context->device->dev_id,
		.one_sided =
			{
				.remote_addr = wqe->remote_addr,
				.wr_id = wqe->wr_id,
				.length_bytes = wqe->length_bytes,
				.rkey = wqe->rkey,
				.remote_qpn = lqp->qp->attr.dest_qp_num,
				.message_seq = lqp->tx.ssn,
				.imm_be = wqe_has_imm(wqe) ? wqe->imm_data_be : 0,
				.status = result,
				.opcode = wqe->opcode,
			},
	};

	if (result == ACCESS_OK)
		fill_one_sided_payload(&event.one_sided, lqp, wqe);
	trace_emit(&point_one_sided, &event);
}

/* Reasons for which local_dispatch() drops an element, and their texts. */
static const struct {
	enum local_counter counter;
	const char *cause;
} drops[] = {
	{LOCAL_BAD_CELLS, "malformed element"},
	{LOCAL_DATAGRAMS_SOURCE, "foreign source address"},
	{LOCAL_DATAGRAMS_UNKNOWN_QPN, "unknown QPN"},
	{LOCAL_DATAGRAMS_NOT_UD, "not a UD queue pair"},
	{LOCAL_DATAGRAMS_QP_STATE, "queue pair not ready"},
	{LOCAL_DATAGRAMS_QKEY, "wrong Q_Key"},
	{LOCAL_DATAGRAMS_NO_RECV, "no receive posted"},
	{LOCAL_DATAGRAMS_RECV_TOO_SHORT, "receive too short"},
	{LOCAL_DATAGRAMS_BAD_RECV, "invalid SGE of the receive"},
};

void local_emit_drop(const struct peer *peer, const uint64_t before[LOCAL_COUNTER_COUNT],
		     const struct cell *cell)
{
	const uint64_t *now = peer->counters;

	for (size_t i = 0; i < COUNT(drops); i++) {
		if (now[drops[i].counter] != before[drops[i].counter])
			trace_emit_drop(drops[i].cause, cell->dst_qpn, cell->src_qpn, cell->ssn,
					NULL, cell->bytes);
	}
}
