/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc_forward_kit.h"

#include <string.h>

#include "../../with_locks.h"
#include "core/qp/qp.h"

struct kit_sent kit_sent[SENT_MAX];
int kit_seen, kit_send_error;
static int kit_count;

static int kit_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		    bool may_connect)
{
	struct kit_sent *sent = &kit_sent[kit_count];
	uint32_t len = 0;

	if (kit_send_error)
		return kit_send_error;
	assert_true(kit_count < SENT_MAX);
	for (int i = 0; i < count; i++) {
		assert_true(len + pieces[i].iov_len <= sizeof(sent->bytes));
		if (pieces[i].iov_len)
			memcpy(sent->bytes + len, pieces[i].iov_base, pieces[i].iov_len);
		len += (uint32_t)pieces[i].iov_len;
	}
	sent->slot = slot;
	assert_int_equal(xrc_forward_decode(&sent->msg, sent->bytes, len, engine->slot, slot), 0);
	assert_int_equal(may_connect, sent->msg.type == XRC_FORWARD_ATTACH);
	kit_count++;
	return 0;
}

static const struct xrc_forward_carrier kit_carrier = {.send = kit_send};

uint8_t kit_bytes[2 * PEER_MTU];
struct ibv_srq *kit_srq;
uint32_t kit_srqn;

int kit_set_up(void **state)
{
	static struct peer peer;
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};

	memset(kit_bytes, 0xb5, sizeof(kit_bytes));
	kit_count = kit_seen = kit_send_error = 0;
	peer_open(&peer, IBV_QPT_XRC_RECV, ALL);
	to_xrcd(peer.node->xrcd)->domain->id = DOMAIN_ID;
	peer.node->engine.xrc_forward.carrier = &kit_carrier;
	assert_int_equal(xrc_target_open(roce_qp_of(to_qp(peer.qp))), 0);
	attr.pd = peer.node->pd;
	attr.xrcd = peer.node->xrcd;
	attr.cq = peer.node->recv_cq;
	kit_srq = ibv_create_srq_ex(&peer.node->context.pub.context, &attr);
	assert_non_null(kit_srq);
	assert_int_equal(ibv_get_srq_num(kit_srq, &kit_srqn), 0);
	*state = &peer;
	return 0;
}

int kit_tear_down(void **state)
{
	struct peer *peer = *state;

	kit_send_error = 0;
	WITH_LOCKS(&peer->node->engine,
		   xrc_forward_domain_closed(&peer->node->engine,
					     to_xrcd(peer->node->xrcd)->domain));
	assert_true(list_is_empty(&roce_of(&peer->node->engine)->xrc.executor_list));
	/* There is no daemon that has to be notified. */
	to_xrcd(peer->node->xrcd)->domain->id = 0;
	assert_int_equal(ibv_destroy_srq(kit_srq), 0);
	peer_close(peer);
	return 0;
}

struct packet kit_packet(const struct peer *peer, enum opcode_operation operation, uint32_t psn,
			 uint32_t srqn)
{
	return (struct packet){.opcode = opcode_make(OPCODE_TRANSPORT_XRC, operation),
			       .psn = psn,
			       .pkey = PACKET_PKEY_DEFAULT,
			       .wants_ack = true,
			       .xrc_srqn = srqn,
			       .va = (uintptr_t)peer->node->buf,
			       .rkey = peer->node->mr->rkey,
			       .dma_length_bytes = 8};
}

void kit_request(struct peer *peer, enum opcode_operation operation, uint32_t psn, uint32_t srqn,
		 size_t payload_bytes)
{
	peer_send(peer, kit_packet(peer, operation, psn, srqn), kit_bytes, payload_bytes);
	peer_settle(peer);
}

void kit_expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, ACK));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.syndrome, syndrome);
}

void kit_expect_nothing(struct peer *peer)
{
	struct packet packet;

	peer_settle(peer);
	assert_false(peer_next(peer, &packet));
}

void kit_expect_no_msg(void)
{
	assert_int_equal(kit_seen, kit_count);
}

const struct xrc_forward_msg *kit_expect_msg(uint32_t slot, enum xrc_forward_type type)
{
	assert_true(kit_seen < kit_count);
	assert_int_equal(kit_sent[kit_seen].slot, slot);
	assert_int_equal(kit_sent[kit_seen].msg.type, type);
	return &kit_sent[kit_seen++].msg;
}

void kit_receive(struct peer *peer, uint32_t slot, const struct xrc_forward_msg *msg)
{
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
	struct xrc_forward_frame frame;
	uint32_t len = 0;

	xrc_forward_encode(msg, &frame);
	for (int i = 0; i < frame.count; i++) {
		if (frame.pieces[i].iov_len)
			memcpy(bytes + len, frame.pieces[i].iov_base, frame.pieces[i].iov_len);
		len += (uint32_t)frame.pieces[i].iov_len;
	}
	/* A malformed message is dropped; the caller checks the effect. */
	WITH_LOCKS(&peer->node->engine,
		   (void)!xrc_forward_receive(&peer->node->engine, slot, bytes, len));
	peer_settle(peer);
}

enum ibv_qp_state kit_state(const struct peer *peer)
{
	return to_qp(peer->qp)->state;
}
