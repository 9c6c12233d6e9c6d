/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "roce_life.h"

/*
 * The packets of the hostile peer: nearly valid requests, and responses to the requests that it
 * received.
 */
#define GROUP_QPN 0xffffffu
#define OPCODES	  0x18u /* opcodes of one transport service */
#define FROM_A19  0xe0u /* values from here on select ATOMIC WRITE or FLUSH (RC only) */

static struct roce_qp *rqp_of(struct life *life)
{
	struct qp *qp = to_qp(life->peer.qp);

	return qp->transport == &roce_transport && qp->type != IBV_QPT_UD ? roce_qp_of(qp) : NULL;
}

static void send_packet(struct life *life, struct packet packet, const void *payload, size_t bytes)
{
	const struct sim_faults none = {.hides_ip_id = life->faults.hides_ip_id};

	packet.is_ahead = life->is_ahead;
	packet.takes_ahead = life->takes_ahead;
	life->last = packet;
	life->last_bytes = bytes;
	life->has_sent = true;
	sim_net_set_faults(life->peer.world.net, &none);
	peer_send(&life->peer, packet, payload, bytes);
	sim_net_set_faults(life->peer.world.net, &life->faults);
}

/* A current or initial PSN of the queue pair, possibly with a small offset. */
static uint32_t some_psn(struct life *life, uint8_t which)
{
	const struct roce_qp *rqp = rqp_of(life);
	uint32_t off = which & 8 ? (uint32_t)(int8_t)life_next(life) : 0;

	if (!rqp || (which & 7) == 7)
		return psn_add(PEER_FIRST_PSN, off);
	switch (which & 7) {
	case 4:
		return psn_add(rqp->tx.una_psn, off);
	case 5:
		return psn_add(rqp->tx.next_psn, off);
	case 6:
		return psn_add(PEER_SECOND_PSN, off);
	default:
		return psn_add(rqp->rx.psn, off);
	}
}

/* Usually an opcode of the QP's transport service, sometimes an arbitrary value. */
static uint8_t some_opcode(struct life *life)
{
	static const uint8_t services[] = {[IBV_QPT_RC] = OPCODE(RC, SEND_FIRST),
					   [IBV_QPT_UC] = OPCODE(UC, SEND_FIRST),
					   [IBV_QPT_UD] = OPCODE(UD, SEND_FIRST),
					   [IBV_QPT_XRC_SEND] = OPCODE(XRC, SEND_FIRST),
					   [IBV_QPT_XRC_RECV] = OPCODE(XRC, SEND_FIRST)};
	uint8_t what = life_next(life);

	if (what >= 0xf0)
		return life_next(life);
	if (what >= FROM_A19 && life->peer.qp->qp_type == IBV_QPT_RC)
		return what & 1 ? OPCODE(RC, ATOMIC_WRITE) : OPCODE(RC, FLUSH);
	return (uint8_t)(services[life->peer.qp->qp_type] + what % OPCODES);
}

static uint8_t some_syndrome(struct life *life)
{
	static const uint8_t likely[] = {0x1f, 0x00, 0x20, 0x21, 0x2e, 0x3f, 0x60,
					 0x61, 0x62, 0x63, 0x64, 0x65, 0x40};
	uint8_t what = life_next(life);

	return what < 0xc0 ? likely[what % sizeof(likely)] : life_next(life);
}

static uint32_t some_rkey(struct life *life, uint8_t flags)
{
	if (!(flags & 16))
		return life->offered ? life->offered->rkey : 0;
	if ((flags & 34) == 2)
		return life->window_rkey;
	return flags & 32 ? life->peer.node->mr->rkey : (uint32_t)life_next(life) << 8;
}

static uint32_t some_srqn(struct life *life)
{
	uint8_t which = life_next(life);

	return which < 0xe0 ? life->peer.node->xrc_srqn : which;
}

/*
 * Usually a FLUSH with global visibility, which the region permits, of a range or of the whole
 * region.
 */
