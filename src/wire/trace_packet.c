/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trace_packet.h"

#include <inttypes.h>
#include <string.h>

#include "base/be.h"
#include "base/user_copy.h"
#include "wire/aeth.h"
#include "wire/line.h"
#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/packet.h"
#include "wire/print.h"

static_assert(TRACE_PACKET_BYTES >= BTH_BYTES + DETH_BYTES + MAD_BYTES,
	      "a MAD is captured whole, with its headers");
static_assert(TRACE_PACKET_BYTES >= PACKET_HDR_MAX, "all headers are captured");

void trace_packet_append(struct trace_packet *packet, const void *bytes, size_t len)
{
	size_t room = sizeof(packet->bytes) - packet->captured_bytes;
	size_t captured = len < room ? len : room;

	memcpy(packet->bytes + packet->captured_bytes, bytes, captured);
	packet->captured_bytes = (uint16_t)(packet->captured_bytes + captured);
	packet->wire_bytes = (uint16_t)(packet->wire_bytes + len);
}

void trace_packet_append_user(struct trace_packet *packet, const struct iovec *pieces, int count)
{
	size_t room = sizeof(packet->bytes) - packet->captured_bytes;
	size_t captured = user_gather_readable(packet->bytes + packet->captured_bytes, pieces,
					       count, room);

	packet->captured_bytes = (uint16_t)(packet->captured_bytes + captured);
	for (int i = 0; i < count; i++)
		packet->wire_bytes = (uint16_t)(packet->wire_bytes + pieces[i].iov_len);
}

bool trace_packet_is_nak(const uint8_t *bytes, size_t len)
{
	const struct opcode_info *info = len > BTH_BYTES ? opcode_info(bytes[0]) : NULL;
	enum aeth_kind kind;

	/* The AETH of a VENDOR_ACK is not directly behind the BTH, and never reports an error. */
	if (!info || !info->is_ack || info->has_deth)
		return false;
	kind = aeth_kind(bytes[BTH_BYTES]);
	return kind == AETH_KIND_NAK || kind == AETH_KIND_RNR_NAK;
}

void trace_packet_fill_head(struct trace_event *event)
{
	const struct trace_packet *packet = &event->packet;

	if (packet->captured_bytes < BTH_BYTES)
		return;
	event->qpn = be_load24(packet->bytes + 5);
	event->psn = be_load24(packet->bytes + 9);
}

/* Whether all bytes that the printing functions read were captured. */
static bool has_enough(const struct trace_packet *packet)
{
	uint16_t expected = packet->wire_bytes < TRACE_PACKET_BYTES ? packet->wire_bytes :
								      TRACE_PACKET_BYTES;

	return packet->captured_bytes == expected;
}

static void add_addresses(char *out, size_t out_bytes, const struct trace_packet *packet,
			  bool is_sent)
{
	size_t len = strlen(out);
	struct line line = {.out = out + len, .room = out_bytes - len};

	line_add(&line, " from ");
	line_add_gid(&line, is_sent ? packet->local_gid : packet->remote_gid);
	line_add(&line, " to ");
	line_add_gid(&line, is_sent ? packet->remote_gid : packet->local_gid);
}

static void add_wr_id(char *out, size_t out_bytes, const struct trace_packet *packet)
{
	size_t len = strlen(out);
	struct line line = {.out = out + len, .room = out_bytes - len};

	if (packet->wr_id)
		line_add(&line, " wr_id 0x%" PRIx64, packet->wr_id);
}

static void print_event(char *out, size_t out_bytes, const struct trace_event *event)
{
	const struct trace_packet *packet = &event->packet;
	bool is_sent = event->type == TRACE_PACKET_SENT || event->type == TRACE_MAD_SENT;
	bool is_mad = event->type == TRACE_MAD_SENT || event->type == TRACE_MAD_RECEIVED;

	out[0] = '\0';
	if (!has_enough(packet))
		return;
	if (is_mad)
		print_mad(out, out_bytes, packet->bytes, packet->captured_bytes);
	else
		print_datagram(out, out_bytes, packet->bytes, packet->wire_bytes);
	add_addresses(out, out_bytes, packet, is_sent);
	if (!is_mad)
		add_wr_id(out, out_bytes, packet);
}

const struct trace_point trace_packet_sent = {TRACE_PACKET_SENT, "packet sent", print_event};
const struct trace_point trace_packet_received = {TRACE_PACKET_RECEIVED, "packet received",
						  print_event};
const struct trace_point trace_mad_sent = {TRACE_MAD_SENT, "mad sent", print_event};
const struct trace_point trace_mad_received = {TRACE_MAD_RECEIVED, "mad received", print_event};
