/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the shared-memory transport. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "synth_private.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/psn.h"

#define NOTE_BYTES 128

static enum opcode_transport transport_of(const struct flow *flow)
{
	return flow->qp_type == IBV_QPT_UC ? OPCODE_TRANSPORT_UC : OPCODE_TRANSPORT_RC;
}

static bool synth_is_reliable(const struct flow *flow)
{
	return flow->qp_type != IBV_QPT_UC;
}

/*
 * A part of a SEND or WRITE, or of a READ response: the bytes [offset, offset + bytes) of the
 * message.
 */
struct segment {
	const struct flow_message *message;
	enum { SEGMENT_SEND, SEGMENT_WRITE, SEGMENT_READ_RESPONSE } kind;
	uint32_t offset;
	uint32_t bytes;
	uint32_t total_bytes;
	uint32_t known_bytes; /* valid in `payload` */
	const uint8_t *payload;
	uint64_t va;
	uint32_t rkey; /* WRITE: of the region; SEND: to invalidate */
	uint32_t imm_be;
	enum opcode_extra extra;
	bool is_solicited;
};

static uint8_t segment_opcode(const struct flow *flow, const struct segment *segment, bool starts,
			      bool ends)
{
	enum opcode_transport transport = transport_of(flow);

	switch (segment->kind) {
	case SEGMENT_SEND:
		return opcode_of_send(transport, starts, ends, segment->extra);
	case SEGMENT_WRITE:
		return opcode_of_write(transport, starts, ends, segment->extra == OPCODE_WITH_IMM);
	default:
		return opcode_of_read_response(transport, starts, ends);
	}
}

static int emit_segment_packet(struct synth *synth, const struct flow *flow,
			       const struct segment *segment, uint32_t offset, const char *note)
{
	uint32_t done = offset - segment->offset;
	uint32_t bytes = min_u32(flow->mtu_bytes, segment->bytes - done);
	bool is_response = segment->kind == SEGMENT_READ_RESPONSE;
	bool ends = offset + bytes >= segment->total_bytes;
	struct packet packet = {
		.opcode = segment_opcode(flow, segment, offset == 0, ends),
		.psn = psn_add(segment->message->psn, offset / flow->mtu_bytes),
		.wants_ack = ends && !is_response && synth_is_reliable(flow),
		.is_solicited = ends && segment->is_solicited,
		.va = segment->va,
		.rkey = segment->rkey,
		.inv_rkey = segment->rkey,
		.dma_length_bytes = segment->total_bytes,
		.imm_be = segment->imm_be,
		.syndrome = aeth_make(AETH_KIND_ACK, AETH_CREDITS_UNLIMITED),
		.msn = segment->message->msn,
	};
	struct synth_payload payload = {.bytes_total = bytes};

	if (done < segment->known_bytes) {
		payload.bytes = segment->payload + done;
		payload.known_bytes = segment->known_bytes - done;
	}
	return synth_emit(synth, flow, is_response, &packet, payload, note);
}

/*
 * Emits the packets of a segment. Of many packets, those between the first ones and the last one
 * are omitted.
 */
static int emit_segment(struct synth *synth, const struct flow *flow, const struct segment *segment)
{
	uint32_t count = flow_packets_of(flow, segment->bytes);
	int ret = 0;

	for (uint32_t i = 0; i < count && !ret; i++) {
		char note[NOTE_BYTES];
		bool has_gap = i == SYNTH_PACKETS_MAX - 1 && i + 1 < count;

		if (has_gap) {
			snprintf(note, sizeof(note), "%u packets before this one are not shown",
				 count - 1 - i);
			i = count - 1;
		}
		ret = emit_segment_packet(synth, flow, segment,
					  segment->offset + i * flow->mtu_bytes,
					  has_gap ? note : NULL);
	}
	return ret;
}

static int emit_response(struct synth *synth, const struct flow *flow, uint8_t operation,
			 uint32_t psn, uint8_t syndrome, uint32_t msn, uint64_t original,
			 const char *note)
{
	struct packet packet = {
		.opcode = opcode_make(OPCODE_TRANSPORT_RC, (enum opcode_operation)operation),
		.psn = psn,
		.syndrome = syndrome,
		.msn = msn,
		.atomic_original = original,
	};

	return synth_emit(synth, flow, true, &packet, (struct synth_payload){0}, note);
}

static int emit_ack(struct synth *synth, const struct flow *flow,
		    const struct flow_message *message, const char *note)
{
	return emit_response(synth, flow, OPCODE_ACK, psn_add(message->psn, message->packets - 1),
			     aeth_make(AETH_KIND_ACK, AETH_CREDITS_UNLIMITED), message->msn, 0,
			     note);
}

