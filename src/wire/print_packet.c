/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/print.h"

#include <inttypes.h>

#include "base/be.h"
#include "wire/aeth.h"
#include "wire/line.h"
#include "wire/mad.h"
#include "wire/packet.h"

static void add_bth(struct line *line, const struct packet *packet)
{
	line_add_words(line, packet->info->name);
	line_add(line, " qpn 0x%x psn %u", packet->dest_qpn, packet->psn);
	if (packet->pkey != PACKET_PKEY_DEFAULT)
		line_add(line, " pkey 0x%x", packet->pkey);
	if (packet->wants_ack)
		line_add(line, " wants ack");
	if (packet->is_ahead)
		line_add(line, " ahead");
	if (packet->takes_ahead)
		line_add(line, " takes ahead");
	if (packet->is_solicited)
		line_add(line, " solicited");
	if (packet->is_fecn)
		line_add(line, " fecn");
	if (packet->is_becn)
		line_add(line, " becn");
}

static void add_syndrome(struct line *line, uint8_t syndrome)
{
	unsigned code = aeth_code(syndrome);

	switch (aeth_kind(syndrome)) {
	case AETH_KIND_ACK:
		line_add(line, " ack");
		if (code != AETH_CREDITS_UNLIMITED)
			line_add(line, " credits %" PRIu32, aeth_credits(code));
		return;
	case AETH_KIND_RNR_NAK:
		line_add(line, " rnr nak wait %" PRIu64 " us", aeth_rnr_wait_ns(code) / 1000);
		return;
	case AETH_KIND_NAK:
		line_add(line, " nak %s", aeth_nak_name(code));
		return;
	case AETH_KIND_RESERVED:
		line_add(line, " reserved syndrome 0x%x", syndrome);
		return;
	}
}

static void add_extended(struct line *line, const struct packet *packet)
{
	const struct opcode_info *info = packet->info;

	if (info->has_deth)
		line_add(line, " from qpn 0x%x qkey 0x%x", packet->src_qpn, packet->qkey);
	if (info->has_xrceth)
		line_add(line, " srqn 0x%x", packet->xrc_srqn);
	if (info->has_feth)
		line_add(line, " types 0x%x level %u", packet->flush_types, packet->flush_level);
	if (info->has_reth || info->has_atomic_eth)
		line_add(line, " va 0x%" PRIx64 " rkey 0x%x", packet->va, packet->rkey);
	if (info->has_reth)
		line_add(line, " length %" PRIu32, packet->dma_length_bytes);
	if (info->has_atomic_eth && packet->opcode % 32 == OPCODE_COMPARE_SWAP)
		line_add(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, packet->compare,
			 packet->swap_or_add);
	else if (info->has_atomic_eth)
		line_add(line, " add 0x%" PRIx64, packet->swap_or_add);
	if (info->has_aeth) {
		add_syndrome(line, packet->syndrome);
		line_add(line, " msn %u", packet->msn);
	}
	if (info->has_atomic_ack_eth)
		line_add(line, " original 0x%" PRIx64, packet->atomic_original);
	if (info->has_imm)
		line_add(line, " imm 0x%08x", be_load32(&packet->imm_be));
	if (info->has_ieth)
		line_add(line, " invalidate 0x%x", packet->inv_rkey);
}

static void add_payload(struct line *line, const struct packet *packet)
{
	if (!packet->info->may_have_payload)
		return;
	line_add(line, " payload %zu bytes", packet->payload_bytes);
	if (!packet->payload || !packet->info->has_deth || packet->dest_qpn != MAD_QPN ||
	    packet->payload_bytes != MAD_BYTES)
		return;
	line_add(line, ": ");
	line->len += print_mad(line->out + line->len, line->room - line->len, packet->payload,
			       packet->payload_bytes);
}

size_t print_packet(char *out, size_t out_bytes, const struct packet *packet)
{
	struct line line = {.out = out, .room = out_bytes};
	struct packet known = *packet;

	if (out_bytes == 0)
		return 0;
	known.info = opcode_info(packet->opcode);
	add_bth(&line, &known);
	add_extended(&line, &known);
	add_payload(&line, &known);
	return line.len;
}

size_t print_datagram(char *out, size_t out_bytes, const void *datagram, size_t len)
{
	struct line line = {.out = out, .room = out_bytes};
	enum packet_reason reason;
	struct packet packet;

	reason = packet_parse(&packet, datagram, len);
	if (reason == PACKET_OK)
		return print_packet(out, out_bytes, &packet);
	if (out_bytes == 0)
		return 0;
	line_add(&line, "no packet (%s", packet_reason_name(reason));
	if (reason == PACKET_OPCODE)
		line_add(&line, " 0x%02x", *(const uint8_t *)datagram);
	line_add(&line, "), %zu bytes", len);
	return line.len;
}
