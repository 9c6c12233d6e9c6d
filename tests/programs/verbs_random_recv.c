/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "verbs_random.h"

static uint8_t *vr_recv_slot(const struct vr_round *r, uint32_t slot)
{
	return r->memory + r->at.recv + slot * r->recv_stride;
}

static uint32_t vr_recv_bytes(const struct vr_round *r)
{
	return r->plan.slot_bytes + (r->plan.service == VR_UD ? VR_GRH_BYTES : 0);
}

static uint8_t *vr_target(const struct vr_round *r, uint32_t index)
{
	return r->memory + (index % r->plan.window) * r->stride;
}

/* A receive WR has one or two SGEs. Returns false after a failure of the call. */
bool vr_post_recv(struct vr_round *r, uint32_t slot)
{
	uint8_t *data = vr_recv_slot(r, slot);
	uint32_t bytes = vr_recv_bytes(r);
	uint32_t first = vr_roll(r, 2) ? bytes : VR_GRH_BYTES;
	struct ibv_sge sges[2] = {{(uintptr_t)data, first, r->mr->lkey},
				  {(uintptr_t)data + first, bytes - first, r->mr->lkey}};
	struct ibv_recv_wr wr = {
		.wr_id = VR_ID_RECV | slot, .sg_list = sges, .num_sge = first == bytes ? 1 : 2};
	struct ibv_recv_wr *bad;
	int err;

	memset(data, VR_FRESH, bytes);
	if (r->srq)
		VR_CALL(err, "ibv_post_srq_recv", ibv_post_srq_recv(r->srq, &wr, &bad));
	else
		VR_CALL(err, "ibv_post_recv", ibv_post_recv(r->recv_qp, &wr, &bad));
	if (err)
		vr_call_failed(r, r->srq ? "ibv_post_srq_recv" : "ibv_post_recv", err);
	return !err;
}

static uint32_t vr_index_of_imm(const struct vr_round *r, uint32_t imm)
{
	uint32_t index = ntohl(imm) & 0xffffff;

	if (index >= r->plan.ops || vr_imm_be(&r->plan, index) != imm)
		vr_fail(r, "immediate data 0x%08x is not that of a message", ntohl(imm));
	return index;
}

/* Which message has arrived. On a reliable service it is the next one that takes a receive WR. */
static uint32_t vr_index_of(struct vr_round *r, const struct ibv_wc *wc, const uint8_t *data)
{
	uint32_t index = r->in.next;
	uint64_t word;

	if (r->plan.service == VR_UC || r->plan.service == VR_UD) {
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			return vr_index_of_imm(r, wc->imm_data);
		memcpy(&word, data, sizeof(word));
		if ((word & 0xffffff) >= r->plan.ops)
			vr_fail(r, "a message of %u bytes begins with 0x%016llx", wc->byte_len,
				(unsigned long long)word);
		return (uint32_t)(word & 0xffffff);
	}
	while (index < r->plan.ops && !vr_takes_receive(vr_plan_op(&r->plan, !vr.side, index).kind))
		index++;
	if (index == r->plan.ops)
		vr_fail(r, "a message of %u bytes arrived after the last one", wc->byte_len);
	return index;
}

/*
 * A WRITE that was posted before a message is visible when the message arrives, and nothing after
 * its end was written.
 */
static void vr_check_write(const struct vr_round *r, uint32_t index)
{
	struct vr_op op = vr_plan_op(&r->plan, !vr.side, index);
	const uint8_t *data = vr_target(r, index);

	if (op.kind != VR_WRITE && op.kind != VR_WRITE_MW && op.kind != VR_WRITE_IMM)
		return;
	vr_expect(r, vr_kind_name(op.kind), !vr.side, index, 0, data, op.bytes);
	vr_expect_byte(r, "bytes after a slot", VR_FRESH, data + r->plan.slot_bytes,
		       VR_GUARD_BYTES);
}

static void vr_check_order(struct vr_round *r, uint32_t index)
{
	if (r->plan.service == VR_UD) {
		if (r->in.has_arrived[index])
			vr_line(r, "what=duplicate index=%u", index);
		r->in.has_arrived[index] = true;
		if (index >= r->in.next)
			r->in.next = index + 1;
		return;
	}
	if (index < r->in.next)
		vr_fail(r, "message %u arrived after message %u", index, r->in.next - 1);
	if (r->plan.service != VR_UC) {
		for (uint32_t i = r->in.next; i < index; i++)
			vr_check_write(r, i);
	}
	r->in.next = index + 1;
}

