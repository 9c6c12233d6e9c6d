/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: binding, the access that they permit, invalidation, and every error of each. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

#define WINDOW_AT     4096
#define WINDOW_BYTES  1024
#define REMOTE_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct pair_options options = {
	.mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND,
};

/* The part of side b's buffer that a window covers. */
static struct ibv_mw_bind_info part_of(const struct side *side, unsigned int access)
{
	return (struct ibv_mw_bind_info){.mr = side->mr,
					 .addr = (uintptr_t)side->buf + WINDOW_AT,
					 .length = WINDOW_BYTES,
					 .mw_access_flags = access};
}

static void bind_type1(struct side *side, struct ibv_mw *mw, struct ibv_mw_bind_info info,
		       enum ibv_wc_status status)
{
	struct ibv_mw_bind bind = {.wr_id = 70, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	uint32_t rkey = mw->rkey;
	struct ibv_wc wc;

	assert_int_equal(ibv_bind_mw(side->qp, mw, &bind), 0);
	assert_int_not_equal(mw->rkey, rkey);
	wc = wc_expect(side->cq, 70, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
}

static struct ibv_send_wr bind_wr(struct ibv_mw *mw, uint32_t rkey, struct ibv_mw_bind_info info)
{
	return (struct ibv_send_wr){
		.wr_id = 71,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = info},
	};
}

static void bind_type2(struct side *side, struct ibv_mw *mw, uint32_t rkey,
		       struct ibv_mw_bind_info info, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = bind_wr(mw, rkey, info);

	post_send_ok(side, &wr);
	wc_expect(side->cq, 71, status);
}

static void invalidate(struct side *side, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = {.wr_id = 72,
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey};
	struct ibv_wc wc;

	post_send_ok(side, &wr);
	wc = wc_expect(side->cq, 72, status);
	if (status == IBV_WC_SUCCESS)
		assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
}

/* Side a performs this operation at `offset` of side b's buffer with rkey. */
static void access_with(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t rkey,
			uint64_t offset, uint32_t length, enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_of(&pair->a, 0, length);
	struct ibv_send_wr wr = send_wr(opcode, &sge, &pair->b, offset, 1);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey = rkey;
	else
		wr.wr.rdma.rkey = rkey;
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, 1, status);
}

