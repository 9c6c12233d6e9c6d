/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc_line.h"

#include <stdlib.h>
#include <string.h>

#define NO_SLOT 50u /* not in use by any process */

void line_complain(struct line *line, unsigned op, const char *what)
{
	if (line->wrong)
		return;
	line->wrong = what;
	line->wrong_op = op;
}

static uint64_t below(const struct line *line, uint64_t n)
{
	return world_below(line->world, n);
}

static uint8_t *source(const struct line *line, const struct line_op *op)
{
	size_t index = (size_t)line->index * LINE_OPS_MAX + (size_t)op->wr.wr_id;

	return line->world->nodes[0].buf + index * LINE_OP_BYTES;
}

static size_t target_base(const struct line *line)
{
	return (size_t)line->index * LINE_TARGET_BYTES;
}

/* Prefers lengths near packet boundaries. */
static uint32_t some_length(const struct line *line, uint32_t min_bytes)
{
	uint32_t mtu = 128u << line->attr.mtu;
	uint64_t length;

	switch (below(line, 4)) {
	case 0:
		length = below(line, 65);
		break;
	case 1:
		length = mtu * (1 + below(line, 3)) - 2 + below(line, 5);
		break;
	default:
		length = below(line, LINE_OP_BYTES);
		break;
	}
	if (length < min_bytes)
		length = min_bytes;
	return (uint32_t)(length < LINE_OP_BYTES ? length : LINE_OP_BYTES);
}

static void fill(struct line *line, struct line_op *op)
{
	uint8_t *at = source(line, op);
	uint64_t word = world_random(line->world) | 1;

	for (uint32_t i = 0; i < op->sge.length; i++) {
		word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
		at[i] = (uint8_t)(word >> 56) | 1;
	}
	memcpy(op->expect, at, op->sge.length);
}

static void aim_atomic(struct line *line, struct line_op *op)
{
	uint8_t *word = line->shadows[op->owner] + op->target_offset;
	bool is_add = op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint64_t old, now;

	memcpy(&old, word, sizeof(old));
	op->wr.wr.atomic.compare_add = below(line, 2) ? old : world_random(line->world);
	op->wr.wr.atomic.swap = world_random(line->world);
	now = is_add				  ? old + op->wr.wr.atomic.compare_add :
	      old == op->wr.wr.atomic.compare_add ? op->wr.wr.atomic.swap :
						    old;
	memcpy(op->expect, &old, sizeof(old));
	memcpy(word, &now, sizeof(now));
}

/*
 * Chooses the target of an operation at the SRQ's owner and applies the operation to the shadow, in
 * posting order.
 */
static void aim(struct line *line, struct line_op *op)
{
	const struct world_node *to = &line->world->nodes[op->owner];
	uint8_t *shadow = line->shadows[op->owner];
	uint64_t addr;

	op->wr.qp_type.xrc.remote_srqn = to->xrc_srqn;
	if (op->wr.opcode == IBV_WR_SEND || op->wr.opcode == IBV_WR_SEND_WITH_IMM)
		return;
	op->target_offset = (uint32_t)below(line, LINE_TARGET_BYTES - op->sge.length + 1);
	if (op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    op->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		op->target_offset &= ~7u;
	addr = (uintptr_t)to->buf + target_base(line) + op->target_offset;
	if (op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    op->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		op->wr.wr.atomic.remote_addr = addr;
		op->wr.wr.atomic.rkey = to->mr->rkey;
		aim_atomic(line, op);
		return;
	}
	op->wr.wr.rdma.remote_addr = addr;
	op->wr.wr.rdma.rkey = to->mr->rkey;
	if (op->wr.opcode == IBV_WR_RDMA_READ)
		memcpy(op->expect, shadow + op->target_offset, op->sge.length);
	else
		memcpy(shadow + op->target_offset, op->expect, op->sge.length);
}

static enum ibv_wr_opcode some_opcode(const struct line *line)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};

	return opcodes[below(line, sizeof(opcodes) / sizeof(opcodes[0]))];
}

