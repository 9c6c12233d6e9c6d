/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void complain(struct flow *flow, unsigned op, const char *what)
{
	if (flow->wrong)
		return;
	flow->wrong = what;
	flow->wrong_op = op;
}

static uint64_t below(struct flow *flow, uint64_t n)
{
	return world_below(flow->world, n);
}

static uint8_t *slot_of(const struct flow *flow, const struct op *op)
{
	return flow->from->buf + flow->from_base + op->slot_offset;
}

/* Around the lengths at which packets begin and end. */
static uint32_t some_length(struct flow *flow)
{
	uint32_t mtu = flow->mtu_bytes;
	uint64_t length;

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
	};

	return opcodes[below(flow, flow->is_rc ? 8 : 4)];
}

static bool is_atomic(const struct op *op)
{
	return op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static bool is_write(const struct op *op)
{
	return op->wr.opcode == IBV_WR_RDMA_WRITE || op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(const struct op *op)
{
	return op->wr.opcode == IBV_WR_SEND || op->wr.opcode == IBV_WR_SEND_WITH_IMM ||
	       op->wr.opcode == IBV_WR_SEND_WITH_INV;
}

/* [base, base + length) of a node's memory in up to three pieces. */
static int cut_up(struct flow *flow, struct ibv_sge *sge, struct world_node *node, size_t base,
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

static void choose_atomic(struct flow *flow, struct op *op)
{
	uint8_t *word = flow->shadow + op->target_offset;
	uint64_t old, now;

	memcpy(&old, word, sizeof(old));
	op->wr.wr.atomic.remote_addr = (uintptr_t)flow->to->buf + flow->target_base +
				       op->target_offset;
	op->wr.wr.atomic.rkey = flow->to->mr->rkey;
	op->wr.wr.atomic.compare_add = below(flow, 2) ? old : world_random(flow->world);
	op->wr.wr.atomic.swap = world_random(flow->world);
	if (op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		now = old + op->wr.wr.atomic.compare_add;
	else
		now = old == op->wr.wr.atomic.compare_add ? op->wr.wr.atomic.swap : old;
	memcpy(op->expect, &old, sizeof(old));
	memcpy(word, &now, sizeof(now));
}

/* What it works on, and what that does in the order of posting. */
static void choose_target(struct flow *flow, struct op *op, unsigned index)
{
	if (is_atomic(op)) {
		op->length = sizeof(uint64_t);
		op->target_offset = 8 * (uint32_t)below(flow, flow->shadow_bytes / 8);
		choose_atomic(flow, op);
		return;
	}
	if (flow->is_rc)
		op->target_offset = (uint32_t)below(flow, flow->shadow_bytes - op->length + 1);
	else
		op->target_offset = index * FLOW_OP_BYTES;
	op->wr.wr.rdma.remote_addr = (uintptr_t)flow->to->buf + flow->target_base +
				     op->target_offset;
	op->wr.wr.rdma.rkey = flow->to->mr->rkey;
	if (is_write(op))
		memcpy(flow->shadow + op->target_offset, slot_of(flow, op), op->length);
	else if (op->wr.opcode == IBV_WR_RDMA_READ)
		memcpy(op->expect, flow->shadow + op->target_offset, op->length);
}

static void fill_slot(struct flow *flow, const struct op *op)
{
	uint8_t *slot = slot_of(flow, op);
	uint64_t word = world_random(flow->world) | 1;

	for (uint32_t i = 0; i < op->length; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		/* Never 0, so that what was not written shows. */
		slot[i] = (uint8_t)(word >> 56) | 1;
	}
	memcpy(op->expect, slot, op->length);
}

static void choose_op(struct flow *flow, unsigned index, bool *has_open_read)
{
	struct op *op = &flow->ops[index];

	op->expect = calloc(1, FLOW_OP_BYTES);
	op->slot_offset = index * FLOW_OP_BYTES;
	op->length = some_length(flow);
	op->wr.wr_id = index;
	op->wr.opcode = some_opcode(flow);
	op->wr.imm_data = index;
	op->is_signaled = index + 1 == flow->op_count || below(flow, 3);
	fill_slot(flow, op);
	choose_target(flow, op, index);
	op->takes_recv = is_send(op) || op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	/* Only a fence keeps what changes memory behind a READ of it (IBA 1.x §10.8.3.3). */
	if (*has_open_read && (is_write(op) || is_atomic(op) || !below(flow, 4))) {
		op->wr.send_flags |= IBV_SEND_FENCE;
		*has_open_read = false;
	}
	if (op->wr.opcode == IBV_WR_RDMA_READ)
		*has_open_read = true;
	if (op->is_signaled)
		op->wr.send_flags |= IBV_SEND_SIGNALED;
	if (op->length <= 64 && (is_send(op) || is_write(op)) && below(flow, 2))
		op->wr.send_flags |= IBV_SEND_INLINE;
	op->wr.sg_list = op->sge;
	op->wr.num_sge = cut_up(flow, op->sge, flow->from, flow->from_base + op->slot_offset,
				op->length);
}

/* The last one breaks a rule. It must not have changed the shadow. */
static void spoil_last(struct flow *flow)
{
	struct op *op = &flow->ops[flow->op_count - 1];
	struct ibv_send_wr *wr = &op->wr;

	op->length = 1 + (uint32_t)below(flow, 4000);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	wr->wr.rdma.remote_addr = (uintptr_t)flow->to->buf + flow->target_base;
	wr->wr.rdma.rkey = flow->to->mr->rkey;
	wr->num_sge = cut_up(flow, op->sge, flow->from, flow->from_base + op->slot_offset,
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
	default: /* FAULT_TOO_LONG, FAULT_BAD_RECV, FAULT_NO_RECV: the receive is what is wrong */
		wr->opcode = IBV_WR_SEND;
		break;
	}
	op->takes_recv = is_send(op);
	op->is_signaled = true;
}

static enum ibv_wc_status fault_status(enum flow_fault fault)
{
	switch (fault) {
	case FAULT_RKEY:
	case FAULT_READ_RKEY:
	case FAULT_BOUNDS:
	case FAULT_INVALIDATE:
		return IBV_WC_REM_ACCESS_ERR;
	case FAULT_LKEY:
	case FAULT_READ_LKEY:
		return IBV_WC_LOC_PROT_ERR;
	case FAULT_TOO_LONG:
	case FAULT_ALIGN:
		return IBV_WC_REM_INV_REQ_ERR;
	case FAULT_BAD_RECV:
		return IBV_WC_REM_OP_ERR;
	case FAULT_NO_RECV:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	default:
		return IBV_WC_SUCCESS;
	}
}

void flow_open(struct flow *flow, unsigned op_count)
{
	bool has_open_read = false;

	flow->op_count = op_count;
	flow->shadow_bytes = flow->is_rc ? FLOW_RC_BYTES : FLOW_UC_BYTES;
	flow->shadow = calloc(1, flow->shadow_bytes);
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

bool flow_post_sends(struct flow *flow, unsigned max)
{
	bool has_posted = false;

	if (flow->is_abandoned)
		return false;
	while (max-- && flow->posted < flow->op_count) {
		struct ibv_send_wr *bad;

		if (ibv_post_send(flow->qp, &flow->ops[flow->posted].wr, &bad))
			break;
		flow->posted++;
		has_posted = true;
	}
	return has_posted;
}

bool flow_post_recvs(struct flow *flow, unsigned max)
{
	bool has_posted = false;

	while (max-- && flow->recvs_posted < flow->recv_total) {
		size_t base = flow->recv_base + flow->recvs_posted * FLOW_OP_BYTES;
		bool is_last = flow->recvs_posted + 1 == flow->recv_total;
		struct ibv_recv_wr wr = {.wr_id = flow->recvs_posted}, *bad;
		struct ibv_sge sge[3];
		uint32_t length = FLOW_OP_BYTES;

		if (is_last && flow->fault == FAULT_NO_RECV)
			break;
		if (is_last && flow->fault == FAULT_TOO_LONG)
			length = flow->ops[flow->op_count - 1].length - 1;
		wr.sg_list = sge;
		wr.num_sge = cut_up(flow, sge, flow->to, base, length);
		if (is_last && flow->fault == FAULT_BAD_RECV) {
			wr.num_sge = 1;
			sge[0].length = length;
			sge[0].lkey ^= 0x5a5a5a;
		}
		if (ibv_post_recv(flow->peer_qp, &wr, &bad))
			break;
		flow->recvs_posted++;
		has_posted = true;
	}
	return has_posted;
}

static void check_result(struct flow *flow, const struct op *op)
{
	if (op->wr.opcode != IBV_WR_RDMA_READ && !is_atomic(op)) {
		/* The application has its memory back, and uses it. */
		memset(slot_of(flow, op), 0, op->length);
		return;
	}
	if (memcmp(slot_of(flow, op), op->expect, op->length))
		complain(flow, (unsigned)op->wr.wr_id, "a READ or atomic brought something else");
}

static void check_failure(struct flow *flow, const struct ibv_wc *wc)
{
	enum ibv_wc_status wanted = fault_status(flow->fault);
	unsigned index = (unsigned)wc->wr_id;

	if (flow->has_failed) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			complain(flow, index, "a second failure");
		return;
	}
	flow->has_failed = true;
	flow->failed_with = wc->status;
	if (flow->may_fail)
		return;
	if (flow->fault == FAULT_NONE)
		complain(flow, index, "failed");
	else if (index + 1 != flow->op_count || wc->status != wanted)
		complain(flow, index, "failed in another way than it should");
}

void flow_send_done(struct flow *flow, const struct ibv_wc *wc)
{
	unsigned index = (unsigned)wc->wr_id;

	if (index < flow->completed || index >= flow->posted) {
		complain(flow, index, "a completion twice, out of order, or of nothing");
		return;
	}
	if (wc->status == IBV_WC_SUCCESS && flow->has_failed)
		complain(flow, index, "success behind a failure");
	for (unsigned i = flow->completed; i < index; i++) {
		/* An unsignaled one says nothing unless it fails. */
		if (flow->ops[i].is_signaled || flow->has_failed)
			complain(flow, i, "a completion is missing");
		check_result(flow, &flow->ops[i]);
	}
	flow->completed = index + 1;
	if (wc->status != IBV_WC_SUCCESS) {
		check_failure(flow, wc);
		return;
	}
	if (!flow->ops[index].is_signaled)
		complain(flow, index, "a completion that was not asked for");
	check_result(flow, &flow->ops[index]);
}

/* Whether a completed receive is what this op sent. */
static bool is_message_of(const struct flow *flow, const struct op *op, const struct ibv_wc *wc)
{
	const uint8_t *at = flow->to->buf + flow->recv_base + wc->wr_id * FLOW_OP_BYTES;
	bool has_imm = op->wr.opcode != IBV_WR_SEND;

	if (has_imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) || wc->byte_len != op->length)
		return false;
	if (has_imm && wc->imm_data != op->wr.imm_data)
		return false;
	if (is_send(op) != (wc->opcode == IBV_WC_RECV))
		return false;
	if (is_send(op))
		return !memcmp(at, op->expect, op->length);
	/* A datagram network wrote each to its own place, so it can still be seen. */
	return flow->is_rc || !memcmp(flow->to->buf + flow->target_base + op->target_offset,
				      op->expect, op->length);
}

void flow_recv_done(struct flow *flow, const struct ibv_wc *wc)
{
	unsigned i = flow->recv_ops;

	if (wc->wr_id != flow->recvs_done)
		complain(flow, (unsigned)wc->wr_id, "receives complete out of order");
	flow->recvs_done = (unsigned)wc->wr_id + 1;
	if (wc->status != IBV_WC_SUCCESS) {
		if (!flow->may_fail && flow->fault == FAULT_NONE)
			complain(flow, (unsigned)wc->wr_id, "a receive failed");
		return;
	}
	while (i < flow->op_count) {
		const struct op *op = &flow->ops[i++];

		if (!op->takes_recv)
			continue;
		if (is_message_of(flow, op, wc)) {
			flow->recv_ops = i;
			return;
		}
		/* UC loses messages, RC none. */
		if (flow->is_rc || flow->is_lossless)
			break;
	}
	complain(flow, (unsigned)wc->wr_id, "a message arrived that was not the next");
}

bool flow_is_over(const struct flow *flow)
{
	if (flow->is_abandoned)
		return true;
	if (flow->has_failed)
		return flow->completed == flow->posted;
	if (flow->completed < flow->op_count)
		return false;
	if (flow->may_fail)
		return true;
	return (!flow->is_rc && !flow->is_lossless) || flow->recvs_done == flow->recv_total;
}

static void check_uc_memory(struct flow *flow)
{
	const uint8_t *memory = flow->to->buf + flow->target_base;

	for (size_t i = 0; i < flow->shadow_bytes; i++) {
		if (memory[i] && memory[i] != flow->shadow[i])
			complain(flow, (unsigned)(i / FLOW_OP_BYTES),
				 "memory holds what nobody wrote there");
	}
}

void flow_check_end(struct flow *flow)
{
	if (!flow_is_over(flow))
		complain(flow, flow->completed, "never ended");
	if (!flow->is_rc) {
		check_uc_memory(flow);
		return;
	}
	if (flow->fault != FAULT_NONE && !flow->has_failed && !flow->may_fail)
		complain(flow, flow->op_count - 1, "should have failed");
	if ((flow->has_failed && flow->may_fail) || flow->is_abandoned)
		return;
	if (memcmp(flow->to->buf + flow->target_base, flow->shadow, flow->shadow_bytes))
		complain(flow, flow->op_count, "memory differs from what was written in order");
}
