/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each failure of an RC operation: the status on both sides, the state of both queue pairs
 * afterwards, the flush of the following work requests, and the asynchronous event of the
 * responder, if any (IBA 1.x §9.9.2, §10.7.3.1, §11.6.2).
 */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void both_are_in_error(struct pair *pair)
{
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
}

/* Discards the responder's asynchronous events, which are not tested here. */
static void drop_events(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	while (readable_within(ctx->async_fd, 0)) {
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		ibv_ack_async_event(&event);
	}
}

static void ibv_post_send_unknown_lkey_completes_with_loc_prot_err(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct pair pair;

	for (size_t i = 0; i < 4; i++) {
		struct ibv_sge sge, recv;
		struct ibv_send_wr wr;

		pair_open(&pair, *state, NULL);
		recv = sge_of(&pair.b, 0, 64);
		post_recv_ok(&pair.b, &recv, 1, 50);
		sge = sge_of(&pair.a, 0, 8);
		sge.lkey ^= 0x5a5a;
		wr = send_wr(opcodes[i], &sge, &pair.b, 0, 1);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
		pair_close(&pair);
	}
	drop_events(((struct api *)*state)->ctx);
}

static void ibv_post_send_local_range_outside_mr_completes_with_loc_prot_err(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, SIDE_BUF_BYTES - 4, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	sge.addr--;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	sge.addr = UINT64_MAX - 3;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
}

static void ibv_post_send_read_to_read_only_mr_completes_with_loc_prot_err(void **state)
{
	struct pair_options options = {.mr_access = IBV_ACCESS_REMOTE_READ};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
}

static void ibv_post_send_lkey_of_other_pd_completes_with_loc_prot_err(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;

	pair_open(&pair, api, NULL);
	mr = ibv_reg_mr(pd, pair.a.buf, 4096, ALL_ACCESS);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey = mr->lkey;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Performs a one-sided operation that must fail with a remote access error. */
static void access_is_refused(struct pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_send_wr behind[2];
	struct ibv_sge sge = sge_of(&pair->a, 0, 8);
	uint8_t before[64];

	memcpy(before, pair->b.buf, sizeof(before));
	wr->wr_id = 1;
	post_send_ok(&pair->a, wr);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_send_wr *bad;

		/* Whether or not the queue pair is in ERR yet, this request is flushed. */
		behind[i] = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair->b, 0, 2 + i);
		assert_int_equal(ibv_post_send(pair->a.qp, &behind[i], &bad), 0);
	}
	wc_expect(pair->a.cq, 1, IBV_WC_REM_ACCESS_ERR);
	wc_expect(pair->a.cq, 2, IBV_WC_WR_FLUSH_ERR);
	wc_expect(pair->a.cq, 3, IBV_WC_WR_FLUSH_ERR);
	wc_none(pair->a.cq);
	assert_ptr_equal(async_expect(pair->api->ctx, IBV_EVENT_QP_ACCESS_ERR), pair->b.qp);
	both_are_in_error(pair);
	assert_memory_equal(pair->b.buf, before, sizeof(before));
}

static void ibv_post_send_unknown_rkey_completes_with_rem_access_err(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct pair pair;

	for (size_t i = 0; i < 2; i++) {
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		pair_open(&pair, *state, NULL);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(opcodes[i], &sge, &pair.b, 0, 1);
		wr.wr.rdma.rkey ^= 0x5a5a;
		access_is_refused(&pair, &wr);
		pair_close(&pair);
	}
}

/*
 * A requester reads its memory before it sends: its own error comes first, and the peer sees
 * nothing.
 */
static void ibv_post_send_write_with_errors_of_both_sides_completes_with_loc_prot_err(void **state)
{
	for (int is_peer_in_error = 0; is_peer_in_error < 2; is_peer_in_error++) {
		struct ibv_sge sges[2];
		struct ibv_send_wr wr;
		struct pair pair;

		pair_open(&pair, *state, NULL);
		sges[0] = sge_of(&pair.a, 0, 8);
		sges[1] = sge_of(&pair.a, SIDE_BUF_BYTES - 8, 16);
		wr = send_wr(IBV_WR_RDMA_WRITE, sges, &pair.b, 0, 1);
		wr.num_sge = 2;
		if (is_peer_in_error)
			assert_int_equal(qp_to_err(pair.b.qp), 0);
		else
			wr.wr.rdma.rkey ^= 0x5a5a;
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(qp_state(pair.b.qp), is_peer_in_error ? IBV_QPS_ERR : IBV_QPS_RTS);
		async_none(pair.api->ctx);
		pair_close(&pair);
	}
}

static void ibv_post_send_deregistered_rkey_completes_with_rem_access_err(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	mr = ibv_reg_mr(pair.api->pd, pair.b.buf, 4096, ALL_ACCESS);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = mr->rkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	access_is_refused(&pair, &wr);
	pair_close(&pair);
}