static void ibv_bind_mw_range_limits_access(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	bind_type1(&pair.b, mw, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	fill_pattern(pair.a.buf, WINDOW_BYTES, 1);
	access_with(&pair, IBV_WR_RDMA_WRITE, mw->rkey, WINDOW_AT, WINDOW_BYTES, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf + WINDOW_AT, pair.a.buf, WINDOW_BYTES);
	memset(pair.a.buf, 0, WINDOW_BYTES);
	access_with(&pair, IBV_WR_RDMA_READ, mw->rkey, WINDOW_AT, WINDOW_BYTES, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf + WINDOW_AT, pair.a.buf, WINDOW_BYTES);
	memset(pair.b.buf + WINDOW_AT, 0, 8);
	access_with(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mw->rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, mw->rkey, WINDOW_AT - 1, 8, IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(&pair);
	access_with(&pair, IBV_WR_RDMA_WRITE, mw->rkey, WINDOW_AT + WINDOW_BYTES - 4, 8,
		    IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_bind_mw_access_flags_are_kept(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	bind_type1(&pair.b, mw, part_of(&pair.b, IBV_ACCESS_REMOTE_READ), IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, mw->rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_WRITE, mw->rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_bind_mw_again_invalidates_old_rkey(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t old;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	bind_type1(&pair.b, mw, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	old = mw->rkey;
	bind_type1(&pair.b, mw, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, mw->rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, old, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(&pair);
	/* A bind of length 0. */
	bind_type1(&pair.b, mw, (struct ibv_mw_bind_info){0}, IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, mw->rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_post_send_bind_mw_and_local_inv_complete(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	bind_type2(&pair.b, mw, rkey, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	invalidate(&pair.b, rkey, IBV_WC_SUCCESS);
	rkey = ibv_inc_rkey(rkey);
	bind_type2(&pair.b, mw, rkey, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	invalidate(&pair.b, rkey, IBV_WC_SUCCESS);
	access_with(&pair, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_bind_mw_zero_based_starts_at_0(void **state)
{
	struct ibv_mw_bind_info info;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	info = part_of(&pair.b, REMOTE_ACCESS | IBV_ACCESS_ZERO_BASED);
	bind_type2(&pair.b, mw, rkey, info, IBV_WC_SUCCESS);
	fill_pattern(pair.a.buf, 64, 9);
	sge = sge_of(&pair.a, 0, 64);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = 16;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf + WINDOW_AT + 16, pair.a.buf, 64);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_post_send_send_with_inv_invalidates_window(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge, recv;
	struct ibv_wc wc;
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	bind_type2(&pair.b, mw, rkey, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	recv = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, &recv, 1, 5);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND_WITH_INV, &sge, &pair.b, 0, 1);
	wr.invalidate_rkey = rkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair.b.cq, 5, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	access_with(&pair, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

/* Errors that a bind reports only when the WQE is executed. */
static void ibv_post_send_invalid_bind_completes_with_mw_bind_err(void **state)
{
	struct api *api = *state;
	struct ibv_pd *other_pd = ibv_alloc_pd(api->ctx);
	struct ibv_mw_bind_info info;
	struct ibv_mr *plain, *read_only;
	struct ibv_mw *mw, *other;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, api, &options);
	mw = ibv_alloc_mw(api->pd, IBV_MW_TYPE_2);
	other = ibv_alloc_mw(other_pd, IBV_MW_TYPE_2);
	plain = ibv_reg_mr(api->pd, pair.b.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	read_only = ibv_reg_mr(api->pd, pair.b.buf, SIDE_BUF_BYTES, IBV_ACCESS_MW_BIND);
	rkey = ibv_inc_rkey(mw->rkey);

	info = part_of(&pair.b, REMOTE_ACCESS);
	info.mr = plain; /* without IBV_ACCESS_MW_BIND */
	bind_type2(&pair.b, mw, rkey, info, IBV_WC_MW_BIND_ERR);
	assert_int_equal(qp_state(pair.b.qp), IBV_QPS_ERR);
	pair_reconnect(&pair);
	info.mr = read_only;
	bind_type2(&pair.b, mw, rkey, info, IBV_WC_MW_BIND_ERR);
	pair_reconnect(&pair);
	info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	bind_type2(&pair.b, mw, rkey, info, IBV_WC_SUCCESS);
	/* The window is bound already. */
	bind_type2(&pair.b, mw, ibv_inc_rkey(rkey), info, IBV_WC_MW_BIND_ERR);
	pair_reconnect(&pair);
	info = part_of(&pair.b, REMOTE_ACCESS);
	bind_type2(&pair.b, other, ibv_inc_rkey(other->rkey), info, IBV_WC_MW_BIND_ERR);
	pair_reconnect(&pair);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	mw = ibv_alloc_mw(api->pd, IBV_MW_TYPE_1);
	info.length = SIDE_BUF_BYTES;
	bind_type1(&pair.b, mw, info, IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_mw(other), 0);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(read_only), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
}

/*
 * Side a writes `value` with the rkey on UC. A SEND that follows shows that the WRITE was
 * processed.
 */
static void uc_write(struct pair *pair, uint32_t rkey, int value)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, NULL, NULL, 0, 3);

	post_recv_ok(&pair->b, NULL, 0, 2);
	memset(pair->a.buf, value, 8);
	access_with(pair, IBV_WR_RDMA_WRITE, rkey, WINDOW_AT, 8, IBV_WC_SUCCESS);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, 3, IBV_WC_SUCCESS);
	wc_expect(pair->b.cq, 2, IBV_WC_SUCCESS);
}

static void ibv_post_send_uc_local_inv_ends_access(void **state)
{
	struct pair_options uc = options;
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	uc.type = IBV_QPT_UC;
	pair_open(&pair, *state, &uc);
	mw = ibv_alloc_mw(pair.b.mr->pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	rkey = ibv_inc_rkey(mw->rkey);
	bind_type2(&pair.b, mw, rkey, part_of(&pair.b, IBV_ACCESS_REMOTE_WRITE), IBV_WC_SUCCESS);
	uc_write(&pair, rkey, 0x77);
	assert_int_equal(pair.b.buf[WINDOW_AT], 0x77);
	invalidate(&pair.b, rkey, IBV_WC_SUCCESS);
	uc_write(&pair, rkey, 0x88);
	assert_int_equal(pair.b.buf[WINDOW_AT], 0x77);
	assert_int_equal(qp_state(pair.b.qp), IBV_QPS_RTS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_post_send_local_inv_of_other_key_completes_with_mw_bind_err(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	bind_type1(&pair.b, mw, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	invalidate(&pair.b, mw->rkey, IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_reconnect(&pair);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	invalidate(&pair.b, mw->rkey, IBV_WC_MW_BIND_ERR);
	pair_reconnect(&pair);
	invalidate(&pair.b, pair.b.mr->rkey, IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

/* A type 2 window belongs to the QP on which it was bound, and is invalidated with it. */
static void ibv_destroy_qp_invalidates_type_2_window(void **state)
{
	struct pair pair, second;
	struct ibv_mw *mw;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	pair_open(&second, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	bind_type2(&pair.b, mw, rkey, part_of(&second.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	access_with(&second, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(second.b.mr), EBUSY);
	pair_close(&pair);
	pair_reconnect(&second);
	access_with(&second, IBV_WR_RDMA_READ, rkey, WINDOW_AT, 8, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&second);
}

static void ibv_dereg_mr_with_window_fails_with_ebusy(void **state)
{
	struct pair pair;
	struct ibv_mw *mw;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	bind_type1(&pair.b, mw, part_of(&pair.b, REMOTE_ACCESS), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(pair.b.mr), EBUSY);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(pair.b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(ibv_dealloc_pd(pair.api->pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_bind_mw_invalid_argument_fails(void **state)
{
	struct api *api = *state;
	struct ibv_pd *other_pd = ibv_alloc_pd(api->ctx);
	struct ibv_mw_bind bind = {.wr_id = 1};
	struct ibv_mw_bind_info info;
	struct ibv_mw *type1, *type2, *foreign;
	struct ibv_send_wr wr, *bad;
	struct pair pair;

	pair_open(&pair, api, &options);
	type1 = ibv_alloc_mw(api->pd, IBV_MW_TYPE_1);
	type2 = ibv_alloc_mw(api->pd, IBV_MW_TYPE_2);
	foreign = ibv_alloc_mw(other_pd, IBV_MW_TYPE_1);
	assert_null_errno(ibv_alloc_mw(api->pd, (enum ibv_mw_type)3), EINVAL);
	assert_null_errno(ibv_alloc_mw(api->pd, (enum ibv_mw_type)0), EINVAL);

	bind.bind_info = part_of(&pair.b, REMOTE_ACCESS);
	assert_int_equal(ibv_bind_mw(pair.b.qp, type2, &bind), EINVAL);
	assert_int_equal(ibv_bind_mw(pair.b.qp, foreign, &bind), EPERM);
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(ibv_bind_mw(pair.b.qp, type1, &bind), EINVAL);
	bind.bind_info = (struct ibv_mw_bind_info){.length = 1};
	assert_int_equal(ibv_bind_mw(pair.b.qp, type1, &bind), EINVAL);
	bind.bind_info = part_of(&pair.b, REMOTE_ACCESS);
	bind.send_flags = IBV_SEND_INLINE;
	assert_int_equal(ibv_bind_mw(pair.b.qp, type1, &bind), EINVAL);

	info = part_of(&pair.b, REMOTE_ACCESS);
#define REFUSED(mw, rkey)                                                      \
	do {                                                                   \
		wr = bind_wr(mw, rkey, info);                                  \
		assert_int_equal(ibv_post_send(pair.b.qp, &wr, &bad), EINVAL); \
		assert_ptr_equal(bad, &wr);                                    \
	} while (0)
	REFUSED(type1, type1->rkey);
	REFUSED(type2, type2->rkey + 0x100);
	REFUSED(NULL, 1);
	info.mw_access_flags = IBV_ACCESS_MW_BIND;
	REFUSED(type2, type2->rkey);
	info = part_of(&pair.b, REMOTE_ACCESS);
	info.length = 0;
	REFUSED(type2, type2->rkey);
	info.length = 1;
	info.mr = NULL;
	REFUSED(type2, type2->rkey);
#undef REFUSED
	assert_int_equal(ibv_dealloc_mw(type1), 0);
	assert_int_equal(ibv_dealloc_mw(type2), 0);
	assert_int_equal(ibv_dealloc_mw(foreign), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
}

/*
 * Local operations between messages that wait for their responses are executed in order, and once.
 */
static void ibv_post_send_bind_mw_keeps_order_among_messages(void **state)
{
	enum { ROUNDS = 16 };
	struct pair_options ring = options;
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	ring.rnr_retry = 7;
	pair_open(&pair, *state, &ring);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = mw->rkey;
	sge = sge_of(&pair.a, 0, 8);
	recv = sge_of(&pair.b, 0, 64);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		wr = send_wr(IBV_WR_SEND, &sge, &pair.b, 0, 3 * i);
		post_send_ok(&pair.a, &wr);
		rkey = ibv_inc_rkey(rkey);
		wr = bind_wr(mw, rkey, part_of(&pair.a, REMOTE_ACCESS));
		wr.wr_id = 3 * i + 1;
		post_send_ok(&pair.a, &wr);
		wr = (struct ibv_send_wr){.wr_id = 3 * i + 2,
					  .opcode = IBV_WR_LOCAL_INV,
					  .send_flags = IBV_SEND_SIGNALED,
					  .invalidate_rkey = rkey};
		post_send_ok(&pair.a, &wr);
	}
	/* The first send finds no receive, so all following ones may be retransmitted. */
	for (uint64_t i = 0; i < ROUNDS; i++)
		post_recv_ok(&pair.b, &recv, 1, 100 + i);
	for (uint64_t i = 0; i < 3 * ROUNDS; i++)
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_wr_bind_mw_binds_window(void **state)
{
	struct pair_options with_ops = options;
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *ex;
	struct pair pair;
	struct ibv_mw *mw;
	uint32_t rkey;

	with_ops.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_RDMA_READ;
	pair_open(&pair, *state, &with_ops);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	info = part_of(&pair.b, REMOTE_ACCESS);
	ex = ibv_qp_to_qp_ex(pair.b.qp);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, rkey, &info);
	ex->wr_id = 2;
	ibv_wr_local_inv(ex, rkey);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, NULL, rkey, &info);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static int set_up(void **state)
{
	static struct api api;

	api_open(&api);
	*state = &api;
	return 0;
}

static int tear_down(void **state)
{
	struct api *api = *state;
	struct ibv_async_event event;

	while (readable_within(api->ctx->async_fd, 0)) {
		assert_int_equal(ibv_get_async_event(api->ctx, &event), 0);
		ibv_ack_async_event(&event);
	}
	api_close(api);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ibv_bind_mw_range_limits_access),
		CASE(ibv_bind_mw_access_flags_are_kept),
		CASE(ibv_bind_mw_again_invalidates_old_rkey),
		CASE(ibv_post_send_bind_mw_and_local_inv_complete),
		CASE(ibv_bind_mw_zero_based_starts_at_0),
		CASE(ibv_post_send_send_with_inv_invalidates_window),
		CASE(ibv_post_send_invalid_bind_completes_with_mw_bind_err),
		CASE(ibv_post_send_uc_local_inv_ends_access),
		CASE(ibv_post_send_local_inv_of_other_key_completes_with_mw_bind_err),
		CASE(ibv_destroy_qp_invalidates_type_2_window),
		CASE(ibv_dereg_mr_with_window_fails_with_ebusy),
		CASE(ibv_bind_mw_invalid_argument_fails),
		CASE(ibv_post_send_bind_mw_keeps_order_among_messages),
		CASE(ibv_wr_bind_mw_binds_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