static void aim_flush(struct life *life, struct packet *packet)
{
	uint8_t how = life_next(life);

	packet->flush_types = how < 0xc0 ? IBV_FLUSH_GLOBAL : how & 0x0f;
	packet->flush_level = how >> 4 & 0x03;
}

/* Sends a packet with nearly valid headers. */
void hand_send_some(struct life *life)
{
	static const uint8_t zeros[PACKET_PAYLOAD_MAX];
	uint8_t opcode = some_opcode(life);
	const struct opcode_info *info = opcode_info(opcode);
	uint8_t flags = life_next(life);
	struct packet packet = {.opcode = opcode};
	size_t bytes = life_next(life);

	if (!info)
		return;
	/* Usually a payload of the path MTU. */
	bytes = bytes < 128 ? PEER_MTU : bytes - 128;
	if (life->peer.qp->qp_type == IBV_QPT_UD) {
		uint8_t to = life_next(life);

		packet.dest_qpn = to & 1 ? GROUP_QPN : 0;
		peer_aim(&life->peer, to & 2 ? peer_group.raw : life->peer.node->gid);
	} else {
		packet.psn = some_psn(life, life_next(life));
	}
	packet.wants_ack = flags & 1;
	packet.is_solicited = flags & 2;
	packet.is_migrated = !(flags & 16);
	packet.va = (uintptr_t)life->memory + OFFERED_BYTES;
	if (flags & 4)
		packet.va += (uint64_t)(int8_t)life_next(life) * 40;
	packet.rkey = some_rkey(life, flags);
	packet.dma_length_bytes = flags & 8 ? (uint32_t)life_next(life) << (life_next(life) % 32) :
					      (uint32_t)bytes;
	if (info->is_flush)
		aim_flush(life, &packet);
	packet.swap_or_add = bytes;
	packet.inv_rkey = packet.rkey;
	packet.qkey = flags & 64 ? life_next(life) : PEER_QKEY;
	packet.src_qpn = PEER_QPN;
	if (info->has_aeth)
		packet.syndrome = some_syndrome(life);
	if (info->has_xrceth)
		packet.xrc_srqn = some_srqn(life);
	if (flags & 128)
		packet.pkey = (uint16_t)(life_next(life) << 8);
	send_packet(life, packet, zeros, info->may_have_payload ? bytes : 0);
}

/* Sends the last packet again, one to four times, with the same PSN or another one. */
void hand_send_again(struct life *life)
{
	static const uint8_t zeros[PACKET_PAYLOAD_MAX];
	uint8_t how = life_next(life);
	struct packet packet = life->last;

	if (!life->has_sent)
		return;
	packet.psn = psn_add(packet.psn, how & 4 ? (uint32_t)(int8_t)life_next(life) : 0);
	for (int i = 0; i <= (how & 3); i++)
		send_packet(life, packet, zeros, life->last_bytes);
}

/* Sends a complete message as a correct peer does. */
void hand_send_message(struct life *life)
{
	static uint8_t payload[PEER_MTU];
	const struct roce_qp *rqp = rqp_of(life);
	enum opcode_transport transport = life_transport(life);
	uint8_t what = life_next(life), packets = life_next(life) % 8;
	uint32_t last_bytes = life_next(life);
	uint32_t psn = rqp ? rqp->rx.psn : 0;

	if (!rqp)
		return;
	for (uint8_t i = 0; i <= packets; i++) {
		bool starts = i == 0, ends = i == packets;
		struct packet packet = {.psn = psn_add(psn, i),
					.wants_ack = ends,
					.is_migrated = true,
					.xrc_srqn = life->peer.node->xrc_srqn};

		memset(payload, what, sizeof(payload));
		packet.opcode = what & 1 ?
					opcode_of_write(transport, starts, ends, what & 2) :
					opcode_of_send(transport, starts, ends,
						       what & 2 ? OPCODE_WITH_IMM : OPCODE_PLAIN);
		packet.va = (uintptr_t)life->memory + OFFERED_BYTES;
		packet.rkey = life->offered ? life->offered->rkey : 0;
		packet.dma_length_bytes = packets * PEER_MTU + last_bytes;
		if (ends && packets && !last_bytes)
			last_bytes = 1;
		send_packet(life, packet, payload, ends ? last_bytes : PEER_MTU);
	}
}

