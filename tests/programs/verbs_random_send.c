/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "verbs_random.h"

static bool vr_is_write(enum vr_kind kind)
{
	return kind == VR_WRITE || kind == VR_WRITE_MW || kind == VR_WRITE_IMM;
}

static bool vr_is_reliable(const struct vr_round *r)
{
	return r->plan.service != VR_UC && r->plan.service != VR_UD;
}

/* The operation's part of the own memory: data to send, or the place where data arrives. */
static uint8_t *vr_local(const struct vr_round *r, const struct vr_op *op)
{
	size_t area = op->kind >= VR_READ ? r->at.landing : r->at.send;

	return r->memory + area + (op->index % r->plan.window) * r->stride;
}

static uint64_t vr_remote_addr(const struct vr_round *r, const struct vr_op *op)
{
	uint64_t base = r->peer.hello.base;

	switch (op->kind) {
	case VR_READ:
		return base + r->at.source + op->offset;
	case VR_READ_BACK:
		return base + (op->source % r->plan.window) * r->stride;
	case VR_FETCH_ADD:
	case VR_CMP_SWAP:
		return base + r->at.counters + op->counter * sizeof(uint64_t);
	default:
		return base + (op->index % r->plan.window) * r->stride;
	}
}

static uint32_t vr_rkey(const struct vr_round *r, const struct vr_op *op)
{
	return op->kind == VR_WRITE_MW ? r->out.grant_rkey : r->peer.hello.rkey;
}

static void vr_split(const struct vr_round *r, const struct vr_op *op, struct ibv_sge *sges)
{
	uint8_t *data = vr_local(r, op);
	uint32_t left = op->bytes;

	for (unsigned int i = 0; i < op->sges; i++) {
		uint32_t part = i + 1 == op->sges ? left : left / 2;

		sges[i] = (struct ibv_sge){(uintptr_t)data, part, r->mr->lkey};
		data += part;
		left -= part;
	}
}

/* The value that the operation compares with, and the peer's counter after it. */
static uint64_t vr_execute_atomic(struct vr_round *r, const struct vr_op *op)
{
	uint64_t *counter = &r->out.counters[op->counter];
	uint64_t old = *counter;
	uint64_t compare = op->is_match ? old : ~old;

	r->out.ring[op->index % r->plan.window].old = old;
	if (op->kind == VR_FETCH_ADD)
		*counter += op->add;
	else if (op->is_match)
		*counter = op->add;
	return compare;
}

static bool vr_has_room(const struct vr_round *r, uint32_t index)
{
	const struct vr_out *out = &r->out;

	if (index >= r->plan.ops || index - out->acked >= r->plan.window ||
	    index - out->retired >= r->plan.window - 4)
		return false;
	switch (vr_plan_op(&r->plan, vr.side, index).kind) {
	case VR_WRITE_MW:
	case VR_SEND_INV:
		return out->grants > out->grants_used;
	default:
		return true;
	}
}

/* An operation that is ready to be posted. */
struct vr_wr {
	struct vr_op op;
	struct ibv_sge sges[VR_SGES];
	unsigned int flags;
	uint64_t compare;
};

static void vr_prepare(struct vr_round *r, struct vr_wr *wr, uint32_t index)
{
	struct vr_op op = vr_plan_op(&r->plan, vr.side, index);
	bool is_signaled = op.is_signaled || index + 1 == r->plan.ops || op.kind == VR_SEND_INV ||
			   r->out.unsignaled + 1 >= r->plan.window / 4;

	wr->op = op;
	wr->flags = (is_signaled ? IBV_SEND_SIGNALED : 0) | (op.is_inline ? IBV_SEND_INLINE : 0) |
		    (op.index % 5 ? 0 : IBV_SEND_SOLICITED);
	r->out.unsignaled = is_signaled ? 0 : r->out.unsignaled + 1;
	r->out.ring[index % r->plan.window].is_signaled = is_signaled || r->plan.is_all_signaled;
	wr->compare = 0;
	if (op.kind == VR_FETCH_ADD || op.kind == VR_CMP_SWAP)
		wr->compare = vr_execute_atomic(r, &op);
	vr_split(r, &op, wr->sges);
	if (op.kind < VR_READ)
		vr_fill(&r->plan, vr.side, index, vr_local(r, &op), op.bytes);
	else
		memset(vr_local(r, &op), VR_FRESH, op.bytes);
}