static enum aeth_nak nak_of(uint32_t result)
{
	switch (result) {
	case ACCESS_RKEY:
	case ACCESS_PD:
	case ACCESS_BOUNDS:
	case ACCESS_RIGHTS:
	case ACCESS_INVALIDATE:
		return AETH_NAK_REMOTE_ACCESS;
	case ACCESS_LOCAL:
	case ACCESS_GONE:
		return AETH_NAK_REMOTE_OPERATION;
	default:
		return AETH_NAK_INVALID_REQUEST;
	}
}

static int emit_nak(struct synth *synth, const struct flow *flow,
		    const struct flow_message *message, uint32_t result)
{
	return emit_response(synth, flow, OPCODE_ACK, message->psn,
			     aeth_make(AETH_KIND_NAK, nak_of(result)), psn_sub(message->msn, 1), 0,
			     access_result_name((enum access_result)result));
}

static int emit_rnr(struct synth *synth, const struct flow *flow,
		    const struct flow_message *message, uint32_t timer_code)
{
	char note[NOTE_BYTES];

	snprintf(note, sizeof(note), "no receive was posted; the requester waits %.2f ms",
		 (double)aeth_rnr_wait_ns(timer_code) / 1e6);
	return emit_response(synth, flow, OPCODE_ACK, message->psn,
			     aeth_make(AETH_KIND_RNR_NAK, timer_code), psn_sub(message->msn, 1), 0,
			     note);
}

static enum opcode_extra extra_of(const struct trace_fifo *fifo)
{
	if (fifo->flags & TRACE_ELEMENT_IMM)
		return OPCODE_WITH_IMM;
	return fifo->flags & TRACE_ELEMENT_INVALIDATE ? OPCODE_WITH_INV : OPCODE_PLAIN;
}

/*
 * An element of a SEND or WRITE. Elements of a message whose first element is not in the trace are
 * left out.
 */
static int put_message_element(struct synth *synth, struct flow *flow,
			       const struct trace_fifo *fifo)
{
	bool is_placed = fifo->flags & TRACE_ELEMENT_PLACED;
	struct segment segment = {
		.kind = fifo->element_type == TRACE_ELEMENT_SEND ? SEGMENT_SEND : SEGMENT_WRITE,
		.bytes = is_placed ? fifo->message_bytes : fifo->element_bytes,
		.total_bytes = fifo->message_bytes,
		.known_bytes = is_placed ? flow->placed_bytes : fifo->payload_bytes,
		.payload = is_placed ? flow->placed : fifo->payload,
		.va = fifo->remote_addr,
		.rkey = fifo->rkey,
		.imm_be = fifo->imm_or_code,
		.extra = extra_of(fifo),
		.is_solicited = fifo->flags & TRACE_ELEMENT_SOLICITED,
	};

	if (fifo->flags & TRACE_ELEMENT_FIRST) {
		flow->request = flow_begin(flow, fifo->message_seq,
					   flow_packets_of(flow, fifo->message_bytes),
					   fifo->message_bytes);
		flow->request_done = 0;
	}
	if (!flow->request || flow->request->ssn != fifo->message_seq ||
	    segment.bytes > fifo->message_bytes - min_u32(flow->request_done, fifo->message_bytes))
		return 0;
	segment.message = flow->request;
	segment.offset = flow->request_done;
	flow->request_done += segment.bytes;
	flow->placed_bytes = 0;
	return emit_segment(synth, flow, &segment);
}

/*
 * The properties of a request with a response of its own; NULL: another element, or an opcode of a
 * newer version.
 */
static const struct wr_opcode_info *request_info(const struct trace_fifo *fifo)
{
	const struct wr_opcode_info *info = wr_opcode_of_qp(IBV_QPT_RC,
							    (enum ibv_wr_opcode)fifo->opcode);

	return info && info->kind == WR_KIND_REQUEST ? info : NULL;
}

