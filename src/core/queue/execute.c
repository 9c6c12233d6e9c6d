/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/execute.h"

#include <assert.h>
#include <string.h>

#include "base/user_copy.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/memory/mr.h"
#include "core/memory/mw.h"
#include "core/object/opcode.h"
#include "core/queue/comp_cntr.h"
#include "core/queue/cq.h"
#include "core/queue/failure_wr.h"
#include "core/queue/sge.h"
#include "core/report/failure.h"
#include "core/report/fault_points.h"
#include "core/report/usage.h"
#include "ipc/segment.h"

/*
 * The responder's checks of an rkey, in the order of IBA 1.x §9.7.4.1: QP, key and PD, access
 * rights, bounds.
 */
static enum access_result find_rkey(struct qp *qp, const struct remote_range *range, uint8_t **at)
{
	struct mr *mr;

	if (!(qp->attr.qp_access_flags & range->access))
		return ACCESS_QP_RIGHTS;
	if (fault_access(qp, range->access))
		return ACCESS_RKEY;
	if (!range->bytes) {
		*at = NULL;
		return ACCESS_OK;
	}
	if (range->rkey & SEGMENT_WINDOW_KEY)
		return mw_check(qp, range, at);
	mr = mr_find(qp->context->engine, range->rkey);
	if (!mr)
		return ACCESS_RKEY;
	if (mr->pd->id != qp->pd->id)
		return ACCESS_PD;
	if (!(mr->access & range->access))
		return ACCESS_RIGHTS;
	*at = mr_translate(mr, range->addr, range->bytes);
	return *at ? ACCESS_OK : ACCESS_BOUNDS;
}

/* The result of an access to memory that find_rkey() found. */
static enum access_result report_access(struct qp *qp, const struct remote_range *range,
					bool is_done)
{
	if (__builtin_expect(is_done, 1))
		return ACCESS_OK;
	failure_refused(qp, &(struct failure_refusal){.result = ACCESS_GONE,
						      .access = range->access,
						      .remote_addr = range->addr,
						      .length = range->bytes,
						      .rkey = range->rkey});
	return ACCESS_GONE;
}

static enum access_result check_rkey(struct qp *qp, const struct remote_range *range, uint8_t **at)
{
	enum access_result result = find_rkey(qp, range, at);

	if (__builtin_expect(result != ACCESS_OK, 0))
		failure_refused(qp, &(struct failure_refusal){.result = result,
							      .access = range->access,
							      .remote_addr = range->addr,
							      .length = range->bytes,
							      .rkey = range->rkey});
	return result;
}

/* The point receive. A datagram passes it before its checks (core/queue/datagram.c). */
static bool inbound_finds_none(const struct qp *qp)
{
	return qp->type != IBV_QPT_UD && fault_receive(qp);
}

enum access_result inbound_take_recv(struct qp *qp, struct inbound *in)
{
	qp_assert_locked(qp);
	if (!in->has_spare && (inbound_finds_none(qp) || !rq_take(qp, &in->recv)))
		return ACCESS_RNR;
	in->has_spare = false;
	in->has_recv = true;
	return ACCESS_OK;
}

enum access_result inbound_begin_recv(struct qp *qp, struct inbound *in)
{
	qp_assert_locked(qp);
	if (inbound_take_recv(qp, in) != ACCESS_OK)
		return ACCESS_RNR;
	in->is_write = false;
	in->length_bytes = 0;
	in->done_bytes = 0;
	in->sge_index = 0;
	in->sge_offset = 0;
	return ACCESS_OK;
}

/* An RDMA WRITE of the peer is counted when it is complete or fails. */
static enum access_result count_write(struct qp *qp, enum access_result result)
{
	if (result != ACCESS_OK)
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, false, 0);
	return result;
}

enum access_result inbound_begin_write(struct qp *qp, struct inbound *in, uint64_t remote_addr,
				       uint32_t rkey, uint32_t length_bytes)
{
	uint8_t *at;

	qp_assert_locked(qp);
	in->is_write = true;
	in->remote_addr = remote_addr;
	in->rkey = rkey;
	in->length_bytes = length_bytes;
	in->done_bytes = 0;
	return count_write(qp, check_rkey(qp,
					  &(struct remote_range){.addr = remote_addr,
								 .rkey = rkey,
								 .bytes = length_bytes,
								 .access = IBV_ACCESS_REMOTE_WRITE},
					  &at));
}

