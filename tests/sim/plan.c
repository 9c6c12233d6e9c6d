/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

/* Chooses the operations of a flow before it starts. */

#include <stdlib.h>
#include <string.h>

static uint64_t below(struct flow *flow, uint64_t n)
{
	return world_below(flow->world, n);
}

uint8_t *flow_slot(const struct flow *flow, const struct op *op)
{
	return flow->from->buf + flow->from_base + op->slot_offset;
}

/* Prefers lengths near packet boundaries. */
static uint32_t some_length(struct flow *flow)
{
	uint32_t mtu = flow->mtu_bytes;
	uint64_t length;

	if (flow->has_lists && !flow->has_lists_of_reads && below(flow, 2))
		return 16;
	switch (below(flow, 6)) {
	case 0:
		return (uint32_t)below(flow, 9);
	case 1:
		return (uint32_t)below(flow, 65);
	case 2:
		length = mtu - 2 + below(flow, 5);
		break;
	case 3:
		length = mtu * (1 + below(flow, 4)) - 2 + below(flow, 5);
		break;
	default:
		length = below(flow, FLOW_OP_BYTES);
		break;
	}
	return (uint32_t)(length < FLOW_OP_BYTES ? length : FLOW_OP_BYTES);
}

static enum ibv_wr_opcode some_opcode(struct flow *flow)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_WRITE,
		IBV_WR_FLUSH,
	};

	if (flow->has_lists && below(flow, 8)) {
		if (flow->has_lists_of_reads)
			return IBV_WR_RDMA_READ;
		return below(flow, 2) ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
	}
	/* A FLUSH cannot be part of a list. */
	if (flow->qp->qp_type == IBV_QPT_RC)
		return opcodes[below(flow, flow->has_lists ? 9 : 10)];
	return opcodes[below(flow, flow->is_rc ? 8 : 4)];
}

/* The consumer chooses the low 8 bits of the rkey of a type 2 memory window. */
#define RKEY_LOW 0xffu

static uint32_t window_rkey(struct flow *flow, const struct ibv_mw *mw)
{
	return (mw->rkey & ~RKEY_LOW) | (uint32_t)below(flow, RKEY_LOW + 1);
}

static struct ibv_send_wr bind_wr(const struct world_node *node, struct ibv_mw *mw, uint32_t rkey,
				  size_t base)
{
	return (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = mw,
			    .rkey = rkey,
			    .bind_info = {.mr = node->mr,
					  .addr = (uintptr_t)node->buf + base,
					  .length = FLOW_RC_BYTES,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ |
							     IBV_ACCESS_REMOTE_ATOMIC}},
	};
}

/* The receiver also exposes its target through a memory window. */
static void open_target(struct flow *flow)
{
	struct ibv_mw *mw = ibv_alloc_mw(flow->to->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr, *bad;

	if (!mw)
		abort();
	flow->target_rkey = window_rkey(flow, mw);
	wr = bind_wr(flow->to, mw, flow->target_rkey, flow->target_base);
	wr.wr_id = FLOW_BIND_WR;
	if (ibv_post_send(flow->peer_qp, &wr, &bad))
		abort();
	flow->target_window = mw;
}

/*
 * Alternately binds and invalidates a window of the sender; these operations do not involve the
 * peer.
 */
static void choose_local(struct flow *flow, struct op *op)
{
	unsigned flags = op->wr.send_flags & IBV_SEND_SIGNALED;

	if (!flow->own_window)
		flow->own_window = ibv_alloc_mw(flow->from->pd, IBV_MW_TYPE_2);
	if (!flow->own_window)
		abort();
	if (flow->own_rkey) {
		op->wr = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV,
					      .invalidate_rkey = flow->own_rkey};
		flow->own_rkey = 0;
	} else {
		flow->own_rkey = window_rkey(flow, flow->own_window);
		op->wr = bind_wr(flow->from, flow->own_window, flow->own_rkey, flow->from_base);
	}
	op->wr.send_flags = flags;
}

void flow_lose_windows(struct flow *flow, const struct world_node *node)
{
	if (flow->own_window && (!node || flow->from == node)) {
		if (ibv_dealloc_mw(flow->own_window))
			abort();
		flow->own_window = NULL;
	}
	if (flow->target_window && (!node || flow->to == node)) {
		if (ibv_dealloc_mw(flow->target_window))
			abort();
		flow->target_window = NULL;
	}
}

