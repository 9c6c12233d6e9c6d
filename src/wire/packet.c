/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/packet.h"

#include <assert.h>
#include <string.h>

#include "base/be.h"
#include "base/util.h"
#include "wire/icrc.h"

/* The low byte of the FETH; its other bytes are reserved (IBA A19). */
#define FETH_TYPES_MASK	 0x0f
#define FETH_LEVEL_SHIFT 4
#define FETH_LEVEL_MASK	 0x03

/*
 * The order of the lines here, in parse_headers() and in packet_build_headers() is the order of the
 * headers on the wire. Every header length is a multiple of 4.
 */
size_t packet_hdr_bytes(const struct opcode_info *info)
{
	size_t bytes = BTH_BYTES;

	bytes += info->has_deth ? DETH_BYTES : 0;
	bytes += info->has_xrceth ? XRCETH_BYTES : 0;
	bytes += info->has_feth ? FETH_BYTES : 0;
	bytes += info->has_reth ? RETH_BYTES : 0;
	bytes += info->has_atomic_eth ? ATOMIC_ETH_BYTES : 0;
	bytes += info->has_aeth ? AETH_BYTES : 0;
	bytes += info->has_atomic_ack_eth ? ATOMIC_ACK_ETH_BYTES : 0;
	bytes += info->has_imm ? IMM_BYTES : 0;
	bytes += info->has_ieth ? IETH_BYTES : 0;
	bytes += info->has_notification ? NOTIFICATION_BYTES : 0;
	return bytes;
}

size_t packet_bytes(const struct packet *packet)
{
	return packet_hdr_bytes(opcode_info(packet->opcode)) + packet->payload_bytes +
	       packet_pad_bytes(packet->payload_bytes) + ICRC_BYTES;
}

static const uint8_t *parse_bth(struct packet *packet, const uint8_t *at)
{
	packet->opcode = at[0];
	packet->is_solicited = at[1] & 0x80;
	packet->is_migrated = at[1] & 0x40;
	packet->pkey = be_load16(at + 2);
	packet->is_fecn = at[4] & 0x80;
	packet->is_becn = at[4] & 0x40;
	packet->dest_qpn = be_load24(at + 5);
	packet->wants_ack = at[8] & 0x80;
	packet->is_ahead = at[8] & 0x40;
	packet->takes_ahead = at[8] & 0x20;
	packet->psn = be_load24(at + 9);
	return at + BTH_BYTES;
}

static const uint8_t *parse_deth(struct packet *packet, const uint8_t *at)
{
	packet->qkey = be_load32(at);
	packet->src_qpn = be_load24(at + 5);
	return at + DETH_BYTES;
}

static const uint8_t *parse_xrceth(struct packet *packet, const uint8_t *at)
{
	packet->xrc_srqn = be_load24(at + 1);
	return at + XRCETH_BYTES;
}

static const uint8_t *parse_feth(struct packet *packet, const uint8_t *at)
{
	packet->flush_types = at[3] & FETH_TYPES_MASK;
	packet->flush_level = at[3] >> FETH_LEVEL_SHIFT & FETH_LEVEL_MASK;
	return at + FETH_BYTES;
}

static const uint8_t *parse_reth(struct packet *packet, const uint8_t *at)
{
	packet->va = be_load64(at);
	packet->rkey = be_load32(at + 8);
	packet->dma_length_bytes = be_load32(at + 12);
	return at + RETH_BYTES;
}

static const uint8_t *parse_atomic_eth(struct packet *packet, const uint8_t *at)
{
	packet->va = be_load64(at);
	packet->rkey = be_load32(at + 8);
	packet->swap_or_add = be_load64(at + 12);
	packet->compare = be_load64(at + 20);
	return at + ATOMIC_ETH_BYTES;
}

static const uint8_t *parse_aeth(struct packet *packet, const uint8_t *at)
{
	packet->syndrome = at[0];
	packet->msn = be_load24(at + 1);
	return at + AETH_BYTES;
}

static const uint8_t *parse_atomic_ack_eth(struct packet *packet, const uint8_t *at)
{
	packet->atomic_original = be_load64(at);
	return at + ATOMIC_ACK_ETH_BYTES;
}

