/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/trace_points.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/util.h"
#include "core/opcode.h"
#include "local/request.h"
#include "local/ring.h"

/* The names of elements other than requests that have a response of their own. */
static const char *const element_names[] = {
	[CELL_NONE] = "empty",
	[CELL_SEND] = "SEND",
	[CELL_WRITE] = "RDMA WRITE",
	[CELL_FAULT] = "error of one-sided operation",
	[CELL_ACK] = "ACK",
	[CELL_NAK] = "NAK",
	[CELL_RNR] = "RNR NAK",
	[CELL_NOT_READY] = "QP not ready",
	[CELL_READY] = "receive posted",
	[CELL_READ_DATA] = "RDMA READ response",
	[CELL_ATOMIC_RESULT] = "atomic response",
	[CELL_DATAGRAM] = "datagram",
	[CELL_XRC_FORWARD] = "XRC message",
};
static_assert(COUNT(element_names) == CELL_TYPE_COUNT, "the last element type has a name");

static const char *element_name(uint8_t type)
{
	int opcode = request_opcode_of_cell(type);

	if (opcode >= 0)
		return wr_opcodes[opcode].title;
	return type < CELL_TYPE_COUNT && element_names[type] ? element_names[type] : "unknown";
}

static void print_element(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_fifo *fifo = &event->fifo;

	snprintf(out, out_bytes,
		 "%s from qpn 0x%x to qpn 0x%x ssn %u bytes %u of %u%s%s va 0x%" PRIx64
		 " rkey 0x%x imm or code 0x%x flags 0x%x",
		 element_name(fifo->element_type), fifo->src_qpn, event->qpn, fifo->message_seq,
		 fifo->element_bytes, fifo->message_bytes, fifo->flags & CELL_FIRST ? " first" : "",
		 fifo->flags & CELL_LAST ? " last" : "", fifo->remote_addr, fifo->rkey,
		 fifo->imm_or_code, fifo->flags);
}

const struct trace_point point_fifo_sent = {TRACE_FIFO_SENT, "fifo element sent", print_element};
const struct trace_point point_fifo_received = {TRACE_FIFO_RECEIVED, "fifo element received",
						print_element};