/* A request of one packet that has a response of its own. */
static int put_request_element(struct synth *synth, struct flow *flow,
			       const struct trace_fifo *fifo, const struct wr_opcode_info *info)
{
	uint8_t opcode = opcode_make(OPCODE_TRANSPORT_RC, info->operation);
	bool is_read = info->response == WR_RESPONSE_READ;
	bool is_compare = info->has_compare;
	uint32_t response_bytes = is_read ? fifo->message_bytes : 0;
	const struct flow_message *message = flow_begin(
		flow, fifo->message_seq, flow_packets_of(flow, response_bytes), response_bytes);
	struct packet packet = {
		.opcode = opcode,
		.psn = message->psn,
		.va = fifo->remote_addr,
		.rkey = fifo->rkey,
		.dma_length_bytes = fifo->message_bytes,
		.swap_or_add = is_compare ? fifo->swap : fifo->compare_add,
		.compare = is_compare ? fifo->compare_add : 0,
		.flush_types = (uint8_t)fifo->imm_or_code,
		.flush_level = (uint8_t)(fifo->imm_or_code >> 8),
	};
	struct synth_payload payload = {0};

	if (opcode_info(opcode)->may_have_payload)
		payload = (struct synth_payload){fifo->payload, fifo->payload_bytes,
						 info->exact_bytes};
	return synth_emit(synth, flow, false, &packet, payload, NULL);
}

/* An element of the response to the flow's READ, or without data to another request. */
static int put_read_data(struct synth *synth, struct flow *flow, const struct flow_message *message,
			 const struct trace_fifo *fifo)
{
	struct segment segment = {
		.message = message,
		.kind = SEGMENT_READ_RESPONSE,
		.bytes = fifo->element_bytes,
		.total_bytes = message->length_bytes,
		.known_bytes = fifo->payload_bytes,
		.payload = fifo->payload,
	};

	if (flow->response_ssn != message->ssn) {
		flow->response_ssn = message->ssn;
		flow->response_done = 0;
	}
	if (segment.bytes > message->length_bytes - flow->response_done)
		return 0;
	segment.offset = flow->response_done;
	flow->response_done += segment.bytes;
	/* The next response may be a repetition. */
	if (flow->response_done == message->length_bytes)
		flow->response_ssn = UINT32_MAX;
	return emit_segment(synth, flow, &segment);
}

static int put_response_element(struct synth *synth, struct flow *flow,
				const struct trace_fifo *fifo)
{
	const struct flow_message *message = flow_message_of(flow, fifo->message_seq);

	if (!message)
		return 0;
	switch (fifo->element_type) {
	case TRACE_ELEMENT_ACK:
		return emit_ack(synth, flow, message, NULL);
	case TRACE_ELEMENT_NAK:
		return emit_nak(synth, flow, message, fifo->imm_or_code);
	case TRACE_ELEMENT_RNR:
		return emit_rnr(synth, flow, message, fifo->imm_or_code);
	case TRACE_ELEMENT_READ_DATA:
		return put_read_data(synth, flow, message, fifo);
	case TRACE_ELEMENT_ATOMIC_RESULT:
		return emit_response(synth, flow, OPCODE_ATOMIC_ACK, message->psn,
				     aeth_make(AETH_KIND_ACK, AETH_CREDITS_UNLIMITED), message->msn,
				     fifo->swap, NULL);
	default:
		/* No packet of a NIC corresponds to "not ready" and "receive posted". */
		return 0;
	}
}

/* The payload of the element begins with the GRH that the receiver gets. */
static int put_datagram(struct synth *synth, struct flow *flow, const struct trace_fifo *fifo)
{
	struct flow_message message = flow_begin_unnumbered(flow, 1);
	struct packet packet = {
		.opcode = opcode_of_send(OPCODE_TRANSPORT_UD, true, true, extra_of(fifo)),
		.psn = message.psn,
		.is_solicited = fifo->flags & TRACE_ELEMENT_SOLICITED,
		.dest_qpn = synth->record->event.qpn,
		.src_qpn = fifo->src_qpn,
		.qkey = fifo->rkey,
		.imm_be = fifo->imm_or_code,
	};
	struct synth_payload payload = {fifo->payload + GRH_BYTES,
					(uint32_t)fifo->payload_bytes - GRH_BYTES,
					(uint32_t)fifo->element_bytes - GRH_BYTES};
	struct trace_record sender = {.pid = flow->pid, .program = flow->program};
	struct grh grh;

	if (grh_parse(&grh, fifo->payload) || gid_is_ipv4(grh.src_gid) != gid_is_ipv4(grh.dst_gid))
		return 0;
	return synth_emit_datagram(synth, &sender, grh.src_gid, grh.dst_gid, grh.traffic_class,
				   grh.hop_limit, &packet, payload);
}

/* The flow of the element's sender if the packets of the element are to be emitted now. */
static struct flow *sender_of(struct synth *synth, const struct trace_record *record)
{
	const struct trace_fifo *fifo = &record->event.fifo;
	uint32_t dst_qpn = record->event.qpn;
	struct flow *sender = flow_get(synth, fifo->src_qpn, dst_qpn);
	struct flow *receiver;

