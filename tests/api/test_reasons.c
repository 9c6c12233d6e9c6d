/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Vendor errors of failed work requests. For each failure: the requester's completion (status and
 * vendor_err), the responder's completion if it had taken a receive, which queue pairs go to ERR,
 * and the responder's event.
 */

#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ibv_wc.vendor_err, as listed in docs/completion-errors.md. */
enum reason {
	REASON_NONE,
	REASON_FLUSHED,
	REASON_LKEY,
	REASON_LKEY_PD,
	REASON_LKEY_BOUNDS,
	REASON_LKEY_ACCESS,
	REASON_RECV_TOO_SHORT,
	REASON_RKEY,
	REASON_RKEY_PD,
	REASON_RKEY_BOUNDS,
	REASON_RKEY_ACCESS,
	REASON_QP_ACCESS,
	REASON_ATOMIC_ALIGN,
	REASON_RNR,
	REASON_NO_ANSWER,
	REASON_PEER_DEAD,
	REASON_REMOTE_RECV,
	REASON_MSG_LENGTH,
	REASON_MEMORY_GONE,
	REASON_NOT_INVALIDATABLE,
};

#define NO_EVENT ((enum ibv_event_type) - 1)
#define NO_RECV	 IBV_WC_GENERAL_ERR

static struct api api;
static struct ibv_pd *other_pd;

/* One failure: its cause and all its effects. */
struct failure {
	const char *name;
	enum ibv_wr_opcode opcode;
	void (*spoil)(struct pair *pair, struct ibv_send_wr *wr);
	unsigned int mr_access; /* rights of both sides' MRs; 0: all */
	unsigned int qp_access;
	uint32_t length;      /* length of the request's one SGE; 0: 8 */
	uint32_t recv_length; /* length of b's one receive; 0: none is posted */
	enum ibv_wc_status status;
	enum reason reason;
	enum ibv_wc_status recv_status; /* NO_RECV: no receive completes */
	enum reason recv_reason;
	bool responder_errs;
	enum ibv_event_type event; /* event of the responder */
};

static struct ibv_mr *extra_mr;

static void local_key(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->sg_list->lkey ^= 0x5500000;
}

static void local_domain(struct pair *pair, struct ibv_send_wr *wr)
{
	extra_mr = ibv_reg_mr(other_pd, pair->a.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(extra_mr);
	wr->sg_list->lkey = extra_mr->lkey;
}

static void local_bounds(struct pair *pair, struct ibv_send_wr *wr)
{
	wr->sg_list->addr = (uintptr_t)pair->a.buf + SIDE_BUF_BYTES - 7;
}

static void remote_key(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->wr.rdma.rkey ^= 0x5500000;
}

static void remote_atomic_key(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->wr.atomic.rkey ^= 0x5500000;
}

static void remote_domain(struct pair *pair, struct ibv_send_wr *wr)
{
	extra_mr = ibv_reg_mr(other_pd, pair->b.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(extra_mr);
	wr->wr.rdma.rkey = extra_mr->rkey;
}

static void remote_bounds(struct pair *pair, struct ibv_send_wr *wr)
{
	wr->wr.rdma.remote_addr = (uintptr_t)pair->b.buf + SIDE_BUF_BYTES - 7;
}

static void remote_atomic_bounds(struct pair *pair, struct ibv_send_wr *wr)
{
	wr->wr.atomic.remote_addr = (uintptr_t)pair->b.buf + SIDE_BUF_BYTES;
}

static void remote_alignment(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->wr.atomic.remote_addr += 4;
}

static void receive_key(struct pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_sge sge = sge_of(&pair->b, 0, 100);

	(void)wr;
	sge.lkey ^= 0x5500000;
	post_recv_ok(&pair->b, &sge, 1, 2);
}

static void receive_not_writable(struct pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_sge sge;

	(void)wr;
	extra_mr = ibv_reg_mr(api.pd, pair->b.buf, 100, 0);
	assert_non_null(extra_mr);
	sge = sge_of(&pair->b, 0, 100);
	sge.lkey = extra_mr->lkey;
	post_recv_ok(&pair->b, &sge, 1, 2);
}

static void peer_in_error(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)wr;
	assert_int_equal(qp_to_err(pair->b.qp), 0);
}

/* A page that is unmapped after its registration. */
static uint64_t gone_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	extra_mr = ibv_reg_mr(api.pd, page, 4096, ALL_ACCESS);
	assert_non_null(extra_mr);
	assert_int_equal(munmap(page, 4096), 0);
	return (uintptr_t)page;
}