static bool is_atomic(const struct line_op *op)
{
	return op->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       op->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static void choose(struct line *line, unsigned index, uint32_t min_bytes, bool *has_open_read)
{
	struct line_op *op = &line->ops[index];
	bool takes_imm;

	op->expect = calloc(1, LINE_OP_BYTES);
	if (!op->expect)
		abort();
	op->wr.wr_id = index;
	op->wr.opcode = some_opcode(line);
	op->wr.send_flags = IBV_SEND_SIGNALED;
	op->wr.imm_data = (uint32_t)line->index << 16 | index;
	/* Either the owner of the previous operation or a random one. */
	op->owner = index && below(line, 2) ?
			    line->ops[index - 1].owner :
			    OWNERS_FIRST + (int)below(line, (uint64_t)line->world->node_count - 1);
	op->sge.addr = (uintptr_t)source(line, op);
	op->sge.lkey = line->world->nodes[0].mr->lkey;
	op->sge.length = is_atomic(op) ? 8 : some_length(line, min_bytes);
	op->wr.sg_list = &op->sge;
	op->wr.num_sge = 1;
	fill(line, op);
	aim(line, op);
	takes_imm = op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	op->takes_recv = takes_imm || op->wr.opcode == IBV_WR_SEND ||
			 op->wr.opcode == IBV_WR_SEND_WITH_IMM;
	op->changes_memory = takes_imm || op->wr.opcode == IBV_WR_RDMA_WRITE || is_atomic(op);
	/*
	 * Only a fence orders a write or atomic after a preceding READ of the same memory (IBA 1.x
	 * §10.8.3.3).
	 */
	if (*has_open_read && op->changes_memory) {
		op->wr.send_flags |= IBV_SEND_FENCE;
		*has_open_read = false;
	}
	*has_open_read |= op->wr.opcode == IBV_WR_RDMA_READ;
}

/* Makes the last operation invalid. It has no effect. */
static void spoil(struct line *line)
{
	struct line_op *op = &line->ops[line->op_count - 1];
	const struct world_node *to = &line->world->nodes[op->owner];

	op->wr.opcode = IBV_WR_RDMA_WRITE;
	op->wr.wr.rdma.remote_addr = (uintptr_t)to->buf + target_base(line);
	op->wr.wr.rdma.rkey = to->mr->rkey;
	op->sge.length = 1 + (uint32_t)below(line, 3000);
	op->takes_recv = false;
	if (line->fault == LINE_BAD_RKEY)
		op->wr.wr.rdma.rkey ^= 0x5a5a5a;
	else if (line->fault == LINE_BAD_SRQN)
		op->wr.qp_type.xrc.remote_srqn ^= 0x155;
	else
		op->wr.qp_type.xrc.remote_srqn = NO_SLOT << IPC_SLOT_SHIFT | 1;
}

/* Chooses the last operation like any other, and then undoes its effect on the shadows. */
static void choose_last(struct line *line, uint32_t min_bytes, bool *has_open_read)
{
	uint8_t kept[WORLD_NODES_MAX][LINE_TARGET_BYTES];

	for (int i = OWNERS_FIRST; i < line->world->node_count; i++)
		memcpy(kept[i], line->shadows[i], LINE_TARGET_BYTES);
	choose(line, line->op_count - 1, min_bytes, has_open_read);
	for (int i = OWNERS_FIRST; i < line->world->node_count; i++)
		memcpy(line->shadows[i], kept[i], LINE_TARGET_BYTES);
	spoil(line);
}

void line_open(struct line *line, unsigned op_count, uint32_t min_bytes)
{
	bool has_open_read = false;

	line->op_count = op_count;
	for (int i = OWNERS_FIRST; i < line->world->node_count; i++) {
		line->shadows[i] = calloc(1, LINE_TARGET_BYTES);
		if (!line->shadows[i])
			abort();
	}
	for (unsigned i = 0; i + (line->fault != LINE_RIGHT) < op_count; i++)
		choose(line, i, min_bytes, &has_open_read);
	if (line->fault != LINE_RIGHT)
		choose_last(line, min_bytes, &has_open_read);
}

void line_close(struct line *line)
{
	for (unsigned i = 0; i < line->op_count; i++)
		free(line->ops[i].expect);
	for (int i = 0; i < WORLD_NODES_MAX; i++)
		free(line->shadows[i]);
}

bool line_post(struct line *line, unsigned max)
{
	struct ibv_send_wr *bad;
	bool has_posted = false;

	if (line->is_abandoned)
		return false;
	while (max-- && line->posted < line->op_count) {
		if (ibv_post_send(line->qp, &line->ops[line->posted].wr, &bad))
			break;
		line->posted++;
		has_posted = true;
	}
	return has_posted;
}

static enum ibv_wc_status wanted_status(const struct line *line)
{
	return line->fault == LINE_BAD_RKEY ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR;
}

static void check_failure(struct line *line, const struct ibv_wc *wc)
{
	unsigned index = (unsigned)wc->wr_id;

	if (line->has_failed) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			line_complain(line, index, "a second failure");
		return;
	}
	line->has_failed = true;
	if (line->may_fail)
		return;
	if (line->fault == LINE_RIGHT)
		line_complain(line, index, "failed");
	else if (index + 1 != line->op_count || wc->status != wanted_status(line))
		line_complain(line, index, "failed in another way than it should");
}

