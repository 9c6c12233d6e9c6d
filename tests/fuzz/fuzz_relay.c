/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile processes of the same host, and a hostile requester beside them: messages about XRC queue pairs in any order, to a
 * process that has one and an SRQ. Nothing may be touched but the region that was registered.
 *
 * An input is a sequence of records of RECORD_BYTES: what happens, which fields are replaced by plausible ones, and the
 * fields.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/roce/peer.h"
#include "core/relay.h"
#include "roce/relay.h"

#define DOMAIN_ID    77u
#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define FIRST_SLOT   200u
#define SLOT_COUNT   3u
#define HEAD_BYTES   8
#define RECORD_BYTES (HEAD_BYTES + sizeof(struct relay_msg) + sizeof(struct relay_attach))
#define RECORDS_MAX  512
#define WRITE_BYTES  64u

enum plausible {
	PLAUSIBLE_KIND = 1 << 0,
	PLAUSIBLE_QPN = 1 << 1,
	PLAUSIBLE_RUN = 1 << 2,
	PLAUSIBLE_PSN = 1 << 3,
	PLAUSIBLE_ATTACH = 1 << 4,
	PLAUSIBLE_OPCODE = 1 << 5,
	PLAUSIBLE_SRQN = 1 << 6,
	PLAUSIBLE_KEY = 1 << 7,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		      const struct iovec *pieces, int count);

struct attack {
	struct peer peer;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct relay_msg last; /* what this process said last, the start of a good answer */
};

static struct attack *current;
static int send_error;

int __wrap_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		      const struct iovec *pieces, int count)
{
	size_t bytes = sizeof(*msg);

	(void)engine;
	(void)slot;
	for (int i = 0; i < count; i++)
		bytes += pieces[i].iov_len;
	if (bytes > RELAY_BYTES_MAX)
		abort();
	if (current && !send_error)
		current->last = *msg;
	return send_error;
}

static void open_attack(struct attack *attack)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};

	send_error = 0;
	peer_open(&attack->peer, IBV_QPT_XRC_RECV, ALL);
	to_xrcd(attack->peer.node->xrcd)->domain->id = DOMAIN_ID;
	if (relay_home_open(roce_qp_of(to_qp(attack->peer.qp))))
		abort();
	attr.pd = attack->peer.node->pd;
	attr.xrcd = attack->peer.node->xrcd;
	attr.cq = attack->peer.node->recv_cq;
	attack->srq = ibv_create_srq_ex(&attack->peer.node->context.pub.context, &attr);
	if (!attack->srq || ibv_get_srq_num(attack->srq, &attack->srqn))
		abort();
	current = attack;
}

static void close_attack(struct attack *attack)
{
	struct engine *engine = &attack->peer.node->engine;

	current = NULL;
	send_error = 0;
	for (uint32_t i = 0; i < SLOT_COUNT; i++)
		relay_gone(engine, FIRST_SLOT + i);
	relay_domain_closed(engine, to_xrcd(attack->peer.node->xrcd)->domain);
	if (!list_is_empty(&engine->roce->relay.proxy_list))
		abort();
	to_xrcd(attack->peer.node->xrcd)->domain->id = 0;
	ibv_destroy_srq(attack->srq);
	peer_close(&attack->peer);
}

static struct packet make_packet(const struct attack *attack, const uint8_t *record, uint32_t psn)
{
	struct packet packet = {.opcode = record[3], .psn = psn, .wants_ack = record[5] & 1};

	if (record[1] & PLAUSIBLE_OPCODE)
		packet.opcode = opcode_make(OPCODE_TRANSPORT_XRC,
					    (enum opcode_operation)(record[3] % 24));
	packet.xrc_srqn = record[1] & PLAUSIBLE_SRQN ?
				  attack->srqn :
				  (FIRST_SLOT + record[2] % SLOT_COUNT) << IPC_SLOT_SHIFT | 1;
	packet.rkey = record[1] & PLAUSIBLE_KEY ? attack->peer.node->mr->rkey : record[6];
	packet.va = (uintptr_t)attack->peer.node->buf;
	packet.dma_length_bytes = record[7];
	return packet;
}

/* Payload as the opcode may have some; 0: the opcode is none. */
static uint32_t build(struct packet *packet, const uint8_t *record, uint8_t *out)
{
	static const uint8_t payload[PEER_MTU];
	const struct opcode_info *info = opcode_info(packet->opcode);
	size_t len;

	if (!info)
		return 0;
	packet->payload_bytes = info->is_send || info->is_write ? record[7] % WRITE_BYTES : 0;
	if (info->is_first || info->is_middle)
		packet->payload_bytes = info->is_send || info->is_write ? PEER_MTU : 0;
	len = packet_build_headers(packet, out);
	memcpy(out + len, payload, packet->payload_bytes);
	len += packet->payload_bytes;
	return (uint32_t)(len + packet_build_trailer(packet->payload_bytes, 0, out + len));
}