static void ibv_post_send_rkey_of_other_pd_completes_with_rem_access_err(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;

	pair_open(&pair, api, NULL);
	mr = ibv_reg_mr(pd, pair.b.buf, 4096, ALL_ACCESS);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = mr->rkey;
	access_is_refused(&pair, &wr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_post_send_remote_range_outside_mr_completes_with_rem_access_err(void **state)
{
	static const struct {
		int64_t offset;
		uint32_t length;
	} ranges[] = {{SIDE_BUF_BYTES - 4, 8}, {-1, 8}, {SIDE_BUF_BYTES, 1}, {INT64_MAX / 2, 8}};
	struct pair pair;

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		pair_open(&pair, *state, NULL);
		sge = sge_of(&pair.a, 0, ranges[i].length);
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
		wr.wr.rdma.remote_addr += (uint64_t)ranges[i].offset;
		access_is_refused(&pair, &wr);
		pair_close(&pair);
	}
}

static void ibv_post_send_without_mr_access_completes_with_rem_access_err(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int without;
	} rows[] = {
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
	};
	struct pair pair;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair_options options = {.mr_access = ALL_ACCESS & ~rows[i].without};
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		pair_open(&pair, *state, &options);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(rows[i].opcode, &sge, &pair.b, 0, 1);
		access_is_refused(&pair, &wr);
		pair_close(&pair);
	}
}

/* The queue pair does not permit the operation: an invalid request, IBA 1.x §9.7.4.1.2. */
static void ibv_post_send_without_qp_access_completes_with_rem_inv_req_err(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int access;
	} rows[] = {
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
	};
	struct pair pair;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair_options options = {.qp_access = rows[i].access};
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		pair_open(&pair, *state, &options);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(rows[i].opcode, &sge, &pair.b, 0, 1);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
		assert_ptr_equal(async_expect(pair.api->ctx, IBV_EVENT_QP_REQ_ERR), pair.b.qp);
		both_are_in_error(&pair);
		pair_close(&pair);
	}
}

static void ibv_post_send_unaligned_atomic_completes_with_rem_inv_req_err(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.b, 4, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
	both_are_in_error(&pair);
	drop_events(pair.api->ctx);
	pair_close(&pair);
}

static void ibv_post_send_longer_than_receive_completes_with_rem_inv_req_err(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	recv = sge_of(&pair.b, 0, 99);
	post_recv_ok(&pair.b, &recv, 1, 20);
	post_recv_ok(&pair.b, &recv, 1, 21);
	sge = sge_of(&pair.a, 0, 100);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 10);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 10, IBV_WC_REM_INV_REQ_ERR);
	wc_expect(pair.b.cq, 20, IBV_WC_LOC_LEN_ERR);
	wc_expect(pair.b.cq, 21, IBV_WC_WR_FLUSH_ERR);
	both_are_in_error(&pair);
	drop_events(pair.api->ctx);
	pair_close(&pair);
}

static void ibv_post_send_invalid_receive_completes_with_rem_op_err(void **state)
{
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	recv = sge_of(&pair.b, 0, 100);
	recv.lkey ^= 0x5a5a;
	post_recv_ok(&pair.b, &recv, 1, 20);
	sge = sge_of(&pair.a, 0, 100);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 10);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 10, IBV_WC_REM_OP_ERR);
	wc_expect(pair.b.cq, 20, IBV_WC_LOC_PROT_ERR);
	both_are_in_error(&pair);
	drop_events(pair.api->ctx);
	pair_close(&pair);
}

static void ibv_post_send_without_receive_completes_with_rnr_retry_exc_err(void **state)
{
	static const uint8_t retries[] = {0, 1, 6};
	struct pair pair;

	for (size_t i = 0; i < sizeof(retries); i++) {
		struct pair_options options = {.rnr_retry = retries[i]};
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		pair_open(&pair, *state, &options);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
		assert_int_equal(qp_state(pair.b.qp), IBV_QPS_RTS);
		pair_close(&pair);
	}
}

static void ibv_post_send_late_receive_completes_after_rnr(void **state)
{
	struct pair_options options = {.rnr_retry = 7};
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 8);
	recv = sge_of(&pair.b, 0, 8);
	for (uint64_t i = 0; i < 20; i++) {
		wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, i);
		post_send_ok(&pair.a, &wr);
		wc_none(pair.a.cq);
		post_recv_ok(&pair.b, &recv, 1, 100 + i);
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
		wc_expect(pair.b.cq, 100 + i, IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}

