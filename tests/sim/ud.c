/* SPDX-License-Identifier: BSD-2-Clause */
#include "ud.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "wire/grh.h"
#include "wire/packet.h"

#define QKEY	   0x11223344u
#define GROUP_QPN  0xffffffu
#define HOP_LIMIT  64 /* default of an address handle */
#define MARK_BYTES 8  /* sender and index */

static void must(bool is_true)
{
	if (is_true)
		return;
	fprintf(stderr, "ud.c: set-up failed\n");
	abort();
}

static uint8_t *slot_of(const struct ud *ud, int node, unsigned index)
{
	return ud->world->nodes[node].buf + ud->base + index * UD_BYTES_MAX;
}

static uint8_t *recv_slot(const struct ud *ud, int node, uint64_t index)
{
	return slot_of(ud, node, UD_SENDS) + index * UD_RECV_BYTES;
}

void ud_revive(struct ud *ud, int node)
{
	struct ud_node *mine = &ud->nodes[node];
	struct world_node *world_node;
	const struct world_qp_attr attr = {.type = IBV_QPT_UD, .qkey = QKEY, .max_wr = UD_RECVS};

	if (!ud->is_on)
		return;
	world_node = &ud->world->nodes[node];
	mine->qp = world_create_qp(world_node, &attr);
	world_ready(mine->qp, &attr);
	for (int i = 0; i < ud->world->node_count; i++)
		mine->ahs[i] = world_create_ah(world_node, ud->world->nodes[i].gid);
	mine->ahs[ud->world->node_count] = world_create_ah(world_node, ud->group.raw);
	if (mine->is_member)
		must(ibv_attach_mcast(mine->qp, &ud->group, 0) == 0);
}

void ud_kill(struct ud *ud, int node)
{
	struct ud_node *mine = &ud->nodes[node];

	if (!ud->is_on)
		return;
	if (mine->is_member)
		must(ibv_detach_mcast(mine->qp, &ud->group, 0) == 0);
	must(ibv_destroy_qp(mine->qp) == 0);
	for (int i = 0; i <= ud->world->node_count; i++)
		must(ibv_destroy_ah(mine->ahs[i]) == 0);
	mine->completed = mine->posted;
	mine->recvs_done = mine->recvs_posted;
}

static void choose_group(struct ud *ud)
{
	static const union ibv_gid ipv4 = {.raw = {[10] = 0xff, 0xff, 239, 0, 0, 1}};
	static const union ibv_gid ipv6 = {.raw = {0xff, 0x0e, [15] = 1}};

	ud->group = gid_is_ipv4(ud->world->nodes[0].gid) ? ipv4 : ipv6;
	for (int i = 0; i < ud->world->node_count; i++)
		ud->nodes[i].is_member = world_below(ud->world, 2);
}

void ud_open(struct ud *ud, struct world *world, size_t base)
{
	memset(ud, 0, sizeof(*ud));
	ud->world = world;
	ud->base = base;
	ud->is_on = true;
	choose_group(ud);
	for (int i = 0; i < world->node_count; i++)
		ud_revive(ud, i);
}

void ud_close(struct ud *ud)
{
	for (int i = 0; ud->is_on && i < ud->world->node_count; i++)
		ud_kill(ud, i);
}

/* A unique pattern for this sender and index. */
static void fill(uint8_t *at, int from, unsigned index, uint32_t bytes)
{
	uint64_t word = (uint64_t)from << 32 | index | 1u << 16;

	be_store32(at, (uint32_t)from);
	be_store32(at + 4, index);
	for (uint32_t i = MARK_BYTES; i < bytes; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		at[i] = (uint8_t)(word >> 56);
	}
}

static bool post_send(struct ud *ud, int node)
{
	struct ud_node *mine = &ud->nodes[node];
	struct world *world = ud->world;
	struct ud_message *sent = &mine->sent[mine->posted];
	int to = (int)world_below(world, (uint64_t)world->node_count + 1);
	uint8_t *slot = slot_of(ud, node, mine->posted);
	struct ibv_sge sge = {.addr = (uintptr_t)slot, .lkey = world->nodes[node].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = mine->posted, .sg_list = &sge, .num_sge = 1}, *bad;

	*sent = (struct ud_message){
		.to = to < world->node_count ? to : UD_GROUP,
		.bytes = MARK_BYTES + (uint32_t)world_below(world, UD_BYTES_MAX + 1 - MARK_BYTES),
		.is_for_nobody = !world_below(world, 8),
		.has_imm = world_below(world, 2),
	};
	fill(slot, node, mine->posted, sent->bytes);
	sge.length = sent->bytes;
	wr.opcode = sent->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr.imm_data = mine->posted;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = mine->ahs[to];
	wr.wr.ud.remote_qpn = sent->to == UD_GROUP ? GROUP_QPN : ud->nodes[to].qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY + sent->is_for_nobody;
	if (ibv_post_send(mine->qp, &wr, &bad))
		return false;
	mine->posted++;
	return true;
}

static bool post_recv(struct ud *ud, int node)
{
	struct ud_node *mine = &ud->nodes[node];
	struct ibv_sge sge = {
		.addr = (uintptr_t)recv_slot(ud, node, mine->recvs_posted),
		.length = UD_RECV_BYTES,
		.lkey = ud->world->nodes[node].mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = mine->recvs_posted, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(mine->qp, &wr, &bad))
		return false;
	mine->recvs_posted++;
	return true;
}