static void make_plausible(const struct attack *attack, const uint8_t *record,
			   struct relay_msg *msg)
{
	bool is_report = false;

	if (record[1] & PLAUSIBLE_KIND) {
		msg->kind = 1 + msg->kind % (RELAY_KIND_COUNT - 1);
		is_report = msg->kind == RELAY_REPORT;
	}
	if (record[1] & PLAUSIBLE_QPN)
		msg->qpn = is_report ? attack->peer.qp->qp_num :
				       (FIRST_SLOT + record[2] % SLOT_COUNT) << IPC_SLOT_SHIFT | 2;
	if (record[1] & PLAUSIBLE_RUN) {
		msg->run = is_report ? attack->last.run : msg->run % 2;
		msg->serial = is_report ? attack->last.serial : msg->serial;
		msg->verdict %= VERDICT_COUNT;
	}
	if (record[1] & PLAUSIBLE_PSN)
		msg->psn = psn_add(is_report ? attack->last.psn : PEER_FIRST_PSN, record[4] % 8);
}

static void attach_plausibly(const struct attack *attack, struct relay_attach *attach)
{
	attach->domain_id = DOMAIN_ID;
	attach->dev_id = attack->peer.node->device.info.dev_id;
	attach->remote_qpn = PEER_QPN;
	attach->path_mtu = IBV_MTU_256;
	attach->access = ALL;
	attach->max_dest_rd_atomic %= 4;
	attach->min_rnr_timer %= 32;
	memcpy(attach->local_gid, attack->peer.node->gid, GID_BYTES);
	memcpy(attach->remote_gid, peer_gid, GID_BYTES);
}

static void say(struct attack *attack, const uint8_t *record)
{
	uint8_t bytes[RELAY_BYTES_MAX];
	struct relay_attach attach;
	struct relay_msg msg;
	struct packet packet;
	uint32_t len = sizeof(attach);

	memcpy(&msg, record + HEAD_BYTES, sizeof(msg));
	memcpy(&attach, record + HEAD_BYTES + sizeof(msg), sizeof(attach));
	make_plausible(attack, record, &msg);
	if (record[1] & PLAUSIBLE_ATTACH)
		attach_plausibly(attack, &attach);
	memcpy(bytes, &attach, sizeof(attach));
	if (msg.kind == RELAY_REQUEST || msg.kind == RELAY_REPLAY) {
		packet = make_packet(attack, record, msg.psn & PSN_MASK);
		len = build(&packet, record, bytes);
	}
	if (record[5] & 2)
		len = record[6] % (len + 1);
	relay_take(&attack->peer.node->engine, FIRST_SLOT + record[2] % SLOT_COUNT, &msg, bytes,
		   len);
}

static void request(struct attack *attack, const uint8_t *record)
{
	uint32_t psn = psn_add(PEER_FIRST_PSN, record[4] % 16);
	struct packet packet = make_packet(attack, record, psn);
	uint8_t bytes[PACKET_MAX], payload[PEER_MTU] = {0};

	if (!opcode_info(packet.opcode))
		return;
	(void)build(&packet, record, bytes);
	peer_send(&attack->peer, packet, payload, packet.payload_bytes);
}

static void post_recv(struct attack *attack, const uint8_t *record)
{
	struct ibv_sge sge = {(uintptr_t)attack->peer.node->buf, record[4],
			      attack->peer.node->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_srq_recv(attack->srq, &wr, &bad);
}

static void play(struct attack *attack, const uint8_t *record)
{
	static const int errors[] = {0, -EAGAIN, 0, -ENOENT};
	struct engine *engine = &attack->peer.node->engine;
	uint32_t slot = FIRST_SLOT + record[2] % SLOT_COUNT;
	struct link_rx rx;

	switch (record[0] % 12) {
	case 0:
		send_error = errors[record[1] % 4];
		break;
	case 1:
		relay_room(engine, slot);
		break;
	case 2:
		relay_gone(engine, slot);
		break;
	case 3:
		post_recv(attack, record);
		break;
	case 4:
		peer_settle(&attack->peer);
		while (link_recv(attack->peer.link, &rx, 1) == 1)
			;
		break;
	case 5:
	case 6:
	case 7:
		request(attack, record);
		break;
	default:
		say(attack, record);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct attack *attack = calloc(1, sizeof(*attack));
	struct ibv_wc wc;

	if (!attack)
		return 0;
	open_attack(attack);
	for (size_t at = 0; at + RECORD_BYTES <= size && at / RECORD_BYTES < RECORDS_MAX;
	     at += RECORD_BYTES)
		play(attack, data + at);
	peer_settle(&attack->peer);
	while (world_poll(attack->peer.node->recv_cq, &wc))
		;
	close_attack(attack);
	free(attack);
	return 0;
}
