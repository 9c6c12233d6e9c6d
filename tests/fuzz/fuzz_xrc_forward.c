/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile processes of the same host and a hostile requester send messages about XRC queue pairs in
 * any order to a process that has an XRC target QP and an SRQ. The process may access only the
 * registered region.
 *
 * An input is a sequence of records of RECORD_BYTES: the operation, the fields that are replaced by
 * plausible values, and the fields.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/roce/peer.h"
#include "../with_locks.h"
#include "roce/xrc_forward.h"

#define DOMAIN_ID    77u
#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define FIRST_SLOT   200u
#define SLOT_COUNT   3u
#define HEAD_BYTES   8
#define RECORD_BYTES (HEAD_BYTES + sizeof(struct fields))
#define RECORDS_MAX  512
#define WRITE_BYTES  64u

enum plausible {
	PLAUSIBLE_TYPE = 1 << 0,
	PLAUSIBLE_QPN = 1 << 1,
	PLAUSIBLE_BURST = 1 << 2,
	PLAUSIBLE_PSN = 1 << 3,
	PLAUSIBLE_ATTACH = 1 << 4,
	PLAUSIBLE_OPCODE = 1 << 5,
	PLAUSIBLE_SRQN = 1 << 6,
	PLAUSIBLE_KEY = 1 << 7,
};

/* The fields of a message in a record. */
struct fields {
	uint32_t type;
	uint32_t qpn;
	uint32_t burst;
	uint32_t serial;
	uint32_t psn;
	uint32_t msn;
	uint32_t disposition;
	uint32_t is_inside;
	uint8_t attributes[sizeof(struct xrc_forward_attach)];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct attack {
	struct peer peer;
	struct ibv_srq *srq;
	uint32_t srqn;
	/* The last request that this process forwarded, the base of plausible reports. */
	uint32_t burst;
	uint32_t serial;
	uint32_t psn;
};

static struct attack *current;
static int send_error;

/* All messages of this process must be valid. */
static int attack_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		       bool may_connect)
{
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	struct xrc_forward_msg msg;
	uint32_t len = 0;

	(void)may_connect;
	for (int i = 0; i < count; i++) {
		if (len + pieces[i].iov_len > sizeof(bytes))
			abort();
		if (pieces[i].iov_len)
			memcpy(bytes + len, pieces[i].iov_base, pieces[i].iov_len);
		len += (uint32_t)pieces[i].iov_len;
	}
	if (xrc_forward_decode(&msg, bytes, len, engine->slot, slot))
		abort();
	if (!current || send_error || msg.type != XRC_FORWARD_REQUEST)
		return send_error;
	current->burst = msg.request.burst;
	current->serial = msg.request.serial;
	current->psn = msg.request.packet.psn;
	return 0;
}

static const struct xrc_forward_carrier attack_carrier = {.send = attack_send};

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
	attack->peer.node->engine.xrc_forward.carrier = &attack_carrier;
	if (xrc_target_open(roce_qp_of(to_qp(attack->peer.qp))))
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
		WITH_LOCKS(engine, xrc_forward_peer_exited(engine, FIRST_SLOT + i));
	WITH_LOCKS(engine,
		   xrc_forward_domain_closed(engine, to_xrcd(attack->peer.node->xrcd)->domain));
	if (!list_is_empty(&roce_of(engine)->xrc.executor_list))
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

/* Sets a payload length that the packet's opcode permits. */
static void set_payload(struct packet *packet, const uint8_t *record)
{
	const struct opcode_info *info = opcode_info(packet->opcode);
	bool has_payload = info && (info->is_send || info->is_write);

	packet->payload_bytes = has_payload ? record[7] % WRITE_BYTES : 0;
	if (has_payload && (info->is_first || info->is_middle))
		packet->payload_bytes = PEER_MTU;
}

static bool is_to_target(uint32_t type)
{
	return type >= XRC_FORWARD_REPORT && type <= XRC_REMOTE_MODIFY;
}

static void make_plausible(const struct attack *attack, const uint8_t *record,
			   struct fields *fields)
{
	bool is_report;

	if (record[1] & PLAUSIBLE_TYPE)
		fields->type = 1 + fields->type % (XRC_FORWARD_TYPE_COUNT - 1);
	is_report = fields->type == XRC_FORWARD_REPORT;
	if (record[1] & PLAUSIBLE_QPN)
		fields->qpn = is_to_target(fields->type) ?
				      attack->peer.qp->qp_num :
				      (FIRST_SLOT + record[2] % SLOT_COUNT) << IPC_SLOT_SHIFT | 2;
	if (record[1] & PLAUSIBLE_BURST) {
		fields->burst = is_report ? attack->burst : fields->burst % 2;
		fields->serial = is_report ? attack->serial : fields->serial;
		fields->disposition %= DISPOSITION_COUNT;
		fields->is_inside %= 2;
		fields->msn &= PSN_MASK;
	}
	if (record[1] & PLAUSIBLE_PSN)
		fields->psn = psn_add(is_report ? attack->psn : PEER_FIRST_PSN, record[4] % 8);
}