void inbound_begin_placed(struct inbound *in, uint32_t length_bytes)
{
	in->is_write = true;
	in->length_bytes = length_bytes;
	in->done_bytes = length_bytes;
}

/* Only the part of an SGE that receives data must be within its MR, as on NICs and rxe. */
static enum access_result scatter(struct qp *qp, struct inbound *in, const uint8_t *data,
				  uint32_t bytes)
{
	/* The receives of an SRQ use the SRQ's PD, which may differ from the QP's, as on NICs. */
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	struct recv_queue *rq = qp->srq ? &qp->srq->rq : &qp->rq;

	while (bytes) {
		const struct ibv_sge *sge;
		struct ibv_sge part;
		uint8_t *at;

		if (in->sge_index == in->recv.num_sge)
			return ACCESS_LENGTH;
		sge = &in->recv.sge[in->sge_index];
		part.addr = sge->addr + in->sge_offset;
		part.length = sge->length - in->sge_offset;
		part.lkey = sge->lkey;
		if (!part.length) {
			in->sge_index++;
			in->sge_offset = 0;
			continue;
		}
		if (part.length > bytes)
			part.length = bytes;
		in->local_err = sge_check_cached(&rq->sge_cache, pd, &part, true, &at);
		if (in->local_err)
			return ACCESS_LOCAL;
		if (!user_copy_to(at, data, part.length)) {
			in->local_err = VENDOR_ERR_MEMORY_GONE;
			return ACCESS_LOCAL;
		}
		in->sge_offset += part.length;
		in->done_bytes += part.length;
		data += part.length;
		bytes -= part.length;
	}
	return ACCESS_OK;
}

enum access_result inbound_data(struct qp *qp, struct inbound *in, const void *data, uint32_t bytes)
{
	const struct remote_range range = {
		.addr = in->remote_addr + in->done_bytes,
		.rkey = in->rkey,
		.bytes = bytes,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	enum access_result result;
	uint8_t *at;

	qp_assert_locked(qp);
	if (!in->is_write)
		return scatter(qp, in, data, bytes);
	if (bytes > in->length_bytes - in->done_bytes)
		return count_write(qp, ACCESS_LENGTH);
	/* Check each packet: the MR may have been deregistered after the first one. */
	result = check_rkey(qp, &range, &at);
	/*
	 * Applications poll the last word of a message (perftest's ib_write_lat), so that word is
	 * stored last.
	 */
	if (result == ACCESS_OK)
		result = report_access(qp, &range, user_copy_to_ordered(at, data, bytes));
	if (result != ACCESS_OK)
		return count_write(qp, result);
	in->done_bytes += bytes;
	return ACCESS_OK;
}

enum access_result inbound_end(struct qp *qp, struct inbound *in, const struct inbound_end *end)
{
	struct ibv_wc wc = {0};

	qp_assert_locked(qp);
	if (in->is_write && in->done_bytes != in->length_bytes)
		return count_write(qp, ACCESS_LENGTH);
	/*
	 * Only type 2 memory windows can be invalidated (IBA 1.x §10.6.5): this library supports no
	 * other such keys.
	 */
	if (end->has_invalidate && mw_invalidate(qp, end->invalidate_rkey) != ACCESS_OK)
		return ACCESS_INVALIDATE;
	if (in->is_write)
		comp_cntr_count_many(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, true,
				     in->is_part ? 0 : 1, in->done_bytes);
	if (!in->has_recv)
		return ACCESS_OK;
	in->has_recv = false;
	wc.wr_id = in->recv.wr_id;
	wc.status = IBV_WC_SUCCESS;
	wc.opcode = in->is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	wc.byte_len = in->done_bytes;
	wc.qp_num = qp->qpn;
	wc.src_qp = end->src_qpn;
	if (end->has_imm) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = end->imm_data_be;
	}
	if (end->has_grh) {
		wc.wc_flags |= IBV_WC_GRH;
		wc.sl = end->sl;
	}
	if (end->has_invalidate) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = end->invalidate_rkey;
	}
	comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RECV, true, wc.byte_len);
	qp->usage->received_messages++;
	qp->usage->received_bytes += wc.byte_len;
	cq_push(qp->recv_cq, &wc, end->is_solicited);
	return ACCESS_OK;
}

