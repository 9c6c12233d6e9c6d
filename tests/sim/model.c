/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <string.h>

static void complain(struct flow *flow, unsigned op, const char *what)
{
	if (flow->wrong)
		return;
	flow->wrong = what;
	flow->wrong_op = op;
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

/* Flushes the whole region, or the range of the WR's address and length. */
static int post_flush(struct flow *flow, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(flow->qp);
	bool is_of_part = wr->wr_id & 1;

	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	ibv_wr_flush(ex, flow->to->mr->rkey, is_of_part ? wr->wr.rdma.remote_addr : 0,
		     is_of_part ? FLOW_OP_BYTES : 0, IBV_FLUSH_GLOBAL,
		     is_of_part ? IBV_FLUSH_RANGE : IBV_FLUSH_MR);
	return ibv_wr_complete(ex);
}

static int post_op(struct flow *flow, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return wr->opcode == IBV_WR_FLUSH ? post_flush(flow, wr) :
					    ibv_post_send(flow->qp, wr, &bad);
}

/* Lists are longer than the successions of single WRs. */
#define LIST_LENGTHS 4

static bool post_list(struct flow *flow, unsigned max)
{
	unsigned end = flow->posted + max < flow->op_count ? flow->posted + max : flow->op_count;
	unsigned first = flow->posted;
	struct ibv_send_wr *bad = NULL;

	if (first == end)
		return false;
	for (unsigned i = first; i < end; i++)
		flow->ops[i].wr.next = i + 1 < end ? &flow->ops[i + 1].wr : NULL;
	/* The send queue may be shorter than the list. */
	if (ibv_post_send(flow->qp, &flow->ops[first].wr, &bad))
		flow->posted = (unsigned)bad->wr_id;
	else
		flow->posted = end;
	return flow->posted > first;
}

bool flow_post_sends(struct flow *flow, unsigned max)
{
	bool has_posted = false;

	if (flow->is_abandoned)
		return false;
	if (flow->has_lists)
		return post_list(flow, max * LIST_LENGTHS);
	while (max-- && flow->posted < flow->op_count) {
		if (post_op(flow, &flow->ops[flow->posted].wr))
			break;
		flow->posted++;
		has_posted = true;
	}
	return has_posted;
}

static bool post_shared(struct flow *flow, unsigned max)
{
	struct recv_pool *pool = flow->pool;
	bool has_posted = false;

	while (max-- && pool->posted < pool->total) {
		struct ibv_recv_wr wr = {.wr_id = pool->posted}, *bad;
		struct ibv_sge sge[3];

		wr.sg_list = sge;
		wr.num_sge = flow_cut_up(flow, sge, pool->node,
					 pool->base + (size_t)pool->posted * FLOW_OP_BYTES,
					 FLOW_OP_BYTES);
		if (ibv_post_srq_recv(pool->is_xrc ? pool->node->xrc_srq : pool->node->srq, &wr,
				      &bad))
			break;
		pool->posted++;
		has_posted = true;
	}
	return has_posted;
}

/* Makes the last receive invalid for FAULT_BAD_RECV. */
static void spoil_recv(const struct flow *flow, struct ibv_recv_wr *wr, uint32_t length)
{
	if (flow->fault != FAULT_BAD_RECV)
		return;
	wr->num_sge = 1;
	wr->sg_list[0].length = length;
	wr->sg_list[0].lkey ^= 0x5a5a5a;
}

bool flow_post_recvs(struct flow *flow, unsigned max)
{
	bool has_posted = false;

	if (flow->pool)
		return post_shared(flow, max);
	while (max-- && flow->peer_qp && flow->recvs_posted < flow->recv_total) {
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
		wr.num_sge = flow_cut_up(flow, sge, flow->to, base, length);
		if (is_last)
			spoil_recv(flow, &wr, length);
		if (ibv_post_recv(flow->peer_qp, &wr, &bad))
			break;
		flow->recvs_posted++;
		has_posted = true;
	}
	return has_posted;
}

static void check_result(struct flow *flow, const struct op *op)
{
	if (op->wr.opcode != IBV_WR_RDMA_READ && !op_is_atomic(op)) {
		/* The application reuses its buffer after the completion. */
		memset(flow_slot(flow, op), 0, op->length);
		return;
	}
	if (memcmp(flow_slot(flow, op), op->expect, op->length))
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

	if (wc->wr_id == FLOW_BIND_WR) {
		complain(flow, 0, "a window was not bound");
		return;
	}

	if (index < flow->completed || index >= flow->posted) {
		complain(flow, index, "a completion twice, out of order, or of nothing");
		return;
	}
	if (wc->status == IBV_WC_SUCCESS && flow->has_failed)
		complain(flow, index, "success behind a failure");
	for (unsigned i = flow->completed; i < index; i++) {
		/* An unsignaled WR completes only on failure. */
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

/* Whether a completed receive contains the message of this op. */
static bool is_message_of(const struct flow *flow, const struct op *op, const struct ibv_wc *wc)
{
	size_t base = flow->pool ? flow->pool->base : flow->recv_base;
	const uint8_t *at = flow->to->buf + base + wc->wr_id * FLOW_OP_BYTES;
	bool has_inv = op->wr.opcode == IBV_WR_SEND_WITH_INV;
	bool has_imm = op->wr.opcode != IBV_WR_SEND && !has_inv;

	if (has_inv != !!(wc->wc_flags & IBV_WC_WITH_INV) ||
	    (has_inv && wc->invalidated_rkey != op->wr.invalidate_rkey))
		return false;

	if (has_imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) || wc->byte_len != op->length)
		return false;
	if (has_imm && wc->imm_data != op->wr.imm_data)
		return false;
	if (op_is_send(op) != (wc->opcode == IBV_WC_RECV))
		return false;
	if (op_is_send(op))
		return !memcmp(at, op->expect, op->length);
	/* UC: each op writes to its own part of the target, so its data can still be checked. */
	return flow->is_rc || !memcmp(flow->to->buf + flow->target_base + op->target_offset,
				      op->expect, op->length);
}

/* Each receive completes once; those of a queue pair's own receive queue complete in order. */
static void count_recv(struct flow *flow, const struct ibv_wc *wc)
{
	struct recv_pool *pool = flow->pool;

	if (!pool) {
		if (wc->wr_id != flow->recvs_done)
			complain(flow, (unsigned)wc->wr_id, "receives complete out of order");
		flow->recvs_done = (unsigned)wc->wr_id + 1;
		return;
	}
	if (wc->wr_id >= pool->posted || pool->is_done[wc->wr_id]) {
		complain(flow, (unsigned)wc->wr_id, "a receive completed twice, or was not posted");
		return;
	}
	pool->is_done[wc->wr_id] = true;
	flow->recvs_done++;
}

void flow_recv_done(struct flow *flow, const struct ibv_wc *wc)
{
	unsigned i = flow->recv_ops;

	count_recv(flow, wc);
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
		/* Messages may be lost on UC, but not on RC. */
		if (flow->is_rc || flow->is_lossless)
			break;
	}
	complain(flow, (unsigned)wc->wr_id, "a message arrived that was not the next");
}

static uint32_t target_sum(const struct flow *flow)
{
	const uint8_t *memory = flow->to->buf + flow->target_base;
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < flow->shadow_bytes; i++)
		sum = (sum ^ memory[i]) * 16777619u;
	return sum;
}

void flow_freeze(struct flow *flow)
{
	if (flow->is_frozen)
		return;
	flow->is_frozen = true;
	flow->frozen_sum = target_sum(flow);
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
				 "memory holds bytes that were not written there");
	}
}

void flow_check_end(struct flow *flow)
{
	if (!flow_is_over(flow))
		complain(flow, flow->completed, "never ended");
	if (flow->is_frozen && target_sum(flow) != flow->frozen_sum)
		complain(flow, flow->completed, "memory was changed by what came late");
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