static void remote_memory(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->wr.rdma.remote_addr = gone_page();
	wr->wr.rdma.rkey = extra_mr->rkey;
}

static void local_memory(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	wr->sg_list->addr = gone_page();
	wr->sg_list->lkey = extra_mr->lkey;
}

static void nothing(struct pair *pair, struct ibv_send_wr *wr)
{
	(void)pair;
	(void)wr;
}

#define LOCAL(what, op, how, why)                                                        \
	{                                                                                \
		.name = what, .opcode = op, .spoil = how, .status = IBV_WC_LOC_PROT_ERR, \
		.reason = why, .recv_status = NO_RECV, .event = NO_EVENT                 \
	}
#define REMOTE(what, op, how, says, why, tells)                                          \
	{                                                                                \
		.name = what, .opcode = op, .spoil = how, .status = says, .reason = why, \
		.recv_status = NO_RECV, .responder_errs = true, .event = tells           \
	}

static const struct failure failures[] = {
	LOCAL("unknown lkey, send", IBV_WR_SEND, local_key, REASON_LKEY),
	LOCAL("unknown lkey, write", IBV_WR_RDMA_WRITE, local_key, REASON_LKEY),
	LOCAL("unknown lkey, read", IBV_WR_RDMA_READ, local_key, REASON_LKEY),
	LOCAL("lkey of another domain, send", IBV_WR_SEND, local_domain, REASON_LKEY_PD),
	LOCAL("lkey of another domain, write", IBV_WR_RDMA_WRITE, local_domain, REASON_LKEY_PD),
	LOCAL("sge past the end, send", IBV_WR_SEND, local_bounds, REASON_LKEY_BOUNDS),
	LOCAL("sge past the end, read", IBV_WR_RDMA_READ, local_bounds, REASON_LKEY_BOUNDS),
	LOCAL("own memory unmapped, write", IBV_WR_RDMA_WRITE, local_memory, REASON_MEMORY_GONE),
	LOCAL("own memory unmapped, read", IBV_WR_RDMA_READ, local_memory, REASON_MEMORY_GONE),
	{.name = "read into memory that may not be written",
	 .opcode = IBV_WR_RDMA_READ,
	 .spoil = nothing,
	 .mr_access = IBV_ACCESS_REMOTE_READ,
	 .status = IBV_WC_LOC_PROT_ERR,
	 .reason = REASON_LKEY_ACCESS,
	 .recv_status = NO_RECV,
	 .event = NO_EVENT},
	{.name = "atomic shorter than 8 bytes",
	 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	 .spoil = nothing,
	 .length = 4,
	 .status = IBV_WC_LOC_LEN_ERR,
	 .reason = REASON_MSG_LENGTH,
	 .recv_status = NO_RECV,
	 .event = NO_EVENT},
	{.name = "local invalidate of a region",
	 .opcode = IBV_WR_LOCAL_INV,
	 .spoil = nothing,
	 .status = IBV_WC_MW_BIND_ERR,
	 .reason = REASON_NOT_INVALIDATABLE,
	 .recv_status = NO_RECV,
	 .event = NO_EVENT},
	REMOTE("unknown rkey, write", IBV_WR_RDMA_WRITE, remote_key, IBV_WC_REM_ACCESS_ERR,
	       REASON_RKEY, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("unknown rkey, read", IBV_WR_RDMA_READ, remote_key, IBV_WC_REM_ACCESS_ERR,
	       REASON_RKEY, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("unknown rkey, atomic", IBV_WR_ATOMIC_CMP_AND_SWP, remote_atomic_key,
	       IBV_WC_REM_ACCESS_ERR, REASON_RKEY, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("rkey of another domain, write", IBV_WR_RDMA_WRITE, remote_domain,
	       IBV_WC_REM_ACCESS_ERR, REASON_RKEY_PD, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("rkey of another domain, read", IBV_WR_RDMA_READ, remote_domain,
	       IBV_WC_REM_ACCESS_ERR, REASON_RKEY_PD, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("past the end, write", IBV_WR_RDMA_WRITE, remote_bounds, IBV_WC_REM_ACCESS_ERR,
	       REASON_RKEY_BOUNDS, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("past the end, read", IBV_WR_RDMA_READ, remote_bounds, IBV_WC_REM_ACCESS_ERR,
	       REASON_RKEY_BOUNDS, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("past the end, atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, remote_atomic_bounds,
	       IBV_WC_REM_ACCESS_ERR, REASON_RKEY_BOUNDS, IBV_EVENT_QP_ACCESS_ERR),
	REMOTE("memory unmapped, write", IBV_WR_RDMA_WRITE, remote_memory, IBV_WC_REM_OP_ERR,
	       REASON_MEMORY_GONE, IBV_EVENT_QP_FATAL),
	REMOTE("memory unmapped, read", IBV_WR_RDMA_READ, remote_memory, IBV_WC_REM_OP_ERR,
	       REASON_MEMORY_GONE, IBV_EVENT_QP_FATAL),
	REMOTE("atomic not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, remote_alignment,
	       IBV_WC_REM_INV_REQ_ERR, REASON_ATOMIC_ALIGN, IBV_EVENT_QP_REQ_ERR),
	{.name = "region not writable by peers",
	 .opcode = IBV_WR_RDMA_WRITE,
	 .spoil = nothing,
	 .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .reason = REASON_RKEY_ACCESS,
	 .recv_status = NO_RECV,
	 .responder_errs = true,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{.name = "region not readable by peers",
	 .opcode = IBV_WR_RDMA_READ,
	 .spoil = nothing,
	 .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .reason = REASON_RKEY_ACCESS,
	 .recv_status = NO_RECV,
	 .responder_errs = true,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{.name = "queue pair not writable by peers",
	 .opcode = IBV_WR_RDMA_WRITE,
	 .spoil = nothing,
	 .qp_access = IBV_ACCESS_REMOTE_READ,
	 .status = IBV_WC_REM_INV_REQ_ERR,
	 .reason = REASON_QP_ACCESS,
	 .recv_status = NO_RECV,
	 .responder_errs = true,
	 .event = IBV_EVENT_QP_REQ_ERR},
	{.name = "receive too short",
	 .opcode = IBV_WR_SEND,
	 .spoil = nothing,
	 .length = 101,
	 .recv_length = 100,
	 .status = IBV_WC_REM_INV_REQ_ERR,
	 .reason = REASON_RECV_TOO_SHORT,
	 .recv_status = IBV_WC_LOC_LEN_ERR,
	 .recv_reason = REASON_RECV_TOO_SHORT,
	 .responder_errs = true,
	 .event = NO_EVENT},
	{.name = "receive with an unknown lkey",
	 .opcode = IBV_WR_SEND,
	 .spoil = receive_key,
	 .status = IBV_WC_REM_OP_ERR,
	 .reason = REASON_REMOTE_RECV,
	 .recv_status = IBV_WC_LOC_PROT_ERR,
	 .recv_reason = REASON_LKEY,
	 .responder_errs = true,
	 .event = NO_EVENT},
	{.name = "receive into memory that may not be written",
	 .opcode = IBV_WR_SEND,
	 .spoil = receive_not_writable,
	 .status = IBV_WC_REM_OP_ERR,
	 .reason = REASON_REMOTE_RECV,
	 .recv_status = IBV_WC_LOC_PROT_ERR,
	 .recv_reason = REASON_LKEY_ACCESS,
	 .responder_errs = true,
	 .event = NO_EVENT},
	{.name = "invalidation of a region",
	 .opcode = IBV_WR_SEND_WITH_INV,
	 .spoil = nothing,
	 .recv_length = 100,
	 .status = IBV_WC_REM_ACCESS_ERR,
	 .reason = REASON_NOT_INVALIDATABLE,
	 .recv_status = IBV_WC_LOC_ACCESS_ERR,
	 .recv_reason = REASON_NOT_INVALIDATABLE,
	 .responder_errs = true,
	 .event = IBV_EVENT_QP_ACCESS_ERR},
	{.name = "no receive",
	 .opcode = IBV_WR_SEND,
	 .spoil = nothing,
	 .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 .reason = REASON_RNR,
	 .recv_status = NO_RECV,
	 .event = NO_EVENT},
	{.name = "no receive for an immediate",
	 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	 .spoil = nothing,
	 .status = IBV_WC_RNR_RETRY_EXC_ERR,
	 .reason = REASON_RNR,
	 .recv_status = NO_RECV,
	 .event = NO_EVENT},
	{.name = "peer's queue pair in error, send",
	 .opcode = IBV_WR_SEND,
	 .spoil = peer_in_error,
	 .status = IBV_WC_RETRY_EXC_ERR,
	 .reason = REASON_NO_ANSWER,
	 .recv_status = NO_RECV,
	 .responder_errs = true,
	 .event = NO_EVENT},
	{.name = "peer's queue pair in error, write",
	 .opcode = IBV_WR_RDMA_WRITE,
	 .spoil = peer_in_error,
	 .status = IBV_WC_RETRY_EXC_ERR,
	 .reason = REASON_NO_ANSWER,
	 .recv_status = NO_RECV,
	 .responder_errs = true,
	 .event = NO_EVENT},
};

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	other_pd = ibv_alloc_pd(api.ctx);
	assert_non_null(other_pd);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
	api_close(&api);
	return 0;
}

static void expect_wc(const char *name, struct ibv_cq *cq, uint64_t wr_id,
		      enum ibv_wc_status status, enum reason reason)
{
	struct ibv_wc wc = wc_next(cq);

	if (wc.wr_id != wr_id || wc.status != status || wc.vendor_err != (uint32_t)reason)
		fail_msg("%s: WR %llu says \"%s\", vendor %u; due was WR %llu, \"%s\", vendor %d",
			 name, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			 wc.vendor_err, (unsigned long long)wr_id, ibv_wc_status_str(status),
			 reason);
}

static void run_failure(const struct failure *failure)
{
	struct pair_options options = {.mr_access = failure->mr_access,
				       .qp_access = failure->qp_access};
	struct ibv_sge sge, recv_sge;
	struct ibv_send_wr wr;
	struct pair pair;

	extra_mr = NULL;
	pair_open(&pair, &api, &options);
	sge = sge_of(&pair.a, 0, failure->length ? failure->length : 8);
	wr = send_wr(failure->opcode, &sge, &pair.b, 0, 1);
	if (failure->opcode == IBV_WR_LOCAL_INV || failure->opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = pair.b.mr->rkey;
		wr.num_sge = failure->opcode == IBV_WR_SEND_WITH_INV;
	}
	if (failure->recv_length) {
		recv_sge = sge_of(&pair.b, 0, failure->recv_length);
		post_recv_ok(&pair.b, &recv_sge, 1, 2);
	}
	failure->spoil(&pair, &wr);
	/* The following work request is flushed. */
	post_send_ok(&pair.a, &wr);
	wr.wr_id = 10;
	wr.sg_list = NULL;
	wr.num_sge = 0;
	wr.opcode = IBV_WR_SEND;
	post_send_ok(&pair.a, &wr);
	expect_wc(failure->name, pair.a.cq, 1, failure->status, failure->reason);
	expect_wc(failure->name, pair.a.cq, 10, IBV_WC_WR_FLUSH_ERR, REASON_FLUSHED);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	if (failure->recv_status != NO_RECV)
		expect_wc(failure->name, pair.b.cq, 2, failure->recv_status, failure->recv_reason);
	if (failure->event != NO_EVENT)
		assert_ptr_equal(async_expect(api.ctx, failure->event), pair.b.qp);
	async_none(api.ctx);
	assert_int_equal(qp_state(pair.b.qp), failure->responder_errs ? IBV_QPS_ERR : IBV_QPS_RTS);
	wc_none(pair.a.cq);
	wc_none(pair.b.cq);
	pair_close(&pair);
	if (extra_mr)
		assert_int_equal(ibv_dereg_mr(extra_mr), 0);
}

static void ibv_poll_cq_every_failure_has_its_vendor_err(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		run_failure(&failures[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_poll_cq_every_failure_has_its_vendor_err),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