/* The transport service of responses: XRC or RC. */
static enum opcode_transport responding(const struct life *life)
{
	return life_is_xrc(life) ? OPCODE_TRANSPORT_XRC : OPCODE_TRANSPORT_RC;
}

static void answer_read(struct life *life, const struct packet *request, uint8_t how)
{
	static const uint8_t zeros[PEER_MTU];
	uint32_t left = request->dma_length_bytes;
	uint32_t packets = left ? (left - 1) / PEER_MTU + 1 : 1;
	uint32_t most = how & 1 ? packets : life_next(life);

	for (uint32_t i = 0; i < packets && i < most && i < 64; i++) {
		uint32_t bytes = left < PEER_MTU ? left : PEER_MTU;
		struct packet packet = {
			.opcode = opcode_of_read_response(responding(life), i == 0,
							  i + 1 == packets),
			.psn = psn_add(request->psn, i),
			.syndrome = how & 2 ? some_syndrome(life) : 0x1f,
		};

		if (how & 4)
			packet.psn = psn_add(packet.psn, (uint32_t)(int8_t)life_next(life));
		if (how & 8)
			bytes = life_next(life);
		send_packet(life, packet, zeros, bytes);
		left -= left < PEER_MTU ? left : PEER_MTU;
	}
}

static bool is_unreliable(const struct life *life)
{
	return life->peer.qp->qp_type == IBV_QPT_UC || life->peer.qp->qp_type == IBV_QPT_UD;
}

static uint8_t plain_answer(const struct life *life)
{
	if (is_unreliable(life))
		return OPCODE(VENDOR, ACK);
	return opcode_make(responding(life), OPCODE_ACK);
}

static uint8_t own_answer(const struct life *life, const struct opcode_info *info)
{
	if (info->is_atomic)
		return opcode_make(responding(life), OPCODE_ATOMIC_ACK);
	return opcode_has_own_response(info) ?
		       opcode_make(responding(life), OPCODE_READ_RESPONSE_ONLY) :
		       plain_answer(life);
}

/* Sends a response to one of the last requests of the queue pair. */
void hand_answer_one(struct life *life)
{
	uint8_t which = life_next(life), how = life_next(life);
	const struct packet *request;
	struct packet packet;

	if (!life->seen_count)
		return;
	request = &life->seen[which % life->seen_count];
	if (request->info->is_read && !(how & 0x80)) {
		answer_read(life, request, how);
		return;
	}
	packet = (struct packet){
		.opcode = how & 0x80 ? plain_answer(life) : own_answer(life, request->info),
		.psn = request->psn,
		.syndrome = how & 2 ? some_syndrome(life) : 0x1f,
		.src_qpn = PEER_QPN,
	};
	if (how & 4)
		packet.psn = psn_add(packet.psn, (uint32_t)(int8_t)life_next(life));
	send_packet(life, packet, NULL, 0);
}

/* The PSN of the latest packet of UC or UD with AckReq; 0: the queue pair has sent none. */
static uint32_t window_psn(const struct life *life)
{
	for (size_t i = life->seen_count; i > 0; i--) {
		if (life->seen[i - 1].wants_ack)
			return life->seen[i - 1].psn;
	}
	return 0;
}

/*
 * Sends an ACK or NAK with a PSN near those of the queue pair's outstanding requests. To UC and UD:
 * a VENDOR_ACK, usually the one that opens the window.
 */
void hand_acknowledge(struct life *life)
{
	struct packet packet = {
		.opcode = plain_answer(life), .syndrome = some_syndrome(life), .src_qpn = PEER_QPN};
	uint8_t how = life_next(life);

	packet.psn = is_unreliable(life) && how < 0xc0 ? window_psn(life) :
							 some_psn(life, 4 | (how & 11));
	send_packet(life, packet, NULL, 0);
}
