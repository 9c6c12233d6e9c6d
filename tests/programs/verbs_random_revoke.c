/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "verbs_random.h"

/*
 * The end of a round: one side, the victim, revokes the access of the other, which writes, reads
 * and adds without a pause. After the call has returned, the victim fills its memory with other
 * bytes, which must not change and must not be read.
 */

#define FLOOD_DEPTH 16u
#define FLOOD_INDEX 0xfffffdu

static bool vr_is_reliable(const struct vr_round *r)
{
	return r->plan.service != VR_UC;
}

static enum ibv_wr_opcode vr_flood_opcode(const struct vr_round *r, uint32_t index)
{
	uint32_t draw = (uint32_t)(vr_mix(r->plan.key ^ index) % 8);

	if (!vr_is_reliable(r) || draw < 5)
		return IBV_WR_RDMA_WRITE;
	return draw < 7 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint8_t *vr_flood_landing(const struct vr_round *r, uint32_t index)
{
	return r->memory + r->at.landing + index % FLOOD_DEPTH * r->stride;
}

static bool vr_post_flood(struct vr_round *r)
{
	uint32_t index = r->flood_posted;
	struct ibv_sge sge = {(uintptr_t)vr_flood_landing(r, index), r->plan.slot_bytes,
			      r->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = VR_ID_FLOOD | index,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = vr_flood_opcode(r, index),
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int err;

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = sizeof(uint64_t);
		wr.wr.atomic.remote_addr = r->peer.hello.base + r->at.counters;
		wr.wr.atomic.rkey = r->peer.hello.rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (wr.opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.remote_addr = r->peer.hello.base + r->at.source;
		wr.wr.rdma.rkey = r->peer.hello.rkey;
	} else {
		sge.addr = (uintptr_t)r->memory + r->at.send;
		wr.wr.rdma.remote_addr = r->peer.hello.base + index % r->plan.window * r->stride;
		wr.wr.rdma.rkey = r->peer.hello.rkey;
	}
	if (r->plan.service == VR_XRC)
		wr.qp_type.xrc.remote_srqn = r->peer.hello.srqn;
	VR_CALL(err, "ibv_post_send", ibv_post_send(r->send_qp, &wr, &bad));
	if (!err)
		r->flood_posted++;
	else if (err == ENOMEM)
		vr_call_repeats(r, "ibv_post_send", err);
	else
		vr_call_failed(r, "ibv_post_send", err);
	return !err;
}

void vr_take_flood(struct vr_round *r, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id;
	enum ibv_wr_opcode opcode = vr_flood_opcode(r, index);

	r->flood_done = index + 1;
	if (wc->status != IBV_WC_SUCCESS) {
		r->is_flood_refused = true;
		vr_error(r, wc, "send", "FLOOD");
		return;
	}
	if (vr_is_reliable(r) && r->is_revoked && index >= r->flood_limit)
		vr_fail(r,
			"operation %u (opcode %d) succeeded; operation %u was the first one "
			"after the revocation",
			index, opcode, r->flood_limit);
	if (opcode == IBV_WR_RDMA_READ)
		vr_expect(r, "READ before the revocation", !vr.side, VR_SOURCE, 0,
			  vr_flood_landing(r, index), r->plan.slot_bytes);
}

static bool vr_is_flood_over(const struct vr_round *r)
{
	if (r->is_flood_refused)
		return true;
	if (!r->is_revoked)
		return false;
	/*
	 * The end of a queue pair is reported after all retries only; the round does not wait for
	 * that.
	 */
	if (vr_is_reliable(r) && (r->plan.action == VR_DEREG || r->plan.action == VR_REREG))
		return false;
	return r->flood_posted >= r->flood_limit + FLOOD_DEPTH ||
	       r->flood_posted - r->flood_done >= FLOOD_DEPTH;
}

static bool vr_flood(struct vr_round *r)
{
	bool has_announced = false;

	vr_fill(&r->plan, vr.side, FLOOD_INDEX, r->memory + r->at.send, r->plan.slot_bytes);
	while (!vr_is_flood_over(r)) {
		bool is_posted = false;

		while (r->flood_posted - r->flood_done < FLOOD_DEPTH && !r->is_broken &&
		       vr_post_flood(r))
			is_posted = true;
		if (!has_announced && r->flood_posted) {
			has_announced = true;
			vr_send(r, VR_FLOODING, 0, 0);
		}
		if (!vr_pump(r, !is_posted))
			return false;
	}
	vr_send(r, VR_FLOOD_OVER, 0, 0);
	/* If the first operations were refused by an injected fault, the victim still revokes. */
	while (!r->is_revoked && vr_pump(r, true))
		;
	return r->is_revoked;
}

static void vr_rereg(struct vr_round *r)
{
	int err;

	if (r->mw)
		vr_dealloc_window(r);
	VR_CALL(err, "ibv_rereg_mr",
		ibv_rereg_mr(r->remote_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_LOCAL_WRITE));
	if (err)
		vr_call_failed(r, "ibv_rereg_mr", err);
}

static void vr_leave_rts(struct vr_round *r, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	struct ibv_qp *qps[2] = {r->send_qp, r->recv_qp};

	for (unsigned int i = 0; i < (r->send_qp == r->recv_qp ? 1 : 2); i++) {
		int err;

		VR_CALL(err, "ibv_modify_qp", ibv_modify_qp(qps[i], &attr, IBV_QP_STATE));
		if (err)
			vr_call_failed(r, "ibv_modify_qp", err);
	}
}

static bool vr_be_victim(struct vr_round *r)
{
	unsigned int turns = vr_roll(r, 400);

	while (!r->is_flooding && vr_pump(r, true))
		;
	while (turns-- && vr_pump(r, false))
		;
	if (r->is_broken || r->is_ended || vr.is_peer_gone)
		return false;
	switch (r->plan.action) {
	case VR_DEREG:
		vr_dereg_remote(r);
		break;
	case VR_REREG:
		vr_rereg(r);
		break;
	case VR_DESTROY_QP:
		vr_destroy_qps(r);
		break;
	case VR_TO_ERR:
		vr_leave_rts(r, IBV_QPS_ERR);
		break;
	default:
		vr_leave_rts(r, IBV_QPS_RESET);
	}
	if (r->is_broken)
		return false;
	memset(r->memory, VR_REVOKED, r->at.remote_end);
	vr_send(r, VR_REVOKED_NOW, 0, 0);
	while (!r->is_flood_over && vr_pump(r, true))
		;
	vr_expect_byte(r, "memory after the revocation", VR_REVOKED, r->memory, r->at.remote_end);
	atomic_fetch_add_explicit(&vr.tally->revocations, 1, memory_order_relaxed);
	return r->is_flood_over;
}

bool vr_revoke(struct vr_round *r)
{
	r->is_in_flood = true;
	return r->plan.victim == vr.side ? vr_be_victim(r) : vr_flood(r);
}