static void ibv_post_send_no_response_completes_with_retry_exc_err(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	/* The peer is in RESET; then in INIT; then in ERR; then no QP has that number. */
	for (int i = 0; i < 4; i++) {
		pair_open(&pair, api, &options);
		if (i == 1 || i == 2)
			assert_int_equal(qp_to_init(pair.b.qp, IBV_ACCESS_REMOTE_WRITE), 0);
		if (i == 2)
			assert_int_equal(qp_to_err(pair.b.qp), 0);
		assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
		assert_int_equal(qp_to_rtr(pair.a.qp, api,
					   i == 3 ? pair.b.qp->qp_num + 100 : pair.b.qp->qp_num),
				 0);
		assert_int_equal(qp_to_rts(pair.a.qp, 1, 0), 0);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
		pair_close(&pair);
	}
}

/*
 * Also without retries the requester waits for the ACK timeout once: 4.3 s, in which the peer
 * enters RTR.
 */
static void ibv_post_send_without_retries_waits_for_peer(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct api *api = *state;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(qp_to_init(pair.b.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), 0);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_RQ_PSN, &init), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = attr.rq_psn,
		.timeout = 20,
		.max_rd_atomic = 1,
	};
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_none(pair.a.cq);
	assert_int_equal(qp_to_rtr(pair.b.qp, api, pair.a.qp->qp_num), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_post_send_destroyed_peer_completes_with_retry_exc_err(void **state)
{
	struct pair_options options = {.rnr_retry = 7};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
	assert_int_equal(ibv_destroy_cq(pair.a.cq), 0);
	assert_int_equal(ibv_destroy_cq(pair.b.cq), 0);
	assert_int_equal(ibv_dereg_mr(pair.a.mr), 0);
	assert_int_equal(ibv_dereg_mr(pair.b.mr), 0);
	free(pair.a.buf);
	free(pair.b.buf);
}

static void ibv_post_send_unmapped_remote_memory_completes_with_rem_op_err(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;
	void *gone;

	notice_signal_handlers(*state);
	pair_open(&pair, *state, NULL);
	gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(gone != MAP_FAILED);
	mr = ibv_reg_mr(pair.api->pd, gone, 4096, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(munmap(gone, 4096), 0);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.remote_addr = (uintptr_t)gone;
	wr.wr.rdma.rkey = mr->rkey;
	/* The program made an error, but only its queue pair fails: no signal is raised. */
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	drop_events(pair.api->ctx);
	pair_close(&pair);
}

static void ibv_post_send_unsignaled_failure_completes(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.send_flags = 0;
	wr.wr.rdma.rkey ^= 0x5a5a;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
	drop_events(pair.api->ctx);
	pair_close(&pair);
}

static void ibv_modify_qp_reset_after_error_succeeds(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	sge = sge_of(&pair.a, 0, 8);
	for (int i = 0; i < 5; i++) {
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
		wr.wr.rdma.rkey ^= 0x5a5a;
		access_is_refused(&pair, &wr);
		pair_reconnect(&pair);
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 2);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_unknown_lkey_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_post_send_local_range_outside_mr_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_post_send_read_to_read_only_mr_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_post_send_lkey_of_other_pd_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_post_send_unknown_rkey_completes_with_rem_access_err),
		cmocka_unit_test(
			ibv_post_send_write_with_errors_of_both_sides_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_post_send_deregistered_rkey_completes_with_rem_access_err),
		cmocka_unit_test(ibv_post_send_rkey_of_other_pd_completes_with_rem_access_err),
		cmocka_unit_test(
			ibv_post_send_remote_range_outside_mr_completes_with_rem_access_err),
		cmocka_unit_test(ibv_post_send_without_mr_access_completes_with_rem_access_err),
		cmocka_unit_test(ibv_post_send_without_qp_access_completes_with_rem_inv_req_err),
		cmocka_unit_test(ibv_post_send_unaligned_atomic_completes_with_rem_inv_req_err),
		cmocka_unit_test(ibv_post_send_longer_than_receive_completes_with_rem_inv_req_err),
		cmocka_unit_test(ibv_post_send_invalid_receive_completes_with_rem_op_err),
		cmocka_unit_test(ibv_post_send_without_receive_completes_with_rnr_retry_exc_err),
		cmocka_unit_test(ibv_post_send_late_receive_completes_after_rnr),
		cmocka_unit_test(ibv_post_send_no_response_completes_with_retry_exc_err),
		cmocka_unit_test(ibv_post_send_without_retries_waits_for_peer),
		cmocka_unit_test(ibv_post_send_destroyed_peer_completes_with_retry_exc_err),
		cmocka_unit_test(ibv_post_send_unmapped_remote_memory_completes_with_rem_op_err),
		cmocka_unit_test(ibv_post_send_unsignaled_failure_completes),
		cmocka_unit_test(ibv_modify_qp_reset_after_error_succeeds),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