static const uint8_t *parse_imm(struct packet *packet, const uint8_t *at)
{
	memcpy(&packet->imm_be, at, IMM_BYTES);
	return at + IMM_BYTES;
}

static const uint8_t *parse_ieth(struct packet *packet, const uint8_t *at)
{
	packet->inv_rkey = be_load32(at);
	return at + IETH_BYTES;
}

/* The caller has checked that packet_hdr_bytes() are available. */
static const uint8_t *parse_headers(struct packet *packet, const uint8_t *at)
{
	const struct opcode_info *info = packet->info;

	at = parse_bth(packet, at);
	if (info->has_deth)
		at = parse_deth(packet, at);
	if (info->has_xrceth)
		at = parse_xrceth(packet, at);
	if (info->has_feth)
		at = parse_feth(packet, at);
	if (info->has_reth)
		at = parse_reth(packet, at);
	if (info->has_atomic_eth)
		at = parse_atomic_eth(packet, at);
	if (info->has_aeth)
		at = parse_aeth(packet, at);
	if (info->has_atomic_ack_eth)
		at = parse_atomic_ack_eth(packet, at);
	if (info->has_imm)
		at = parse_imm(packet, at);
	if (info->has_ieth)
		at = parse_ieth(packet, at);
	if (info->has_notification)
		at += NOTIFICATION_BYTES;
	return at;
}

enum packet_reason packet_parse(struct packet *packet, const void *datagram, size_t len)
{
	const uint8_t *bytes = datagram;
	const struct opcode_info *info;
	size_t hdr_bytes, pad_bytes, rest_bytes;

	if (len < PACKET_MIN)
		return PACKET_SHORT;
	if (bytes[1] & 0x0f)
		return PACKET_VERSION;
	info = opcode_info(bytes[0]);
	if (!info)
		return PACKET_OPCODE;
	hdr_bytes = packet_hdr_bytes(info);
	if (len < hdr_bytes + ICRC_BYTES)
		return PACKET_TRUNCATED;

	rest_bytes = len - hdr_bytes - ICRC_BYTES;
	pad_bytes = bytes[1] >> 4 & PACKET_PAD_MAX;
	if (rest_bytes & PACKET_PAD_MAX || pad_bytes > rest_bytes)
		return PACKET_PAD;
	if (rest_bytes && !info->may_have_payload)
		return PACKET_PAYLOAD;
	if (rest_bytes - pad_bytes > PACKET_PAYLOAD_MAX)
		return PACKET_LONG;

	*packet = (struct packet){.info = info};
	packet->payload = parse_headers(packet, bytes);
	packet->payload_bytes = rest_bytes - pad_bytes;
	return PACKET_OK;
}

static uint8_t *build_bth(const struct packet *packet, uint8_t *at)
{
	unsigned flags = (packet->is_solicited ? 0x80u : 0) | (packet->is_migrated ? 0x40u : 0);
	unsigned pad_bytes = (unsigned)packet_pad_bytes(packet->payload_bytes);

	at[0] = packet->opcode;
	at[1] = (uint8_t)(flags | pad_bytes << 4);
	be_store16(at + 2, packet->pkey);
	at[4] = (uint8_t)((packet->is_fecn ? 0x80 : 0) | (packet->is_becn ? 0x40 : 0));
	be_store24(at + 5, packet->dest_qpn);
	at[8] = (uint8_t)((packet->wants_ack ? 0x80 : 0) | (packet->is_ahead ? 0x40 : 0) |
			  (packet->takes_ahead ? 0x20 : 0));
	be_store24(at + 9, packet->psn);
	return at + BTH_BYTES;
}

static uint8_t *build_deth(const struct packet *packet, uint8_t *at)
{
	be_store32(at, packet->qkey);
	at[4] = 0;
	be_store24(at + 5, packet->src_qpn);
	return at + DETH_BYTES;
}

static uint8_t *build_xrceth(const struct packet *packet, uint8_t *at)
{
	at[0] = 0;
	be_store24(at + 1, packet->xrc_srqn);
	return at + XRCETH_BYTES;
}

static uint8_t *build_feth(const struct packet *packet, uint8_t *at)
{
	memset(at, 0, FETH_BYTES);
	at[3] = (uint8_t)((packet->flush_types & FETH_TYPES_MASK) |
			  (packet->flush_level & FETH_LEVEL_MASK) << FETH_LEVEL_SHIFT);
	return at + FETH_BYTES;
}

