/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic WRITE and FLUSH: their effects and their errors. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

#define NEW_OPS (IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE)
#define FLUSHABLE                                                                             \
	{                                                                                     \
		.send_ops_flags = NEW_OPS, .mr_access = ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL, \
		.qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL,               \
	}

static struct ibv_qp_ex *start(struct side *side, uint64_t wr_id)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(side->qp);

	assert_non_null(ex);
	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	return ex;
}

static uint64_t address(const struct side *side, size_t offset)
{
	return (uintptr_t)(side->buf + offset);
}

static int post_atomic_write(struct pair *pair, size_t offset, uint32_t rkey, const void *bytes)
{
	struct ibv_qp_ex *ex = start(&pair->a, 1);

	ibv_wr_atomic_write(ex, rkey, address(&pair->b, offset), bytes);
	return ibv_wr_complete(ex);
}

static int post_flush(struct pair *pair, size_t offset, size_t length, uint8_t types, uint8_t level)
{
	struct ibv_qp_ex *ex = start(&pair->a, 2);

	ibv_wr_flush(ex, pair->b.mr->rkey, address(&pair->b, offset), length, types, level);
	return ibv_wr_complete(ex);
}

static void ibv_post_send_atomic_write_stores_eight_bytes(void **state)
{
	struct pair_options options = FLUSHABLE;
	char bytes[] = "8 bytes.";
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, &options);
	assert_int_equal(post_atomic_write(&pair, 64, pair.b.mr->rkey, bytes), 0);
	memset(bytes, 0, sizeof(bytes));
	wc = wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_memory_equal(pair.b.buf + 63,
			    "\0"
			    "8 bytes.",
			    10);
	/* ibv_post_send() accepts it too, with any number of SGEs. */
	memcpy(pair.a.buf, "in two p", 8);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_ATOMIC_WRITE, &sge, &pair.b, 128, 3);
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_memory_equal(pair.b.buf + 128, "in two p", 9);
	wc_none(pair.b.cq);
	pair_close(&pair);
}

/*
 * Order with preceding and following work requests, with more requests than may be outstanding at
 * once.
 */
static void ibv_post_send_flush_and_atomic_write_keep_order(void **state)
{
	struct pair_options options = FLUSHABLE;
	struct pair pair;

	pair_open(&pair, *state, &options);
	for (uint64_t round = 0; round < 20; round++) {
		struct ibv_qp_ex *ex = start(&pair.a, round);
		uint64_t last = round * 3 + 2;

		ex->wr_flags = 0;
		memset(pair.a.buf, (int)round + 1, 4096);
		ibv_wr_rdma_write(ex, pair.b.mr->rkey, address(&pair.b, 0));
		ibv_wr_set_sge(ex, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 4096);
		ibv_wr_flush(ex, pair.b.mr->rkey, address(&pair.b, 0), 4096, IBV_FLUSH_GLOBAL,
			     IBV_FLUSH_RANGE);
		for (uint64_t i = 0; i < 6; i++) {
			uint64_t value = round * 3 + i % 3;

			ex->wr_flags = i == 5 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_atomic_write(ex, pair.b.mr->rkey, address(&pair.b, 8192), &value);
		}
		assert_int_equal(ibv_wr_complete(ex), 0);
		wc_expect(pair.a.cq, round, IBV_WC_SUCCESS);
		assert_memory_equal(pair.b.buf, pair.a.buf, 4096);
		assert_memory_equal(pair.b.buf + 8192, &last, 8);
	}
	pair_close(&pair);
}