	if (record->event.type == TRACE_FIFO_SENT) {
		if (sender)
			flow_set_owner(sender, record);
		return sender;
	}
	if (sender && sender->is_traced)
		return NULL;
	receiver = flow_get(synth, dst_qpn, fifo->src_qpn);
	if (receiver)
		flow_set_owner(receiver, record);
	return sender;
}

static bool is_well_formed(const struct trace_fifo *fifo)
{
	if (fifo->payload_bytes > TRACE_PAYLOAD_BYTES || fifo->payload_bytes > fifo->element_bytes)
		return false;
	return fifo->element_type != TRACE_ELEMENT_DATAGRAM ||
	       (fifo->payload_bytes >= GRH_BYTES &&
		fifo->element_bytes <= GRH_BYTES + PACKET_PAYLOAD_MAX);
}

int synth_fifo(struct synth *synth, const struct trace_record *record)
{
	const struct trace_fifo *fifo = &record->event.fifo;
	const struct wr_opcode_info *request = request_info(fifo);
	struct flow *sender, *requester;

	if (!is_well_formed(fifo))
		return 0;
	sender = sender_of(synth, record);
	if (!sender)
		return 0;
	switch (fifo->element_type) {
	case TRACE_ELEMENT_SEND:
	case TRACE_ELEMENT_WRITE:
		return put_message_element(synth, sender, fifo);
	case TRACE_ELEMENT_DATAGRAM:
		return put_datagram(synth, sender, fifo);
	case TRACE_ELEMENT_ACK:
	case TRACE_ELEMENT_NAK:
	case TRACE_ELEMENT_RNR:
	case TRACE_ELEMENT_READ_DATA:
	case TRACE_ELEMENT_ATOMIC_RESULT:
		requester = flow_find(synth, record->event.qpn);
		return requester ? put_response_element(synth, requester, fifo) : 0;
	default:
		return request ? put_request_element(synth, sender, fifo, request) : 0;
	}
}

static int put_one_sided_write(struct synth *synth, struct flow *flow,
			       const struct trace_one_sided *op)
{
	bool is_refused = op->status != ACCESS_OK;
	struct flow_message message;
	struct segment segment = {
		.message = &message,
		.kind = SEGMENT_WRITE,
		.bytes = op->length_bytes,
		.total_bytes = op->length_bytes,
		.known_bytes = op->payload_bytes,
		.payload = op->payload,
		.va = op->remote_addr,
		.rkey = op->rkey,
	};
	int ret;

	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !is_refused) {
		/* The element with the immediate follows. */
		memcpy(flow->placed, op->payload, op->payload_bytes);
		flow->placed_bytes = op->payload_bytes;
		return 0;
	}
	message = flow_begin_unnumbered(flow, flow_packets_of(flow, op->length_bytes));
	ret = emit_segment(synth, flow, &segment);
	if (ret || !synth_is_reliable(flow))
		return ret;
	return is_refused ?
		       emit_nak(synth, flow, &message, op->status) :
		       emit_ack(synth, flow, &message,
				"the requester has written to the memory of the peer's process");
}

static int put_one_sided_read(struct synth *synth, struct flow *flow,
			      const struct trace_one_sided *op)
{
	struct flow_message message =
		flow_begin_unnumbered(flow, flow_packets_of(flow, op->length_bytes));
	struct packet packet = {
		.opcode = OPCODE(RC, READ_REQUEST),
		.psn = message.psn,
		.va = op->remote_addr,
		.rkey = op->rkey,
		.dma_length_bytes = op->length_bytes,
	};
	struct segment segment = {
		.message = &message,
		.kind = SEGMENT_READ_RESPONSE,
		.bytes = op->length_bytes,
		.total_bytes = op->length_bytes,
		.known_bytes = op->payload_bytes,
		.payload = op->payload,
	};
	int ret = synth_emit(synth, flow, false, &packet, (struct synth_payload){0}, NULL);

	if (ret)
		return ret;
	return op->status == ACCESS_OK ? emit_segment(synth, flow, &segment) :
					 emit_nak(synth, flow, &message, op->status);
}

int synth_one_sided(struct synth *synth, const struct trace_record *record)
{
	const struct trace_one_sided *op = &record->event.one_sided;
	struct flow *flow;

	if (op->payload_bytes > TRACE_PAYLOAD_BYTES || op->payload_bytes > op->length_bytes)
		return 0;
	flow = flow_get(synth, record->event.qpn, op->remote_qpn);
	if (!flow)
		return 0;
	flow_set_owner(flow, record);
	return op->opcode == IBV_WR_RDMA_READ ? put_one_sided_read(synth, flow, op) :
						put_one_sided_write(synth, flow, op);
}
