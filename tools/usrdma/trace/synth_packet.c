/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes a synthesised packet as a record. */
#include <string.h>

#include "base/util.h"
#include "synth_private.h"
#include "wire/icrc.h"

/* The range of source ports of RoCEv2 senders. */
#define SOURCE_PORT_BASE 0xc000u
#define SOURCE_PORT_MASK 0x3fffu

/* Appends pad and ICRC if the payload is known completely. */
static void append_trailer(struct trace_packet *out, uint32_t payload_bytes, size_t header_bytes)
{
	size_t pad = packet_pad_bytes(payload_bytes);
	struct icrc_flow flow;
	struct iovec covered = {out->bytes, header_bytes + payload_bytes + pad};

	if (header_bytes + payload_bytes != out->captured_bytes ||
	    out->wire_bytes > sizeof(out->bytes))
		return;
	memset(out->bytes + out->captured_bytes, 0, pad);
	icrc_flow_init(&flow, out->local_gid, out->remote_gid, out->src_port, PACKET_UDP_PORT);
	packet_build_trailer(payload_bytes, icrc_compute(&flow, 0, &covered, 1),
			     out->bytes + out->captured_bytes);
	out->captured_bytes = out->wire_bytes;
}

/*
 * Events with arbitrary members can demand an operation that the transport service does not have.
 */
static bool is_encodable(const struct packet *packet, struct synth_payload payload)
{
	const struct opcode_info *info = opcode_info(packet->opcode);

	return info && (info->may_have_payload || !payload.bytes_total) &&
	       payload.bytes_total <= PACKET_PAYLOAD_MAX;
}

static void encode(struct trace_event *event, struct packet *packet, struct synth_payload payload)
{
	struct trace_packet *out = &event->packet;
	uint32_t known = min_u32(payload.known_bytes, payload.bytes_total);
	size_t header_bytes;

	packet->payload_bytes = payload.bytes_total;
	packet->pkey = PACKET_PKEY_DEFAULT;
	packet->is_migrated = true;
	header_bytes = packet_build_headers(packet, out->bytes);
	known = min_u32(known, (uint32_t)(sizeof(out->bytes) - header_bytes));
	if (known)
		memcpy(out->bytes + header_bytes, payload.bytes, known);
	out->captured_bytes = (uint16_t)(header_bytes + known);
	out->wire_bytes = (uint16_t)(header_bytes + payload.bytes_total +
				     packet_pad_bytes(payload.bytes_total) + ICRC_BYTES);
	append_trailer(out, payload.bytes_total, header_bytes);
	event->qpn = packet->dest_qpn;
	event->psn = packet->psn;
}

static struct trace_record packet_record(const struct synth *synth)
{
	struct trace_record record = {
		.time_ns = synth->record->time_ns,
		.program = "",
		.device = "",
		.event = {.version = TRACE_VERSION,
			  .type = TRACE_PACKET_SENT,
			  .bytes = TRACE_EVENT_BYTES,
			  .tid = synth->record->event.tid,
			  .time_ns = synth->record->event.time_ns,
			  .ifindex = synth->record->event.ifindex},
	};

	return record;
}

int synth_emit(struct synth *synth, const struct flow *flow, bool is_response,
	       struct packet *packet, struct synth_payload payload, const char *note)
{
	const struct flow *owner = is_response ? flow_find(synth, flow->remote_qpn) : flow;
	struct trace_record record = packet_record(synth);
	struct trace_packet *out = &record.event.packet;

	if (!is_encodable(packet, payload))
		return 0;
	memcpy(out->local_gid, is_response ? flow->remote_gid : flow->local_gid, GID_BYTES);
	memcpy(out->remote_gid, is_response ? flow->local_gid : flow->remote_gid, GID_BYTES);
	out->src_port = (uint16_t)(SOURCE_PORT_BASE |
				   ((flow->qpn ^ flow->remote_qpn) & SOURCE_PORT_MASK));
	out->traffic_class = flow->traffic_class;
	out->hop_limit = flow->hop_limit;
	packet->dest_qpn = is_response ? flow->qpn : flow->remote_qpn;
	encode(&record.event, packet, payload);
	record.device = flow->device[0] ? flow->device : synth->record->device;
	if (owner) {
		record.pid = owner->pid;
		record.program = owner->program;
	}
	return synth->put(synth->ctx, &record, note);
}

int synth_emit_datagram(struct synth *synth, const struct trace_record *sender,
			const uint8_t src_gid[GID_BYTES], const uint8_t dst_gid[GID_BYTES],
			uint8_t traffic_class, uint8_t hop_limit, struct packet *packet,
			struct synth_payload payload)
{
	struct trace_record record = packet_record(synth);
	struct trace_packet *out = &record.event.packet;

	if (!is_encodable(packet, payload))
		return 0;
	memcpy(out->local_gid, src_gid, GID_BYTES);
	memcpy(out->remote_gid, dst_gid, GID_BYTES);
	out->src_port = (uint16_t)(SOURCE_PORT_BASE |
				   ((packet->src_qpn ^ packet->dest_qpn) & SOURCE_PORT_MASK));
	out->traffic_class = traffic_class;
	out->hop_limit = hop_limit ? hop_limit : 64;
	encode(&record.event, packet, payload);
	record.device = synth->record->device;
	if (sender) {
		record.pid = sender->pid;
		record.program = sender->program;
	}
	return synth->put(synth->ctx, &record, NULL);
}