void line_sent(struct line *line, const struct ibv_wc *wc)
{
	unsigned index = (unsigned)wc->wr_id;
	struct line_op *op = &line->ops[index];
	bool brings = op->wr.opcode == IBV_WR_RDMA_READ || is_atomic(op);

	if (index != line->completed || index >= line->posted) {
		line_complain(line, index, "a completion twice, out of order, or of nothing");
		return;
	}
	line->completed++;
	if (wc->status != IBV_WC_SUCCESS) {
		check_failure(line, wc);
		return;
	}
	if (line->has_failed)
		line_complain(line, index, "success behind a failure");
	line->succeeded = line->completed;
	if (!brings)
		/* The application reuses its buffer after the completion. */
		memset(source(line, op), 0, op->sge.length);
	else if (memcmp(source(line, op), op->expect, op->sge.length))
		line_complain(line, index, "a READ or atomic brought something else");
}

static bool is_message_of(const struct world_node *node, const struct line_op *op,
			  const struct ibv_wc *wc)
{
	bool is_write = op->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool has_imm = op->wr.opcode != IBV_WR_SEND;

	if (wc->byte_len != op->sge.length || has_imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (has_imm && wc->imm_data != op->wr.imm_data))
		return false;
	if (is_write)
		return wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	return wc->opcode == IBV_WC_RECV &&
	       !memcmp(line_recv_slot(node, wc->wr_id), op->expect, op->sge.length);
}

bool line_received(struct line *line, int node, const struct ibv_wc *wc)
{
	unsigned i = line->recv_next[node];

	while (i < line->op_count && (line->ops[i].owner != node || !line->ops[i].takes_recv))
		i++;
	if (i == line->op_count || !is_message_of(&line->world->nodes[node], &line->ops[i], wc))
		return false;
	line->recv_next[node] = i + 1;
	return true;
}

bool line_is_over(const struct line *line)
{
	if (line->is_abandoned)
		return true;
	return line->has_failed ? line->completed == line->posted :
				  line->completed == line->op_count;
}

bool line_touches(const struct line *line, int node)
{
	if (line->home == node)
		return true;
	for (unsigned i = 0; i < line->op_count; i++) {
		if (line->ops[i].owner == node)
			return true;
	}
	return false;
}

bool line_reads(const struct line *line, int node)
{
	for (unsigned i = 0; i < line->op_count; i++) {
		const struct line_op *op = &line->ops[i];

		if (op->owner == node && (op->wr.opcode == IBV_WR_RDMA_READ || is_atomic(op)))
			return true;
	}
	return false;
}

/*
 * The message of an acknowledged operation has been received, even if the queue pair failed later.
 */
static void check_receives(struct line *line)
{
	for (unsigned i = 0; i < line->succeeded; i++) {
		const struct line_op *op = &line->ops[i];

		if (op->takes_recv && line->recv_next[op->owner] <= i && !line->may_fail)
			line_complain(line, i, "it succeeded, but was not received");
	}
}

void line_check_end(struct line *line)
{
	if (!line_is_over(line))
		line_complain(line, line->completed, "never ended");
	check_receives(line);
	if (line->fault != LINE_RIGHT && !line->has_failed && !line->may_fail)
		line_complain(line, line->op_count - 1, "should have failed");
	if (line->may_fail || line->is_abandoned)
		return;
	for (int i = OWNERS_FIRST; i < line->world->node_count; i++) {
		if (memcmp(line->world->nodes[i].buf + target_base(line), line->shadows[i],
			   LINE_TARGET_BYTES))
			line_complain(line, line->op_count,
				      "memory differs from what was written in order");
	}
	if (line->recv_qp && line->fault != LINE_RIGHT &&
	    to_qp(line->recv_qp)->state != IBV_QPS_ERR)
		line_complain(line, line->op_count, "its receive queue pair did not end");
}