static uint8_t *build_reth(const struct packet *packet, uint8_t *at)
{
	be_store64(at, packet->va);
	be_store32(at + 8, packet->rkey);
	be_store32(at + 12, packet->dma_length_bytes);
	return at + RETH_BYTES;
}

static uint8_t *build_atomic_eth(const struct packet *packet, uint8_t *at)
{
	be_store64(at, packet->va);
	be_store32(at + 8, packet->rkey);
	be_store64(at + 12, packet->swap_or_add);
	be_store64(at + 20, packet->compare);
	return at + ATOMIC_ETH_BYTES;
}

static uint8_t *build_aeth(const struct packet *packet, uint8_t *at)
{
	at[0] = packet->syndrome;
	be_store24(at + 1, packet->msn);
	return at + AETH_BYTES;
}

static uint8_t *build_atomic_ack_eth(const struct packet *packet, uint8_t *at)
{
	be_store64(at, packet->atomic_original);
	return at + ATOMIC_ACK_ETH_BYTES;
}

static uint8_t *build_imm(const struct packet *packet, uint8_t *at)
{
	memcpy(at, &packet->imm_be, IMM_BYTES);
	return at + IMM_BYTES;
}

static uint8_t *build_ieth(const struct packet *packet, uint8_t *at)
{
	be_store32(at, packet->inv_rkey);
	return at + IETH_BYTES;
}

static uint8_t *build_notification(uint8_t *at)
{
	memset(at, 0, NOTIFICATION_BYTES);
	return at + NOTIFICATION_BYTES;
}

size_t packet_build_headers(const struct packet *packet, void *out)
{
	const struct opcode_info *info = opcode_info(packet->opcode);
	uint8_t *at = out;

	assert(info && (info->may_have_payload || !packet->payload_bytes));
	at = build_bth(packet, at);
	if (info->has_deth)
		at = build_deth(packet, at);
	if (info->has_xrceth)
		at = build_xrceth(packet, at);
	if (info->has_feth)
		at = build_feth(packet, at);
	if (info->has_reth)
		at = build_reth(packet, at);
	if (info->has_atomic_eth)
		at = build_atomic_eth(packet, at);
	if (info->has_aeth)
		at = build_aeth(packet, at);
	if (info->has_atomic_ack_eth)
		at = build_atomic_ack_eth(packet, at);
	if (info->has_imm)
		at = build_imm(packet, at);
	if (info->has_ieth)
		at = build_ieth(packet, at);
	if (info->has_notification)
		at = build_notification(at);
	return (size_t)(at - (uint8_t *)out);
}

size_t packet_build_trailer(size_t payload_bytes, uint32_t icrc, void *out)
{
	size_t pad_bytes = packet_pad_bytes(payload_bytes);
	uint8_t *at = out;

	memset(at, 0, pad_bytes);
	icrc_store(at + pad_bytes, icrc);
	return pad_bytes + ICRC_BYTES;
}

bool packet_fits_mtu(const struct packet *packet, size_t mtu_bytes)
{
	const struct opcode_info *info = packet->info;

	if (!info->may_have_payload)
		return true;
	if (info->is_first || info->is_middle)
		return packet->payload_bytes == mtu_bytes;
	return packet->payload_bytes <= mtu_bytes && (info->is_only || packet->payload_bytes > 0);
}

static const char *const reason_names[] = {
	[PACKET_OK] = "ok",
	[PACKET_SHORT] = "too short",
	[PACKET_VERSION] = "unknown header version",
	[PACKET_OPCODE] = "unknown opcode",
	[PACKET_TRUNCATED] = "truncated headers",
	[PACKET_PAD] = "wrong pad count",
	[PACKET_PAYLOAD] = "unexpected payload",
	[PACKET_LONG] = "too much payload",
	[PACKET_ICRC] = "wrong icrc",
};
static_assert(COUNT(reason_names) == PACKET_REASON_COUNT, "every reason has its name");

const char *packet_reason_name(enum packet_reason reason)
{
	return (unsigned)reason < PACKET_REASON_COUNT ? reason_names[reason] : "?";
}
