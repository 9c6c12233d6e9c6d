/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "../unit/roce/peer.h"

/*
 * A hostile peer with the right addresses: any sequence of packets whose ICRCs are right, into a live queue pair that is busy
 * with requests of its own. Whatever comes, memory that was not offered stays as it is, and nothing completes that was not
 * posted, or twice.
 */
#define OFFERED_BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t next(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* Headers near enough to right to get somewhere. */
static void send_some(struct peer *peer, struct input *in, const struct ibv_mr *offered)
{
	static const uint8_t zeros[PACKET_PAYLOAD_MAX];
	uint8_t opcode = next(in);
	const struct opcode_info *info = opcode_info(opcode);
	uint8_t flags = next(in);
	struct packet packet = {.opcode = opcode};
	uint32_t base = flags & 1 ? PEER_SECOND_PSN : PEER_FIRST_PSN;
	size_t bytes = (size_t)next(in) * (flags & 2 ? 1 : 4);

	if (!info)
		return;
	packet.psn = psn_add(base, (uint32_t)(int8_t)next(in));
	packet.wants_ack = flags & 4;
	packet.is_solicited = flags & 8;
	packet.va = (uintptr_t)offered->addr + (uint64_t)(int8_t)next(in) * 64;
	packet.rkey = flags & 16 ? offered->rkey : (uint32_t)next(in) << 8;
	packet.dma_length_bytes = flags & 32 ? (uint32_t)bytes : (uint32_t)next(in) << (flags & 31);
	packet.swap_or_add = next(in);
	packet.syndrome = next(in);
	packet.inv_rkey = packet.rkey;
	peer_send(peer, packet, zeros, info->may_have_payload ? bytes : 0);
}

static unsigned act(struct peer *peer, uint8_t what)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode opcode = opcodes[what % 4];

	peer_post_send(peer, opcode, what % 4 == 3 ? 8 : what * 16u,
		       what & 128 ? IBV_SEND_FENCE : 0);
	return 1;
}

static unsigned drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	unsigned n = 0;

	while (world_poll(cq, &wc))
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct peer peer;
	struct ibv_mr *offered;
	unsigned sends = 0, recvs = 0, sent = 0, received = 0;
	uint8_t *memory;

	if (next(&in) & 1)
		peer_open(&peer, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
	else
		peer_open(&peer, IBV_QPT_RC,
			  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC);
	/* Guarded on both sides, in a region of its own. */
	memory = malloc(3 * OFFERED_BYTES);
	check(memory != NULL);
	memset(memory, 0x5a, 3 * OFFERED_BYTES);
	offered = ibv_reg_mr(peer.node->pd, memory + OFFERED_BYTES, OFFERED_BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(offered != NULL);
	while (in.left) {
		uint8_t what = next(&in);

		if (what < 32 && recvs - received < 16) {
			peer_post_recv(&peer, recvs++, what * 32u);
		} else if (what < 64 && sends - sent < 16 && peer.qp->qp_type == IBV_QPT_RC) {
			sends += act(&peer, next(&in));
		} else if (what < 80) {
			peer.world.now_ns += UINT64_C(1000000) << what % 8;
			peer_settle(&peer);
		} else {
			send_some(&peer, &in, offered);
			if (what & 1)
				peer_settle(&peer);
		}
		sent += drain(peer.node->send_cq);
		received += drain(peer.node->recv_cq);
		check(sent <= sends && received <= recvs);
	}
	peer_settle(&peer);
	for (unsigned i = 0; i < OFFERED_BYTES; i++)
		check(memory[i] == 0x5a && memory[2 * OFFERED_BYTES + i] == 0x5a);
	ibv_dereg_mr(offered);
	peer_close(&peer);
	free(memory);
	return 0;
}
