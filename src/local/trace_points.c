/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/trace_points.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "local/ring.h"
#include "wire/aeth.h"

/* The names of elements that are not requests. */
static const char *const element_names[CELL_TYPE_COUNT] = {
	[CELL_NONE] = "empty",
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
	[CELL_SHARE_REQUEST] = "memory object request",
	[CELL_SHARE_GONE] = "memory object gone",
	[CELL_CHANNEL_REQUEST] = "completion channel request",
};

/* The operation if the element is a request, otherwise the kind of the element. */
static const char *element_name(const struct trace_fifo *fifo)
{
	const char *title = fifo->opcode < WR_OPCODE_COUNT ? wr_opcodes[fifo->opcode].title : NULL;
	const char *name = fifo->element_type < CELL_TYPE_COUNT ?
				   element_names[fifo->element_type] :
				   NULL;

	return title ? title : name ? name : "unknown";
}

/* The receiver of an element does not have the wr_id of the sender. */
static void print_request(char *out, size_t out_bytes, const struct trace_fifo *fifo, bool is_sent)
{
	bool is_part = !(fifo->flags & CELL_FIRST) || !(fifo->flags & CELL_LAST);
	bool has_address = fifo->element_type != CELL_SEND;
	int len = is_sent ? snprintf(out, out_bytes, " wr_id 0x%" PRIx64, fifo->wr_id) : 0;

	if (len < 0 || (size_t)len >= out_bytes)
		return;
	len += snprintf(out + len, out_bytes - (size_t)len, " length %u", fifo->message_bytes);
	if ((size_t)len >= out_bytes)
		return;
	if (is_part)
		len += snprintf(out + len, out_bytes - (size_t)len, " (%s%u bytes)",
				fifo->flags & CELL_FIRST ? "first " :
				fifo->flags & CELL_LAST	 ? "last " :
							   "next ",
				fifo->element_bytes);
	if ((size_t)len < out_bytes && has_address)
		len += snprintf(out + len, out_bytes - (size_t)len, " va 0x%" PRIx64 " rkey 0x%x",
				fifo->remote_addr, fifo->rkey);
	if ((size_t)len < out_bytes && (fifo->flags & CELL_IMM))
		len += snprintf(out + len, out_bytes - (size_t)len, " imm 0x%08x",
				ntohl(fifo->imm_or_code));
	if ((size_t)len < out_bytes && (fifo->flags & CELL_PLACED))
		snprintf(out + len, out_bytes - (size_t)len, ", data written before");
}

/* The members of an element that is not a request. */
static void print_response(char *out, size_t out_bytes, const struct trace_fifo *fifo)
{
	switch (fifo->element_type) {
	case CELL_NAK:
	case CELL_FAULT:
		snprintf(out, out_bytes, ": %s",
			 access_result_name((enum access_result)fifo->imm_or_code));
		break;
	case CELL_RNR:
		snprintf(out, out_bytes, ", requester waits %" PRIu64 " us",
			 aeth_rnr_wait_ns(fifo->imm_or_code) / 1000);
		break;
	case CELL_DATAGRAM:
		snprintf(out, out_bytes, " length %u q_key 0x%x", fifo->message_bytes, fifo->rkey);
		break;
	case CELL_ATOMIC_RESULT:
		snprintf(out, out_bytes, " original 0x%" PRIx64, fifo->swap);
		break;
	default:
		if (fifo->element_bytes)
			snprintf(out, out_bytes, " bytes %u", fifo->element_bytes);
		break;
	}
}

static void print_element(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_fifo *fifo = &event->fifo;
	int len = snprintf(out, out_bytes, "%s from qpn 0x%x to qpn 0x%x ssn %u",
			   element_name(fifo), fifo->src_qpn, event->qpn, fifo->message_seq);

	if (len < 0 || (size_t)len >= out_bytes)
		return;
	if (fifo->opcode != TRACE_NO_OPCODE)
		print_request(out + len, out_bytes - (size_t)len, fifo,
			      event->type == TRACE_FIFO_SENT);
	else
		print_response(out + len, out_bytes - (size_t)len, fifo);
}

const struct trace_point point_fifo_sent = {TRACE_FIFO_SENT, "fifo element sent", print_element};
const struct trace_point point_fifo_received = {TRACE_FIFO_RECEIVED, "fifo element received",
						print_element};