static void vr_check_completion(const struct vr_round *r, const struct vr_op *op,
				const struct ibv_wc *wc, uint32_t invalidated)
{
	bool is_write = op->kind == VR_WRITE_IMM;
	bool has_imm = is_write || op->kind == VR_SEND_IMM;
	uint32_t grh = r->plan.service == VR_UD ? VR_GRH_BYTES : 0;

	if (wc->qp_num != r->recv_qp->qp_num)
		vr_fail(r, "receive of queue pair 0x%x, not 0x%x", wc->qp_num, r->recv_qp->qp_num);
	if (wc->opcode != (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		vr_fail(r, "%s %u arrived with opcode %d", vr_kind_name(op->kind), op->index,
			wc->opcode);
	if (wc->byte_len != op->bytes + grh)
		vr_fail(r, "%s %u: expected %u bytes, seen %u", vr_kind_name(op->kind), op->index,
			op->bytes + grh, wc->byte_len);
	if (!(wc->wc_flags & IBV_WC_WITH_IMM) != !has_imm)
		vr_fail(r, "%s %u arrived with flags 0x%x", vr_kind_name(op->kind), op->index,
			wc->wc_flags);
	if (has_imm && wc->imm_data != vr_imm_be(&r->plan, op->index))
		vr_fail(r, "%s %u: expected immediate data 0x%08x, seen 0x%08x",
			vr_kind_name(op->kind), op->index, ntohl(vr_imm_be(&r->plan, op->index)),
			ntohl(wc->imm_data));
	if (grh && (!(wc->wc_flags & IBV_WC_GRH) || wc->src_qp != r->peer.hello.send_qpn))
		vr_fail(r, "datagram %u with flags 0x%x from queue pair 0x%x, not 0x%x", op->index,
			wc->wc_flags, wc->src_qp, r->peer.hello.send_qpn);
	if (!(wc->wc_flags & IBV_WC_WITH_INV) != (op->kind != VR_SEND_INV))
		vr_fail(r, "%s %u arrived with flags 0x%x", vr_kind_name(op->kind), op->index,
			wc->wc_flags);
	if (op->kind == VR_SEND_INV && invalidated != r->mw_rkey)
		vr_fail(r, "SEND_INV %u: expected rkey 0x%x, seen 0x%x", op->index, r->mw_rkey,
			invalidated);
}

static void vr_check_data(const struct vr_round *r, const struct vr_op *op, const uint8_t *buffer)
{
	const uint8_t *data = buffer + (r->plan.service == VR_UD ? VR_GRH_BYTES : 0);

	uint32_t used = op->kind == VR_WRITE_IMM ? 0 : op->bytes;

	/* A message of UC that is lost in part leaves its data in the buffer of the next one. */
	if (r->plan.service == VR_UC)
		used = r->plan.slot_bytes;
	vr_expect_byte(r, "bytes after a message", VR_FRESH, data + used,
		       r->plan.slot_bytes - used + VR_GUARD_BYTES);
	if (op->kind != VR_WRITE_IMM) {
		vr_expect(r, vr_kind_name(op->kind), !vr.side, op->index, 0, data, op->bytes);
		return;
	}
	/*
	 * A message that is later than VR_SKIPPED can be overwritten by the next one of its slot.
	 */
	if (op->index >= r->in.skipped)
		vr_check_write(r, op->index);
}

void vr_take_recv(struct vr_round *r, const struct ibv_wc *wc, uint32_t invalidated)
{
	uint32_t slot = (uint32_t)(wc->wr_id & ~VR_ID_RECV);
	const uint8_t *buffer;
	uint32_t index;
	struct vr_op op;

	if (wc->status != IBV_WC_SUCCESS) {
		vr_error(r, wc, "recv", "RECV");
		return;
	}
	if (r->is_broken || r->is_in_flood)
		return;
	if (slot >= r->plan.recv_wrs)
		vr_fail(r, "completion with wr_id 0x%llx", (unsigned long long)wc->wr_id);
	buffer = vr_recv_slot(r, slot);
	index = vr_index_of(r, wc, buffer + (r->plan.service == VR_UD ? VR_GRH_BYTES : 0));
	op = vr_plan_op(&r->plan, !vr.side, index);
	if (!vr_takes_receive(op.kind))
		vr_fail(r, "message %u has arrived, which takes no receive WR", index);
	vr_check_order(r, index);
	vr_check_completion(r, &op, wc, invalidated);
	vr_check_data(r, &op, buffer);
	r->in.received++;
	atomic_fetch_add_explicit(&vr.tally->receives, 1, memory_order_relaxed);
	vr_post_recv(r, slot);
	if (op.kind == VR_SEND_INV && !r->is_broken) {
		r->is_mw_bound = false;
		vr_bind_window(r);
	}
	vr_acknowledge(r, false);
}

void vr_acknowledge(struct vr_round *r, bool is_idle)
{
	if (r->in.next == r->in.acked)
		return;
	if (!is_idle && r->in.next - r->in.acked < r->plan.window / 4)
		return;
	r->in.acked = r->in.next;
	vr_send(r, VR_ACK, r->in.acked, 0);
}

/* After all messages of the peer. */
void vr_check_memory(struct vr_round *r)
{
	bool is_reliable = r->plan.service != VR_UC && r->plan.service != VR_UD;

	vr_expect(r, "source area", vr.side, VR_SOURCE, 0, r->memory + r->at.source,
		  r->plan.slot_bytes);
	vr_expect_byte(r, "bytes after the source area", VR_FRESH,
		       r->memory + r->at.source + r->plan.slot_bytes, VR_GUARD_BYTES);
	vr_expect_byte(r, "bytes after the counters", VR_FRESH, r->memory + r->at.remote_end,
		       VR_GUARD_BYTES);
	for (uint32_t slot = 0; slot < r->plan.window; slot++)
		vr_expect_any(r, !vr.side, slot, vr_target(r, slot), r->plan.slot_bytes);
	for (unsigned int i = 0; is_reliable && i < VR_COUNTERS; i++) {
		uint64_t value;

		memcpy(&value, r->memory + r->at.counters + i * sizeof(value), sizeof(value));
		if (value != r->in.counters[i])
			vr_fail(r, "counter %u: expected 0x%016llx, seen 0x%016llx", i,
				(unsigned long long)r->in.counters[i], (unsigned long long)value);
	}
}