static void ibv_post_send_flush_of_range_and_region_completes(void **state)
{
	struct pair_options options = FLUSHABLE;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 0, SIDE_BUF_BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
			 0);
	wc = wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FLUSH);
	assert_int_equal(wc.byte_len, SIDE_BUF_BYTES);
	/* For a whole region address and length are ignored. */
	assert_int_equal(post_flush(&pair, SIZE_MAX, SIZE_MAX, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR), 0);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_wr_complete_invalid_flush_fails(void **state)
{
	struct pair_options options = FLUSHABLE;
	struct ibv_send_wr wr, *bad;
	struct ibv_qp_ex *ex;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 0, 8, 0, IBV_FLUSH_RANGE), EINVAL);
	assert_int_equal(post_flush(&pair, 0, 8, 4, IBV_FLUSH_RANGE), EINVAL);
	assert_int_equal(post_flush(&pair, 0, 8, IBV_FLUSH_GLOBAL, 2), EINVAL);
	assert_int_equal(post_flush(&pair, 0, SIZE_MAX, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), EINVAL);
	ex = start(&pair.a, 1);
	ibv_wr_flush(ex, 1, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ibv_wr_set_sge(ex, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	/* struct ibv_send_wr cannot describe a FLUSH. */
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_FLUSH, &sge, &pair.b, 0, 1);
	assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

/* As with rxe. librpma concludes from the pointers what the QP supports. */
static void ibv_create_qp_ex_without_flush_has_no_pointers(void **state)
{
	const struct pair_options options = {.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct ibv_qp_ex *ex;
	struct pair pair;

	pair_open(&pair, *state, &options);
	ex = ibv_qp_to_qp_ex(pair.a.qp);
	assert_non_null(ex->wr_rdma_write);
	assert_null(ex->wr_flush);
	assert_null(ex->wr_atomic_write);
	pair_close(&pair);
}

static void expect_refused(struct pair *pair, uint64_t wr_id, enum ibv_wc_status status,
			   enum ibv_event_type event)
{
	struct ibv_context *ctx = pair->b.qp->context;

	wc_expect(pair->a.cq, wr_id, status);
	assert_ptr_equal(async_expect(ctx, event), pair->b.qp);
	async_none(ctx);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	pair_reconnect(pair);
}

static void ibv_post_send_invalid_atomic_write_fails(void **state)
{
	struct pair_options options = FLUSHABLE;
	const char *bytes = "8 bytes.";
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, *state, &options);
	rkey = pair.b.mr->rkey;
	assert_int_equal(post_atomic_write(&pair, 4, rkey, bytes), 0);
	expect_refused(&pair, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(post_atomic_write(&pair, 0, rkey ^ 0x100, bytes), 0);
	expect_refused(&pair, 1, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(post_atomic_write(&pair, SIDE_BUF_BYTES, rkey, bytes), 0);
	expect_refused(&pair, 1, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	/* The requester rejects the length; no request is sent. */
	sge = sge_of(&pair.a, 0, 4);
	wr = send_wr(IBV_WR_ATOMIC_WRITE, &sge, &pair.b, 0, 5);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 5, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(qp_state(pair.b.qp), IBV_QPS_RTS);
	pair_reconnect(&pair);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey ^= 0x100;
	wr = send_wr(IBV_WR_ATOMIC_WRITE, &sge, &pair.b, 0, 6);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 6, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);

	/*
	 * It needs the right of a WRITE, of region and queue pair; the right of atomics is not
	 * sufficient.
	 */
	options.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	pair_open(&pair, *state, &options);
	assert_int_equal(post_atomic_write(&pair, 0, pair.b.mr->rkey, bytes), 0);
	expect_refused(&pair, 1, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	pair_close(&pair);
	options.mr_access = ALL_ACCESS;
	options.qp_access = IBV_ACCESS_REMOTE_ATOMIC;
	pair_open(&pair, *state, &options);
	assert_int_equal(post_atomic_write(&pair, 0, pair.b.mr->rkey, bytes), 0);
	expect_refused(&pair, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(pair.b.buf[0], 0);
	pair_close(&pair);
}

static void ibv_post_send_invalid_flush_fails(void **state)
{
	struct pair_options options = FLUSHABLE;
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 1, SIDE_BUF_BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
			 0);
	expect_refused(&pair, 2, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	/* The queue pair does not permit persistent placement: an invalid request. */
	assert_int_equal(post_flush(&pair, 0, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), 0);
	expect_refused(&pair, 2, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	pair_close(&pair);
	/* The queue pair permits it and the region does not: an access error, for each level. */
	options.qp_access |= IBV_ACCESS_FLUSH_PERSISTENT;
	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 0, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE), 0);
	expect_refused(&pair, 2, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(
		post_flush(&pair, 0, 8, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR), 0);
	expect_refused(&pair, 2, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	pair_close(&pair);
	options.mr_access = ALL_ACCESS;
	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR), 0);
	expect_refused(&pair, 2, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	pair_close(&pair);
	options.qp_access = IBV_ACCESS_REMOTE_WRITE;
	pair_open(&pair, *state, &options);
	assert_int_equal(post_flush(&pair, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR), 0);
	expect_refused(&pair, 2, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	pair_close(&pair);
}

static void ibv_query_device_ex_reports_flush_and_atomic_write(void **state)
{
	const uint64_t flush_global = UINT64_C(1) << 38, flush_persistent = UINT64_C(1) << 39;
	const uint64_t atomic_write = UINT64_C(1) << 40;
	const uint32_t odp = IBV_ODP_SUPPORT_FLUSH | IBV_ODP_SUPPORT_ATOMIC_WRITE;
	struct ibv_device_attr_ex attr;
	struct api *api = *state;
	static char memory[8];

	assert_int_equal(ibv_query_device_ex(api->ctx, NULL, &attr), 0);
	assert_true(attr.device_cap_flags_ex & flush_global);
	assert_true(attr.device_cap_flags_ex & atomic_write);
	assert_false(attr.device_cap_flags_ex & flush_persistent);
	assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps & odp, odp);
	assert_int_equal(attr.odp_caps.per_transport_caps.uc_odp_caps & odp, 0);
	assert_int_equal(attr.xrc_odp_caps & odp, 0);
	assert_null_errno(ibv_reg_mr(api->pd, memory, sizeof(memory), IBV_ACCESS_FLUSH_PERSISTENT),
			  EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_atomic_write_stores_eight_bytes),
		cmocka_unit_test(ibv_post_send_flush_and_atomic_write_keep_order),
		cmocka_unit_test(ibv_post_send_flush_of_range_and_region_completes),
		cmocka_unit_test(ibv_wr_complete_invalid_flush_fails),
		cmocka_unit_test(ibv_create_qp_ex_without_flush_has_no_pointers),
		cmocka_unit_test(ibv_post_send_invalid_atomic_write_fails),
		cmocka_unit_test(ibv_post_send_invalid_flush_fails),
		cmocka_unit_test(ibv_query_device_ex_reports_flush_and_atomic_write),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