bool ud_post(struct ud *ud, unsigned max)
{
	bool has_posted = false;

	for (int i = 0; ud->is_on && i < ud->world->node_count; i++) {
		struct ud_node *mine = &ud->nodes[i];
		unsigned n = max, receives = ud->is_lossless ? UD_RECVS : max;

		while (receives-- && mine->recvs_posted < UD_RECVS && post_recv(ud, i))
			has_posted = true;
		while (n-- && mine->posted < UD_SENDS && post_send(ud, i))
			has_posted = true;
	}
	return has_posted;
}

static void complain(struct ud *ud, const char *what)
{
	if (!ud->wrong)
		ud->wrong = what;
}

bool ud_sent(struct ud *ud, int node, const struct ibv_wc *wc)
{
	struct ud_node *mine = &ud->nodes[node];

	if (!ud->is_on || wc->qp_num != mine->qp->qp_num)
		return false;
	if (wc->wr_id != mine->completed++ || wc->status != IBV_WC_SUCCESS ||
	    wc->opcode != IBV_WC_SEND)
		complain(ud, "a datagram's send completed wrongly");
	/* The application reuses its buffer after the completion. */
	memset(slot_of(ud, node, (unsigned)wc->wr_id), 0xee, UD_BYTES_MAX);
	return true;
}

/* Whether the GRH has these addresses and the payload length of the packet that was sent. */
static bool has_grh_of(const uint8_t *bytes, const uint8_t *from_gid, const uint8_t *to_gid,
		       const struct ud_message *sent)
{
	size_t headers = BTH_BYTES + DETH_BYTES + (sent->has_imm ? IMM_BYTES : 0u) + ICRC_BYTES;
	struct grh grh;

	return !grh_parse(&grh, bytes) && !memcmp(grh.src_gid, from_gid, GID_BYTES) &&
	       !memcmp(grh.dst_gid, to_gid, GID_BYTES) && grh.hop_limit == HOP_LIMIT &&
	       grh.udp_payload_bytes == headers + sent->bytes + packet_pad_bytes(sent->bytes);
}

static bool is_for(const struct ud *ud, int node, const struct ud_message *sent)
{
	bool is_addressed = sent->to == UD_GROUP ? ud->nodes[node].is_member : sent->to == node;

	return is_addressed && !sent->is_for_nobody;
}

static const char *judge(struct ud *ud, int node, const struct ibv_wc *wc)
{
	const uint8_t *at = recv_slot(ud, node, wc->wr_id);
	uint32_t from = be_load32(at + GRH_BYTES), index = be_load32(at + GRH_BYTES + 4);
	uint8_t wanted[UD_BYTES_MAX];
	struct ud_message *sent;
	const uint8_t *to_gid;

	if (wc->byte_len < GRH_BYTES + MARK_BYTES || from >= (uint32_t)ud->world->node_count ||
	    index >= ud->nodes[from].posted)
		return "a datagram that was not sent";
	sent = &ud->nodes[from].sent[index];
	fill(wanted, (int)from, index, sent->bytes);
	if (wc->byte_len != GRH_BYTES + sent->bytes ||
	    memcmp(at + GRH_BYTES, wanted, sent->bytes) != 0)
		return "a datagram with other bytes";
	if (!is_for(ud, node, sent))
		return "a datagram for another QP";
	to_gid = sent->to == UD_GROUP ? ud->group.raw : ud->world->nodes[node].gid;
	if (wc->src_qp != ud->nodes[from].qp->qp_num ||
	    !has_grh_of(at, ud->world->nodes[from].gid, to_gid, sent))
		return "a datagram with a wrong sender";
	if (!(wc->wc_flags & IBV_WC_GRH) || sent->has_imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (sent->has_imm && wc->imm_data != index))
		return "a datagram with wrong words";
	if (sent->received[node]++ && !ud->may_repeat)
		return "a datagram that came twice";
	return NULL;
}

bool ud_received(struct ud *ud, int node, const struct ibv_wc *wc)
{
	struct ud_node *mine = &ud->nodes[node];
	const char *wrong;

	if (!ud->is_on || wc->qp_num != mine->qp->qp_num)
		return false;
	if (wc->wr_id != mine->recvs_done++ || wc->status != IBV_WC_SUCCESS) {
		complain(ud, "a datagram's receive completed wrongly");
		return true;
	}
	wrong = judge(ud, node, wc);
	if (wrong)
		complain(ud, wrong);
	ud->arrived++;
	return true;
}

bool ud_is_over(const struct ud *ud)
{
	for (int i = 0; ud->is_on && i < ud->world->node_count; i++) {
		if (ud->nodes[i].completed < UD_SENDS)
			return false;
	}
	return true;
}

/* Whether all intended receivers have the datagram; required on a network without losses. */
static bool is_everywhere(const struct ud *ud, const struct ud_message *sent)
{
	for (int i = 0; i < ud->world->node_count; i++) {
		if (is_for(ud, i, sent) && !sent->received[i])
			return false;
	}
	return true;
}

void ud_check_end(struct ud *ud)
{
	if (!ud_is_over(ud))
		complain(ud, "datagrams were never sent");
	for (int i = 0; ud->is_on && ud->is_lossless && i < ud->world->node_count; i++) {
		for (unsigned k = 0; k < ud->nodes[i].posted; k++) {
			if (!is_everywhere(ud, &ud->nodes[i].sent[k]))
				complain(ud, "a datagram was lost on the way");
		}
	}
}