void inbound_drop(struct inbound *in)
{
	in->has_spare |= in->has_recv;
	in->has_recv = false;
}

void inbound_fail(struct qp *qp, struct inbound *in, enum access_result result)
{
	struct ibv_wc wc = {0};

	qp_assert_locked(qp);
	if (!in->has_recv && !(in->has_spare && result == ACCESS_OK))
		return;
	in->has_recv = false;
	in->has_spare &= result != ACCESS_OK;
	wc.wr_id = in->recv.wr_id;
	wc.opcode = IBV_WC_RECV;
	wc.qp_num = qp->qpn;
	wc.vendor_err = access_vendor_err(result);
	switch (result) {
	case ACCESS_LENGTH:
		wc.status = IBV_WC_LOC_LEN_ERR;
		break;
	case ACCESS_LOCAL:
		wc.status = IBV_WC_LOC_PROT_ERR;
		wc.vendor_err = in->local_err;
		break;
	case ACCESS_OK:
	case ACCESS_DEPTH:
	case ACCESS_MTU:
		/* The WR itself is valid. */
		wc.status = IBV_WC_WR_FLUSH_ERR;
		wc.vendor_err = VENDOR_ERR_FLUSHED;
		break;
	default:
		wc.status = IBV_WC_LOC_ACCESS_ERR;
		break;
	}
	comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_RECV, false, 0);
	if (wc.status != IBV_WC_WR_FLUSH_ERR)
		failure_recv(qp, in, &wc);
	/* An XRC SRQ that was destroyed in the meantime has released its receives. */
	if (qp->recv_cq)
		cq_push(qp->recv_cq, &wc, false);
}

enum access_result execute_read(struct qp *qp, uint64_t remote_addr, uint32_t rkey, uint32_t bytes,
				const uint8_t **from)
{
	uint8_t *at = NULL;
	enum access_result result = check_rkey(
		qp,
		&(struct remote_range){.addr = remote_addr,
				       .rkey = rkey,
				       .bytes = bytes,
				       .access = wr_opcodes[IBV_WR_RDMA_READ].remote_access},
		&at);

	qp_assert_locked(qp);
	*from = at;
	return result;
}

/*
 * Finds the aligned word of an atomic. If a region's iova is not aligned like its address, an
 * aligned iova may be an unaligned address.
 */
static enum access_result execute_find_word(struct qp *qp, const struct remote_range *range,
					    uint64_t **word)
{
	enum access_result result;
	uint8_t *at;

	if (range->addr % sizeof(**word))
		return ACCESS_ALIGN;
	result = check_rkey(qp, range, &at);
	if (result != ACCESS_OK)
		return result;
	if ((uintptr_t)at % sizeof(**word))
		return ACCESS_ALIGN;
	*word = (uint64_t *)(void *)at;
	return ACCESS_OK;
}

enum access_result execute_atomic_write(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
					const void *data, uint32_t bytes)
{
	const struct remote_range range = {
		.addr = remote_addr,
		.rkey = rkey,
		.bytes = sizeof(uint64_t),
		.access = wr_opcodes[IBV_WR_ATOMIC_WRITE].remote_access,
	};
	uint64_t *word, value, original;
	enum access_result result;

	qp_assert_locked(qp);
	if (bytes != sizeof(value))
		return ACCESS_ALIGN;
	result = execute_find_word(qp, &range, &word);
	if (result != ACCESS_OK)
		return result;
	memcpy(&value, data, sizeof(value));
	/* A thread that reads this value also sees all preceding writes. */
	return report_access(qp, &range, user_exchange(word, value, &original));
}