static void vr_make_wr(const struct vr_round *r, const struct vr_wr *from, struct ibv_send_wr *wr)
{
	static const enum ibv_wr_opcode opcodes[VR_KINDS] = {
		[VR_SEND] = IBV_WR_SEND,
		[VR_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[VR_SEND_INV] = IBV_WR_SEND_WITH_INV,
		[VR_WRITE] = IBV_WR_RDMA_WRITE,
		[VR_WRITE_MW] = IBV_WR_RDMA_WRITE,
		[VR_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[VR_READ] = IBV_WR_RDMA_READ,
		[VR_READ_BACK] = IBV_WR_RDMA_READ,
		[VR_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[VR_CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	const struct vr_op *op = &from->op;

	*wr = (struct ibv_send_wr){
		.wr_id = op->index,
		.sg_list = (struct ibv_sge *)from->sges,
		.num_sge = (int)op->sges,
		.opcode = opcodes[op->kind],
		.send_flags = from->flags,
	};
	if (op->kind == VR_SEND_INV)
		wr->invalidate_rkey = r->out.grant_rkey;
	else
		wr->imm_data = vr_imm_be(&r->plan, op->index);
	if (op->kind == VR_FETCH_ADD || op->kind == VR_CMP_SWAP) {
		wr->wr.atomic.remote_addr = vr_remote_addr(r, op);
		wr->wr.atomic.rkey = vr_rkey(r, op);
		wr->wr.atomic.compare_add = op->kind == VR_FETCH_ADD ? op->add : from->compare;
		wr->wr.atomic.swap = op->add;
	} else if (r->plan.service == VR_UD) {
		wr->wr.ud.ah = r->ah;
		wr->wr.ud.remote_qpn = r->peer.hello.recv_qpn;
		wr->wr.ud.remote_qkey = r->plan.qkey;
	} else {
		wr->wr.rdma.remote_addr = vr_remote_addr(r, op);
		wr->wr.rdma.rkey = vr_rkey(r, op);
	}
	if (r->plan.service == VR_XRC)
		wr->qp_type.xrc.remote_srqn = r->peer.hello.srqn;
}

/* Returns how many were posted. */
static unsigned int vr_post_list(struct vr_round *r, struct vr_wr *batch, unsigned int count)
{
	struct ibv_send_wr wrs[VR_BATCH], *bad = NULL;
	int err;

	for (unsigned int i = 0; i < count; i++) {
		vr_make_wr(r, &batch[i], &wrs[i]);
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
	}
	VR_CALL(err, "ibv_post_send", ibv_post_send(r->send_qp, wrs, &bad));
	if (!err)
		return count;
	vr_call_repeats(r, "ibv_post_send", err);
	return bad ? (unsigned int)(bad - wrs) : 0;
}

static void vr_build(struct vr_round *r, struct ibv_qp_ex *qp, const struct vr_wr *from)
{
	const struct vr_op *op = &from->op;
	uint64_t addr = vr_remote_addr(r, op);
	uint32_t rkey = vr_rkey(r, op);
	uint32_t imm = vr_imm_be(&r->plan, op->index);

	qp->wr_id = op->index;
	qp->wr_flags = from->flags & ~(unsigned int)IBV_SEND_INLINE;
	if (op->kind == VR_SEND)
		ibv_wr_send(qp);
	else if (op->kind == VR_SEND_IMM)
		ibv_wr_send_imm(qp, imm);
	else if (op->kind == VR_SEND_INV)
		ibv_wr_send_inv(qp, r->out.grant_rkey);
	else if (op->kind == VR_WRITE_IMM)
		ibv_wr_rdma_write_imm(qp, rkey, addr, imm);
	else if (vr_is_write(op->kind))
		ibv_wr_rdma_write(qp, rkey, addr);
	else if (op->kind == VR_FETCH_ADD)
		ibv_wr_atomic_fetch_add(qp, rkey, addr, op->add);
	else if (op->kind == VR_CMP_SWAP)
		ibv_wr_atomic_cmp_swp(qp, rkey, addr, from->compare, op->add);
	else
		ibv_wr_rdma_read(qp, rkey, addr);
	if (r->plan.service == VR_UD)
		ibv_wr_set_ud_addr(qp, r->ah, r->peer.hello.recv_qpn, r->plan.qkey);
	if (r->plan.service == VR_XRC)
		ibv_wr_set_xrc_srqn(qp, r->peer.hello.srqn);
	if (from->flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)from->sges[0].addr, op->bytes);
	else
		ibv_wr_set_sge_list(qp, op->sges, from->sges);
}

static unsigned int vr_post_built(struct vr_round *r, struct vr_wr *batch, unsigned int count)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(r->send_qp);
	int err;

	ibv_wr_start(qp);
	for (unsigned int i = 0; i < count; i++)
		vr_build(r, qp, &batch[i]);
	VR_CALL(err, "ibv_wr_complete", ibv_wr_complete(qp));
	if (!err)
		return count;
	vr_call_repeats(r, "ibv_wr_complete", err);
	return 0;
}

static void vr_count(const struct vr_op *op)
{
	if (op->kind == VR_SEND_INV)
		atomic_fetch_add_explicit(&vr.tally->invalidations, 1, memory_order_relaxed);
	if (vr_is_write(op->kind))
		atomic_fetch_add_explicit(&vr.tally->writes, 1, memory_order_relaxed);
	else if (op->kind < VR_READ)
		atomic_fetch_add_explicit(&vr.tally->sends, 1, memory_order_relaxed);
}

/* The data of inline operations is not read after the call. */
static void vr_posted(struct vr_round *r, const struct vr_op *op)
{
	r->out.posted = op->index + 1;
	if (op->kind == VR_SEND_INV)
		r->out.grants_used++;
	if (op->is_inline)
		memset(vr_local(r, op), 0xee, op->bytes);
	vr_count(op);
}

/*
 * Operations that the call has refused are prepared again later; their effects on the expected
 * counters are undone.
 */
static void vr_take_back(struct vr_round *r, const struct vr_wr *batch, unsigned int from,
			 unsigned int count, uint32_t unsignaled)
{
	for (unsigned int i = count; i-- > from;) {
		const struct vr_op *op = &batch[i].op;

		if (op->kind == VR_FETCH_ADD || op->kind == VR_CMP_SWAP)
			r->out.counters[op->counter] = r->out.ring[op->index % r->plan.window].old;
	}
	r->out.unsignaled = unsignaled;
	for (unsigned int i = 0; i < from; i++)
		r->out.unsignaled = batch[i].flags & IBV_SEND_SIGNALED ? 0 : r->out.unsignaled + 1;
}

bool vr_post_some(struct vr_round *r)
{
	struct vr_wr batch[VR_BATCH];
	uint32_t unsignaled = r->out.unsignaled;
	unsigned int most = 1 + vr_roll(r, VR_BATCH);
	unsigned int count = 0, posted;

	while (count < most && vr_has_room(r, r->out.posted + count)) {
		vr_prepare(r, &batch[count], r->out.posted + count);
		/* The key of the window changes with the next grant. */
		if (batch[count++].op.kind == VR_SEND_INV)
			break;
	}
	if (!count)
		return false;
	posted = vr_roll(r, 2) ? vr_post_list(r, batch, count) : vr_post_built(r, batch, count);
	for (unsigned int i = 0; i < posted; i++)
		vr_posted(r, &batch[i].op);
	if (posted < count)
		vr_take_back(r, batch, posted, count, unsignaled);
	if (r->out.posted == r->plan.ops && !r->out.is_done) {
		struct vr_message message = {.type = VR_DONE};

		memcpy(message.counters, r->out.counters, sizeof(message.counters));
		vr_send_message(r, &message);
		r->out.is_done = true;
	}
	return posted;
}

void vr_bind_window(struct vr_round *r)
{
	struct ibv_mw_bind_info info = {
		.mr = r->remote_mr,
		.addr = (uintptr_t)r->memory,
		.length = r->at.source,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_send_wr wr = {
		.wr_id = VR_ID_BIND,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = r->mw, .rkey = ibv_inc_rkey(r->mw_rkey), .bind_info = info},
	};
	struct ibv_send_wr *bad;
	int err;

	VR_CALL(err, "ibv_post_send", ibv_post_send(r->send_qp, &wr, &bad));
	if (err)
		vr_call_failed(r, "ibv_post_send", err);
	else
		r->mw_rkey = wr.bind_mw.rkey;
}

void vr_error(struct vr_round *r, const struct ibv_wc *wc, const char *queue, const char *op)
{
	bool is_flush = wc->status == IBV_WC_WR_FLUSH_ERR;

	/* A queue pair in the error state flushes all that is queued. */
	if (r->has_error && is_flush)
		return;
	r->has_error = true;
	vr_line(r, "what=%s status=%d vendor=%u op=%s wr_id=%llu posted=%u retired=%u", queue,
		wc->status, wc->vendor_err, op, (unsigned long long)wc->wr_id, r->out.posted,
		r->out.retired);
	r->is_broken = r->is_broken || !r->is_in_flood;
}

static void vr_retire(struct vr_round *r, uint32_t index)
{
	struct vr_op op = vr_plan_op(&r->plan, vr.side, index);
	const uint8_t *data = vr_local(r, &op);
	uint64_t old;

	switch (op.kind) {
	case VR_READ:
		vr_expect(r, "READ", !vr.side, VR_SOURCE, op.offset, data, op.bytes);
		break;
	case VR_READ_BACK:
		vr_expect(r, "READ of a written slot", vr.side, op.source, 0, data, op.bytes);
		break;
	case VR_FETCH_ADD:
	case VR_CMP_SWAP:
		memcpy(&old, data, sizeof(old));
		if (old != r->out.ring[index % r->plan.window].old)
			vr_fail(r, "%s %u of counter %u: expected 0x%016llx, seen 0x%016llx",
				vr_kind_name(op.kind), index, op.counter,
				(unsigned long long)r->out.ring[index % r->plan.window].old,
				(unsigned long long)old);
		atomic_fetch_add_explicit(&vr.tally->atomics, 1, memory_order_relaxed);
		return;
	default:
		return;
	}
	atomic_fetch_add_explicit(&vr.tally->reads, 1, memory_order_relaxed);
}

static enum ibv_wc_opcode vr_wc_opcode(enum vr_kind kind)
{
	if (vr_is_write(kind))
		return IBV_WC_RDMA_WRITE;
	if (kind < VR_READ)
		return IBV_WC_SEND;
	if (kind == VR_FETCH_ADD)
		return IBV_WC_FETCH_ADD;
	return kind == VR_CMP_SWAP ? IBV_WC_COMP_SWAP : IBV_WC_RDMA_READ;
}

static void vr_take_bind(struct vr_round *r, const struct ibv_wc *wc)
{
	if (wc->opcode != IBV_WC_BIND_MW)
		vr_fail(r, "completion of a bind with opcode %d", wc->opcode);
	r->is_mw_bound = true;
	vr_send(r, VR_GRANT, ++r->mw_number, r->mw_rkey);
}

void vr_take_send(struct vr_round *r, const struct ibv_wc *wc)
{
	struct vr_op op;
	uint32_t index = (uint32_t)wc->wr_id;
	uint32_t due = r->out.retired;

	if (wc->status != IBV_WC_SUCCESS) {
		r->has_send_error = true;
		vr_error(r, wc, "send",
			 wc->wr_id & VR_ID_BIND ?
				 "BIND" :
				 vr_kind_name(vr_plan_op(&r->plan, vr.side, index).kind));
		return;
	}
	if (r->is_in_flood)
		return;
	if (wc->qp_num != r->send_qp->qp_num)
		vr_fail(r, "completion of queue pair 0x%x, not 0x%x", wc->qp_num,
			r->send_qp->qp_num);
	if (wc->wr_id & VR_ID_BIND) {
		vr_take_bind(r, wc);
		return;
	}
	while (due < r->out.posted && !r->out.ring[due % r->plan.window].is_signaled)
		due++;
	/* All that follows an error in a send queue is flushed. */
	if (r->has_send_error && !r->is_broken_order)
		vr_line(r, "what=send-after-error wr_id=%u", index);
	r->is_broken_order = r->has_send_error;
	if (r->is_broken)
		return;
	if (index < due || index >= r->out.posted)
		vr_fail(r, "completion of operation %u, expected %u; %u were posted", index, due,
			r->out.posted);
	if (index > due)
		vr_line(r, "what=gap wr_id=%u expected=%u", index, due);
	op = vr_plan_op(&r->plan, vr.side, index);
	if (wc->opcode != vr_wc_opcode(op.kind))
		vr_fail(r, "completion of %s %u with opcode %d", vr_kind_name(op.kind), index,
			wc->opcode);
	for (uint32_t i = r->out.retired; vr_is_reliable(r) && i <= index; i++)
		vr_retire(r, i);
	r->out.retired = index + 1;
}