/* Describes [base, base + length) of a node's memory with up to three SGEs. */
int flow_cut_up(struct flow *flow, struct ibv_sge *sge, struct world_node *node, size_t base,
		uint32_t length)
{
	int pieces = 1 + (int)below(flow, 3);
	uint32_t at = 0;

	for (int i = 0; i < pieces; i++) {
		uint32_t rest = length - at;
		uint32_t take = i == pieces - 1 ? rest : (uint32_t)below(flow, rest + 1);

		sge[i].addr = (uintptr_t)node->buf + base + at;
		sge[i].length = take;
		sge[i].lkey = node->mr->lkey;
		at += take;
	}
	return pieces;
}

static uint32_t some_rkey(struct flow *flow)
{
	return flow->target_window && below(flow, 2) ? flow->target_rkey : flow->to->mr->rkey;
}

static void choose_atomic(struct flow *flow, struct op *op)
{
	uint8_t *word = flow->shadow + op->target_offset;
	uint64_t old, now;

	memcpy(&old, word, sizeof(old));
	op->wr.wr.atomic.remote_addr = (uintptr_t)flow->to->buf + flow->target_base +
				       op->target_offset;
	op->wr.wr.atomic.rkey = some_rkey(flow);
	op->wr.wr.atomic.compare_add = below(flow, 2) ? old : world_random(flow->world);
	op->wr.wr.atomic.swap = world_random(flow->world);
	if (op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		now = old + op->wr.wr.atomic.compare_add;
	else
		now = old == op->wr.wr.atomic.compare_add ? op->wr.wr.atomic.swap : old;
	memcpy(op->expect, &old, sizeof(old));
	memcpy(word, &now, sizeof(now));
}

/* Chooses the target of an operation and applies the operation to the shadow, in posting order. */
static void choose_target(struct flow *flow, struct op *op, unsigned index)
{
	if (op_is_atomic(op)) {
		op->length = sizeof(uint64_t);
		op->target_offset = 8 * (uint32_t)below(flow, flow->shadow_bytes / 8);
		choose_atomic(flow, op);
		return;
	}
	if (op->wr.opcode == IBV_WR_ATOMIC_WRITE)
		op->target_offset = 8 * (uint32_t)below(flow, flow->shadow_bytes / 8);
	else if (flow->is_rc)
		op->target_offset = (uint32_t)below(flow, flow->shadow_bytes - op->length + 1);
	else
		op->target_offset = index * FLOW_OP_BYTES;
	op->wr.wr.rdma.remote_addr = (uintptr_t)flow->to->buf + flow->target_base +
				     op->target_offset;
	op->wr.wr.rdma.rkey = some_rkey(flow);
	if (op_is_write(op))
		memcpy(flow->shadow + op->target_offset, flow_slot(flow, op), op->length);
	else if (op->wr.opcode == IBV_WR_RDMA_READ)
		memcpy(op->expect, flow->shadow + op->target_offset, op->length);
}

static void fill_slot(struct flow *flow, const struct op *op)
{
	uint8_t *slot = flow_slot(flow, op);
	uint64_t word = world_random(flow->world) | 1;

	for (uint32_t i = 0; i < op->length; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		/* Never 0, so that unwritten memory is detected. */
		slot[i] = (uint8_t)(word >> 56) | 1;
	}
	memcpy(op->expect, slot, op->length);
}

/*
 * The last operation invalidates the window. The fence waits for preceding READs and atomics (IBA
 * 1.x §10.8.3.3).
 */
static void choose_invalidation(struct flow *flow, struct op *op)
{
	op->wr.opcode = IBV_WR_SEND_WITH_INV;
	op->wr.invalidate_rkey = flow->target_rkey;
	op->wr.send_flags |= IBV_SEND_FENCE;
}

static void choose_op(struct flow *flow, unsigned index, bool *has_open_read)
{
	struct op *op = &flow->ops[index];
	bool is_last = index + 1 == flow->op_count;

	op->expect = calloc(1, FLOW_OP_BYTES);
	op->slot_offset = index * FLOW_OP_BYTES;
	op->length = some_length(flow);
	op->wr.wr_id = index;
	op->wr.opcode = some_opcode(flow);
	op->wr.imm_data = index;
	op->is_signaled = is_last || below(flow, 3);
	if (flow->qp->qp_type == IBV_QPT_RC && !below(flow, 10)) {
		op->length = 0;
		op->wr.send_flags = op->is_signaled ? IBV_SEND_SIGNALED : 0u;
		choose_local(flow, op);
		op->wr.wr_id = index;
		return;
	}
	if (is_last && flow->target_window && below(flow, 2))
		choose_invalidation(flow, op);
	if (op->wr.opcode == IBV_WR_ATOMIC_WRITE)
		op->length = sizeof(uint64_t);
	if (op->wr.opcode == IBV_WR_FLUSH)
		op->length = 0;
	fill_slot(flow, op);
	choose_target(flow, op, index);
	op->takes_recv = op_is_send(op) || op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	op->wr.qp_type.xrc.remote_srqn = flow->to->xrc_srqn;
	/*
	 * Only a fence orders a write or atomic after a preceding READ of the same memory (IBA 1.x
	 * §10.8.3.3).
	 */
	if (*has_open_read && (op_is_write(op) || op_is_atomic(op) || !below(flow, 4))) {
		op->wr.send_flags |= IBV_SEND_FENCE;
		*has_open_read = false;
	}
	if (op->wr.opcode == IBV_WR_RDMA_READ)
		*has_open_read = true;
	if (op->is_signaled)
		op->wr.send_flags |= IBV_SEND_SIGNALED;
	if (op->length <= 64 && (op_is_send(op) || op_is_write(op)) && below(flow, 2))
		op->wr.send_flags |= IBV_SEND_INLINE;
	op->wr.sg_list = op->sge;
	op->wr.num_sge = flow_cut_up(flow, op->sge, flow->from, flow->from_base + op->slot_offset,
				     op->length);
}

/* Makes the last operation invalid. It does not change the shadow. */
static void spoil_last(struct flow *flow)
{
	struct op *op = &flow->ops[flow->op_count - 1];
	struct ibv_send_wr *wr = &op->wr;

	op->length = 1 + (uint32_t)below(flow, 4000);
	wr->opcode = IBV_WR_RDMA_WRITE;
	/*
	 * Without a fence, responses to preceding READs may be in flight or lost when it is
	 * rejected.
	 */
	wr->send_flags = IBV_SEND_SIGNALED | (below(flow, 2) ? IBV_SEND_FENCE : 0);
	wr->wr.rdma.remote_addr = (uintptr_t)flow->to->buf + flow->target_base;
	wr->wr.rdma.rkey = flow->to->mr->rkey;
	wr->num_sge = flow_cut_up(flow, op->sge, flow->from, flow->from_base + op->slot_offset,
				  op->length);
	switch (flow->fault) {
	case FAULT_READ_RKEY:
		wr->opcode = IBV_WR_RDMA_READ;
		/* fall through */
	case FAULT_RKEY:
		wr->wr.rdma.rkey ^= 0x5a5a5a;
		break;
	case FAULT_BOUNDS:
		wr->wr.rdma.remote_addr = (uintptr_t)flow->to->buf + flow->to->buf_bytes - 1;
		op->length = 2;
		wr->num_sge = 1;
		op->sge[0].length = 2;
		break;
	case FAULT_READ_LKEY:
		wr->opcode = IBV_WR_RDMA_READ;
		/* fall through */
	case FAULT_LKEY:
		wr->num_sge = 1;
		op->sge[0].length = op->length;
		op->sge[0].lkey ^= 0x5a5a5a;
		break;
	case FAULT_ALIGN:
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		op->length = 8;
		wr->num_sge = 1;
		op->sge[0].length = 8;
		wr->wr.atomic.remote_addr = (uintptr_t)flow->to->buf + flow->target_base + 4;
		wr->wr.atomic.compare_add = 1;
		wr->wr.atomic.rkey = flow->to->mr->rkey;
		break;
	case FAULT_INVALIDATE:
		wr->opcode = IBV_WR_SEND_WITH_INV;
		wr->invalidate_rkey = flow->to->mr->rkey;
		break;
	default: /* FAULT_TOO_LONG, FAULT_BAD_RECV, FAULT_NO_RECV: the receive causes the error */
		wr->opcode = IBV_WR_SEND;
		break;
	}
	op->takes_recv = op_is_send(op);
	op->is_signaled = true;
}

void flow_open(struct flow *flow, unsigned op_count)
{
	bool has_open_read = false;

	flow->op_count = op_count;
	flow->shadow_bytes = flow->is_rc ? FLOW_RC_BYTES : FLOW_UC_BYTES;
	flow->shadow = calloc(1, flow->shadow_bytes);
	if (flow->qp->qp_type == IBV_QPT_RC && below(flow, 2))
		open_target(flow);
	for (unsigned i = 0; i < op_count; i++) {
		if (flow->fault != FAULT_NONE && i + 1 == op_count) {
			flow->ops[i].expect = calloc(1, FLOW_OP_BYTES);
			flow->ops[i].slot_offset = i * FLOW_OP_BYTES;
			flow->ops[i].wr.wr_id = i;
			flow->ops[i].wr.sg_list = flow->ops[i].sge;
			spoil_last(flow);
			fill_slot(flow, &flow->ops[i]);
		} else {
			choose_op(flow, i, &has_open_read);
		}
		flow->recv_total += flow->ops[i].takes_recv;
	}
}

void flow_close(struct flow *flow)
{
	for (unsigned i = 0; i < flow->op_count; i++)
		free(flow->ops[i].expect);
	free(flow->shadow);
}