static struct xrc_forward_attach make_attach(const struct attack *attack, const uint8_t *record,
					     const struct fields *fields)
{
	struct xrc_forward_attach attach;

	memcpy(&attach, fields->attributes, sizeof(attach));
	if (!(record[1] & PLAUSIBLE_ATTACH))
		return attach;
	attach.domain_id = DOMAIN_ID;
	attach.dev_id = attack->peer.node->device.info.dev_id;
	attach.remote_qpn = PEER_QPN;
	attach.path_mtu = IBV_MTU_256;
	attach.access = ALL;
	attach.max_dest_rd_atomic %= 4;
	attach.min_rnr_timer %= 32;
	attach.flow_label &= 0xfffff;
	memset(attach.reserved, 0, sizeof(attach.reserved));
	memcpy(attach.local_gid, attack->peer.node->gid, GID_BYTES);
	memcpy(attach.remote_gid, peer_gid, GID_BYTES);
	return attach;
}

static void fill_remote(struct xrc_forward_msg *msg, const struct fields *fields)
{
	switch (msg->type) {
	case XRC_REMOTE_OPEN:
		msg->open.domain_id = DOMAIN_ID;
		msg->open.serial = fields->serial;
		break;
	case XRC_REMOTE_MODIFY:
		msg->modify.serial = fields->serial;
		msg->modify.mask = (int32_t)fields->disposition;
		memcpy(&msg->modify.attr, fields->attributes, sizeof(fields->attributes));
		break;
	case XRC_REMOTE_RESULT:
		msg->result.serial = fields->serial;
		msg->result.error = fields->disposition;
		break;
	case XRC_REMOTE_EVENT:
		msg->event.event = fields->disposition;
		break;
	default:
		msg->operation.serial = fields->serial;
		break;
	}
}

/* The message with these fields. */
static struct xrc_forward_msg make_msg(const struct attack *attack, const uint8_t *record,
				       const struct fields *fields, const uint8_t *payload)
{
	struct xrc_forward_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = (enum xrc_forward_type)fields->type;
	msg.qpn = fields->qpn;
	switch (msg.type) {
	case XRC_FORWARD_ATTACH:
		msg.attach = make_attach(attack, record, fields);
		break;
	case XRC_FORWARD_REQUEST:
	case XRC_FORWARD_REPLAY:
		msg.request.burst = fields->burst;
		msg.request.serial = fields->serial;
		msg.request.msn = fields->msn;
		msg.request.packet = make_packet(attack, record, fields->psn & PSN_MASK);
		set_payload(&msg.request.packet, record);
		msg.request.packet.payload = payload;
		break;
	case XRC_FORWARD_REPORT:
		msg.report.burst = fields->burst;
		msg.report.serial = fields->serial;
		msg.report.psn = fields->psn;
		msg.report.msn = fields->msn;
		msg.report.disposition = fields->disposition;
		msg.report.is_inside = (uint8_t)fields->is_inside;
		break;
	default:
		fill_remote(&msg, fields);
		break;
	}
	return msg;
}

static uint32_t encode(const struct xrc_forward_msg *msg, uint8_t bytes[XRC_FORWARD_BYTES_MAX])
{
	struct xrc_forward_frame frame;
	uint32_t len = 0;

	xrc_forward_encode(msg, &frame);
	for (int i = 0; i < frame.count; i++) {
		if (frame.pieces[i].iov_len)
			memcpy(bytes + len, frame.pieces[i].iov_base, frame.pieces[i].iov_len);
		len += (uint32_t)frame.pieces[i].iov_len;
	}
	return len;
}

/*
 * Another process sends a message: with an unknown type or on request the record's bytes, else with
 * the fields.
 */
static void send_msg(struct attack *attack, const uint8_t *record)
{
	static const uint8_t payload[PEER_MTU];
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	struct xrc_forward_msg msg;
	struct fields fields;
	uint32_t len = sizeof(fields);
	bool has_packet;

	memcpy(&fields, record + HEAD_BYTES, sizeof(fields));
	make_plausible(attack, record, &fields);
	has_packet = fields.type == XRC_FORWARD_REQUEST || fields.type == XRC_FORWARD_REPLAY;
	memcpy(bytes, &fields, sizeof(fields));
	if (fields.type && fields.type < XRC_FORWARD_TYPE_COUNT && !(record[5] & 4)) {
		msg = make_msg(attack, record, &fields, payload);
		if (has_packet && !opcode_info(msg.request.packet.opcode))
			return;
		len = encode(&msg, bytes);
	}
	if (record[5] & 2)
		len = record[6] % (len + 1);
	WITH_LOCKS(&attack->peer.node->engine,
		   (void)!xrc_forward_receive(&attack->peer.node->engine,
					      FIRST_SLOT + record[2] % SLOT_COUNT, bytes, len));
}

static void request(struct attack *attack, const uint8_t *record)
{
	uint32_t psn = psn_add(PEER_FIRST_PSN, record[4] % 16);
	struct packet packet = make_packet(attack, record, psn);
	uint8_t payload[PEER_MTU] = {0};

	if (!opcode_info(packet.opcode))
		return;
	set_payload(&packet, record);
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
		WITH_LOCKS(engine, xrc_forward_space(engine, slot));
		break;
	case 2:
		WITH_LOCKS(engine, xrc_forward_peer_exited(engine, slot));
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
		send_msg(attack, record);
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