/*
 * The access rights (enum ibv_access_flags) that a FLUSH of these placement types requires of both
 * QP and MR.
 */
static unsigned int flush_access(unsigned int types)
{
	return (types & IBV_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
	       (types & IBV_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0);
}

enum access_result execute_flush(struct qp *qp, uint64_t remote_addr, uint32_t rkey,
				 uint32_t length_bytes, unsigned int types, unsigned int level)
{
	const unsigned int known = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;
	unsigned int access = flush_access(types);
	const struct mr *mr;

	qp_assert_locked(qp);
	if (!types || (types & ~known) || level > IBV_FLUSH_MR ||
	    (qp->attr.qp_access_flags & access) != access)
		return ACCESS_QP_RIGHTS;
	/* Memory windows cannot have this access right. */
	mr = rkey & SEGMENT_WINDOW_KEY ? NULL : mr_find(qp->context->engine, rkey);
	if (!mr)
		return ACCESS_RKEY;
	if (mr->pd->id != qp->pd->id)
		return ACCESS_PD;
	/* ibv_reg_mr() refuses IBV_ACCESS_FLUSH_PERSISTENT, so a persistent FLUSH fails here. */
	if ((mr->access & access) != access)
		return ACCESS_RIGHTS;
	if (level == IBV_FLUSH_RANGE && !mr_translate(mr, remote_addr, length_bytes))
		return ACCESS_BOUNDS;
	/* CPU caches are coherent, so that only the order has to be ensured. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return ACCESS_OK;
}

enum access_result execute_atomic(struct qp *qp, bool is_cas, uint64_t remote_addr, uint32_t rkey,
				  uint64_t compare_add, uint64_t swap, uint64_t *original)
{
	const struct remote_range range = {
		.addr = remote_addr,
		.rkey = rkey,
		.bytes = sizeof(uint64_t),
		.access = IBV_ACCESS_REMOTE_ATOMIC,
	};
	uint64_t *word;
	enum access_result result = execute_find_word(qp, &range, &word);

	qp_assert_locked(qp);
	if (result != ACCESS_OK)
		return result;
	return report_access(qp, &range,
			     is_cas ? user_compare_swap(word, compare_add, swap, original) :
				      user_fetch_add(word, compare_add, original));
}

static enum access_result read_executor(struct qp *qp, const struct remote_request *request,
					uint64_t *original)
{
	const uint8_t *from;
	enum access_result result = execute_read(qp, request->remote_addr, request->rkey,
						 request->length_bytes, &from);

	(void)original;
	/* A successful READ is counted when its response was sent. */
	if (result != ACCESS_OK)
		comp_cntr_count(qp, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, false, 0);
	return result;
}

static enum access_result atomic_executor(struct qp *qp, const struct remote_request *request,
					  uint64_t *original)
{
	return execute_atomic(qp, wr_opcodes[request->opcode].has_compare, request->remote_addr,
			      request->rkey, request->compare_add, request->swap, original);
}

static enum access_result atomic_write_executor(struct qp *qp, const struct remote_request *request,
						uint64_t *original)
{
	(void)original;
	return execute_atomic_write(qp, request->remote_addr, request->rkey, request->data,
				    request->length_bytes);
}

static enum access_result flush_executor(struct qp *qp, const struct remote_request *request,
					 uint64_t *original)
{
	(void)original;
	return execute_flush(qp, request->remote_addr, request->rkey, request->length_bytes,
			     request->flush_types, request->flush_level);
}

typedef enum access_result executor_fn(struct qp *qp, const struct remote_request *request,
				       uint64_t *original);

static executor_fn *const executors[WR_OPCODE_COUNT] = {
	[IBV_WR_RDMA_READ] = read_executor,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = atomic_executor,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = atomic_executor,
	[IBV_WR_ATOMIC_WRITE] = atomic_write_executor,
	[IBV_WR_FLUSH] = flush_executor,
};

enum access_result execute_request(struct qp *qp, const struct remote_request *request,
				   uint64_t *original)
{
	qp_assert_locked(qp);
	return executors[request->opcode](qp, request, original);
}
