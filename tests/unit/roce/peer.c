/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

const uint8_t peer_gid[GID_BYTES] = {[10] = 0xff, 0xff, 10, 0, 0, 99};
const union ibv_gid peer_group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};

void peer_open_reads(struct peer *peer, enum ibv_qp_type type, unsigned access, uint8_t rd_atomic)
{
	const struct sim_faults none = {0};
	const struct world_qp_attr attr = {
		.type = type,
		.mtu = IBV_MTU_256,
		.timeout = 14,
		.retry_cnt = 2,
		.rnr_retry = 1,
		.min_rnr_timer = 14,
		.rd_atomic = rd_atomic,
		.access = access,
		.psns = {PEER_SECOND_PSN},
		.qkey = PEER_QKEY,
		.max_wr = 16,
	};

	world_open(&peer->world, 1, 1, false, PEER_BUF_BYTES, &none);
	peer->node = &peer->world.nodes[0];
	peer->link = sim_link_new(peer->world.net, peer_gid);
	peer->qp = world_create_qp(peer->node, &attr);
	if (type == IBV_QPT_UD)
		world_ready(peer->qp, &attr);
	else
		world_connect_to(peer->qp, peer_gid, PEER_QPN, PEER_FIRST_PSN, PEER_SECOND_PSN,
				 &attr);
	memset(&peer->path, 0, sizeof(peer->path));
	memcpy(peer->path.local_gid, peer_gid, GID_BYTES);
	memcpy(peer->path.remote_gid, peer->node->gid, GID_BYTES);
	if (link_path_open(peer->link, &peer->path))
		abort();
	icrc_flow_init(&peer->flow, peer_gid, peer->node->gid, peer->path.src_port,
		       PACKET_UDP_PORT);
}

void peer_open(struct peer *peer, enum ibv_qp_type type, unsigned access)
{
	peer_open_reads(peer, type, access, 2);
}

void peer_aim(struct peer *peer, const uint8_t gid[GID_BYTES])
{
	memcpy(peer->path.remote_gid, gid, GID_BYTES);
	icrc_flow_init(&peer->flow, peer_gid, gid, peer->path.src_port, PACKET_UDP_PORT);
}

void peer_close(struct peer *peer)
{
	ibv_destroy_qp(peer->qp);
	link_close(peer->link);
	world_close(&peer->world);
}

void peer_write_byte(struct peer *peer, bool is_ahead, uint32_t n)
{
	uint8_t byte = (uint8_t)(n + 1);
	struct packet packet = {.opcode = OPCODE(RC, WRITE_ONLY),
				.psn = psn_add(PEER_FIRST_PSN, n),
				.wants_ack = true,
				.is_ahead = is_ahead,
				.va = (uintptr_t)peer->node->buf + n,
				.rkey = peer->node->mr->rkey,
				.dma_length_bytes = 1};

	peer_send(peer, packet, &byte, 1);
}

void peer_send_spoilt(struct peer *peer, struct packet packet, const void *payload, size_t bytes,
		      size_t at, uint8_t flip, bool is_sealed)
{
	uint8_t whole[PACKET_MAX];
	struct iovec piece = {.iov_base = whole};
	struct link_tx tx = {.path = &peer->path};
	size_t len;

	packet.pkey = packet.pkey ? packet.pkey : PACKET_PKEY_DEFAULT;
	packet.dest_qpn = packet.dest_qpn ? packet.dest_qpn : peer->qp->qp_num;
	packet.payload_bytes = bytes;
	len = packet_build_headers(&packet, whole);
	if (bytes)
		memcpy(whole + len, payload, bytes);
	len += bytes;
	memset(whole + len, 0, packet_pad_bytes(bytes));
	len += packet_pad_bytes(bytes);
	if (is_sealed && at < len)
		whole[at] ^= flip;
	piece.iov_len = len;
	icrc_store(whole + len, icrc_compute(&peer->flow, 0, &piece, 1));
	len += ICRC_BYTES;
	if (!is_sealed && at < len)
		whole[at] ^= flip;
	/* The link sends a header and the rest separately. */
	tx.hdr_bytes = BTH_BYTES;
	memcpy(tx.hdr, whole, BTH_BYTES);
	piece.iov_base = whole + BTH_BYTES;
	piece.iov_len = len - BTH_BYTES;
	tx.payload = &piece;
	tx.payload_count = 1;
	if (link_send(peer->link, &tx, 1) != 1)
		abort();
}

void peer_send(struct peer *peer, struct packet packet, const void *payload, size_t bytes)
{
	peer_send_spoilt(peer, packet, payload, bytes, 0, 0, true);
}

void peer_answer(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	struct packet packet = {.opcode = OPCODE(RC, ACK), .psn = psn, .syndrome = syndrome};

	peer_send(peer, packet, NULL, 0);
	peer_settle(peer);
}

void peer_settle(struct peer *peer)
{
	int quiet = 0;

	while (quiet < 2) {
		peer->world.now_ns += 1000;
		quiet = world_turn(&peer->world) ? 0 : quiet + 1;
	}
}

bool peer_next(struct peer *peer, struct packet *packet)
{
	struct link_rx rx;

	return peer_next_rx(peer, packet, &rx);
}

bool peer_next_rx(struct peer *peer, struct packet *packet, struct link_rx *rx)
{
	struct icrc_flow flow;
	uint16_t ip_id;

	if (link_recv(peer->link, rx, 1) != 1)
		return false;
	icrc_flow_init(&flow, rx->remote_gid, rx->local_gid, rx->src_port, PACKET_UDP_PORT);
	if (packet_parse(packet, rx->bytes, rx->len) != PACKET_OK ||
	    icrc_check(&flow, &roce_of(&peer->node->engine)->solver, rx->bytes, rx->len, &ip_id) !=
		    ICRC_RIGHT ||
	    ip_id || packet->dest_qpn != PEER_QPN || packet->pkey != PACKET_PKEY_DEFAULT ||
	    (!packet->is_migrated))
		abort();
	return true;
}

uint64_t peer_counter(const struct peer *peer, enum roce_counter counter)
{
	return roce_of(&peer->node->engine)->counters[counter];
}

void peer_post_recv(struct peer *peer, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, bytes, peer->node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(peer->qp, &wr, &bad))
		abort();
}

static void post_flush(struct peer *peer, uint32_t bytes, unsigned flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(peer->qp);

	ibv_wr_start(ex);
	ex->wr_id = IBV_WR_FLUSH;
	ex->wr_flags = flags;
	ibv_wr_flush(ex, PEER_RKEY, PEER_REMOTE_ADDR, bytes, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	if (ibv_wr_complete(ex))
		abort();
}

void peer_post_send(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, bytes, peer->node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = flags | IBV_SEND_SIGNALED},
			   *bad;

	wr.imm_data = 0x01020304;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = PEER_REMOTE_ADDR;
		wr.wr.atomic.rkey = PEER_RKEY;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 6;
	} else {
		wr.wr.rdma.remote_addr = PEER_REMOTE_ADDR;
		wr.wr.rdma.rkey = PEER_RKEY;
	}
	if (opcode == IBV_WR_FLUSH)
		post_flush(peer, bytes, wr.send_flags);
	else if (ibv_post_send(peer->qp, &wr, &bad))
		abort();
	peer_settle(peer);
}

int peer_event(struct peer *peer)
{
	struct ibv_context *context = &peer->node->context.pub.context;
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&fd, 1, 0) != 1 || ibv_get_async_event(context, &event))
		return -1;
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}
