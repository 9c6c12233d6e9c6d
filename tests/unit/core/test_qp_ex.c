/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Posting by ibv_wr_* calls: the contents of the send queue, and that a batch is posted completely
 * or not at all.
 */

#include "fake.h"

#include <errno.h>
#include <string.h>

#include "core/object/opcode.h"
#include "core/qp/qp.h"
#include "core/queue/wq.h"

static struct fake fake;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_qp_ex *make(enum ibv_qp_type type, uint64_t ops, enum ibv_qp_state qp_state)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 1,
			.max_send_sge = 3,
			.max_inline_data = 40},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = fake.pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(fake.ctx, &attr);

	assert_non_null(qp);
	fake_walk(qp, qp_state);
	return ibv_qp_to_qp_ex(qp);
}

static const struct send_wqe *wqe_at(struct ibv_qp_ex *ex, uint32_t index)
{
	return sq_wqe(&to_qp(&ex->qp_base)->sq, index);
}

static uint32_t queued(struct ibv_qp_ex *ex)
{
	return to_qp(&ex->qp_base)->sq.head - to_qp(&ex->qp_base)->sq.una;
}

static void ibv_wr_start_every_builder_sets_its_opcode(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_RC, wr_send_ops(IBV_QPT_RC), IBV_QPS_RTS);

	(void)state;
#define BUILDS(call, op, remote, key, imm, first, second)             \
	do {                                                          \
		ex->wr_id = (op) + 1000;                              \
		ex->wr_flags = IBV_SEND_SIGNALED;                     \
		ibv_wr_start(ex);                                     \
		call;                                                 \
		assert_int_equal(ibv_wr_complete(ex), 0);             \
		wqe = wqe_at(ex, to_qp(&ex->qp_base)->sq.head - 1);   \
		assert_int_equal(wqe->opcode, op);                    \
		assert_int_equal(wqe->wr_id, (op) + 1000);            \
		assert_int_equal(wqe->send_flags, IBV_SEND_SIGNALED); \
		assert_int_equal(wqe->remote_addr, remote);           \
		assert_int_equal(wqe->rkey, key);                     \
		assert_int_equal(wqe->imm_data_be, imm);              \
		assert_int_equal(wqe->compare_add, first);            \
		assert_int_equal(wqe->swap, second);                  \
		assert_int_equal(wqe->length_bytes, 0);               \
		engine_lock(&fake.engine);                            \
		sq_retire(to_qp(&ex->qp_base), IBV_WC_SUCCESS, 0);    \
		engine_unlock(&fake.engine);                          \
	} while (0)
	const struct send_wqe *wqe;

	BUILDS(ibv_wr_send(ex), IBV_WR_SEND, 0, 0, 0, 0, 0);
	BUILDS(ibv_wr_send_imm(ex, 5), IBV_WR_SEND_WITH_IMM, 0, 0, 5, 0, 0);
	BUILDS(ibv_wr_send_inv(ex, 6), IBV_WR_SEND_WITH_INV, 0, 0, 6, 0, 0);
	BUILDS(ibv_wr_rdma_write(ex, 7, 8), IBV_WR_RDMA_WRITE, 8, 7, 0, 0, 0);
	BUILDS(ibv_wr_rdma_write_imm(ex, 7, 8, 9), IBV_WR_RDMA_WRITE_WITH_IMM, 8, 7, 9, 0, 0);
	BUILDS(ibv_wr_rdma_read(ex, 7, 8), IBV_WR_RDMA_READ, 8, 7, 0, 0, 0);
	BUILDS(ibv_wr_atomic_cmp_swp(ex, 7, 8, 9, 10), IBV_WR_ATOMIC_CMP_AND_SWP, 8, 7, 0, 9, 10);
	BUILDS(ibv_wr_atomic_fetch_add(ex, 7, 8, 9), IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 7, 0, 9, 0);
	BUILDS(ibv_wr_local_inv(ex, 11), IBV_WR_LOCAL_INV, 0, 0, 11, 0, 0);
#undef BUILDS
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_flush_and_atomic_write_keep_arguments(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_RC, wr_send_ops(IBV_QPT_RC), IBV_QPS_RTS);
	char bytes[] = "8 bytes.";
	const struct send_wqe *wqe;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, 7, 8, bytes);
	ibv_wr_flush(ex, 7, 9, UINT32_MAX, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
		     IBV_FLUSH_RANGE);
	ibv_wr_flush(ex, 7, 9, SIZE_MAX, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	assert_int_equal(ibv_wr_complete(ex), 0);
	memset(bytes, 0, sizeof(bytes));
	wqe = wqe_at(ex, 0);
	assert_int_equal(wqe->opcode, IBV_WR_ATOMIC_WRITE);
	assert_int_equal(wqe->rkey, 7);
	assert_int_equal(wqe->remote_addr, 8);
	assert_int_equal(wqe->length_bytes, 8);
	assert_true(wqe->is_inline);
	assert_memory_equal(wqe->data, "8 bytes.", 8);
	wqe = wqe_at(ex, 1);
	assert_int_equal(wqe->opcode, IBV_WR_FLUSH);
	assert_int_equal(wqe->flush_types, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT);
	assert_int_equal(wqe->flush_level, IBV_FLUSH_RANGE);
	assert_int_equal(wqe->flush_length_bytes, UINT32_MAX);
	assert_int_equal(wqe->length_bytes, 0);
	wqe = wqe_at(ex, 2);
	assert_int_equal(wqe->flush_level, IBV_FLUSH_MR);
	assert_int_equal(wqe->flush_length_bytes, 0);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_set_sge_applies_to_last_wr(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_RC, wr_send_ops(IBV_QPT_RC), IBV_QPS_RTS);
	const struct ibv_sge sges[3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
	struct ibv_data_buf bufs[2] = {{"hello ", 6}, {"world", 5}};
	const struct send_wqe *wqe;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 3, 1, 2);
	ibv_wr_rdma_read(ex, 1, 1);
	ibv_wr_set_sge_list(ex, 3, sges);
	ibv_wr_rdma_write(ex, 1, 1);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, (void *)(uintptr_t) "", 0);
	assert_int_equal(fake_calls.kick, 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(fake_calls.kick, 1);
	wqe = wqe_at(ex, 0);
	assert_true(wqe->num_sge == 1 && !wqe->is_inline && wqe->length_bytes == 2 &&
		    wqe->sge[0].lkey == 3);
	wqe = wqe_at(ex, 1);
	assert_true(wqe->num_sge == 3 && wqe->length_bytes == 2 + 5 + 8);
	assert_memory_equal(wqe->sge, sges, sizeof(sges));
	wqe = wqe_at(ex, 2);
	assert_true(wqe->is_inline && wqe->length_bytes == 11 && wqe->num_sge == 0);
	assert_memory_equal(wqe->data, "hello world", 11);
	assert_int_equal(wqe->send_flags & IBV_SEND_INLINE, IBV_SEND_INLINE);
	wqe = wqe_at(ex, 3);
	assert_true(wqe->is_inline && wqe->length_bytes == 0);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_set_sge_sum_above_32_bits_fails(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND, IBV_QPS_RTS);
	const struct ibv_sge sges[2] = {{1, UINT32_MAX, 3}, {4, 17, 6}};

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 2, sges);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(wqe_at(ex, 0)->length_bytes, UINT32_MAX);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_complete_one_invalid_wr_fails_batch(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_RC,
				    wr_send_ops(IBV_QPT_RC) & ~(uint64_t)IBV_QP_EX_WITH_RDMA_READ,
				    IBV_QPS_RTS);
	uint32_t max_inline = to_qp(&ex->qp_base)->sq.max_inline_bytes;
	uint32_t max_sge = to_qp(&ex->qp_base)->sq.max_sge;
	struct ibv_sge sges[MAX_SGE + 1] = {{0}};
	static uint8_t bytes[MAX_INLINE_BYTES + 1];
	struct ibv_data_buf huge[2] = {{bytes, 1}, {bytes, SIZE_MAX}};

	(void)state;
#define FAILS(call, error)                                    \
	do {                                                  \
		ibv_wr_start(ex);                             \
		ibv_wr_send(ex);                              \
		call;                                         \
		ibv_wr_send(ex);                              \
		ibv_wr_set_sge(ex, 1, 2, 3);                  \
		assert_int_equal(ibv_wr_complete(ex), error); \
		assert_int_equal(queued(ex), 0);              \
	} while (0)
	FAILS(ibv_wr_rdma_read(ex, 1, 2), EINVAL);
	FAILS(ibv_wr_set_sge_list(ex, max_sge + 1, sges), EINVAL);
	FAILS(ibv_wr_set_sge_list(ex, SIZE_MAX, sges), EINVAL);
	FAILS(ibv_wr_set_inline_data(ex, bytes, max_inline + 1), EINVAL);
	FAILS(ibv_wr_set_inline_data_list(ex, 2, huge), EINVAL);
	FAILS((ibv_wr_atomic_fetch_add(ex, 1, 8, 1), ibv_wr_set_inline_data(ex, bytes, 1)), EINVAL);
	FAILS((ibv_wr_local_inv(ex, 1), ibv_wr_set_inline_data(ex, bytes, 1)), EINVAL);
	FAILS(ibv_wr_set_ud_addr(ex, NULL, 1, 1), EINVAL);
	FAILS(ibv_wr_set_xrc_srqn(ex, 1), EINVAL);
	FAILS(ibv_wr_bind_mw(ex, NULL, 1, NULL), EINVAL);
	FAILS(ibv_wr_send_tso(ex, bytes, 1, 1), EOPNOTSUPP);
	FAILS((ibv_wr_atomic_write(ex, 1, 8, bytes), ibv_wr_set_sge(ex, 1, 2, 8)), EINVAL);
	FAILS((ibv_wr_atomic_write(ex, 1, 8, bytes), ibv_wr_set_inline_data(ex, bytes, 8)), EINVAL);
	FAILS((ibv_wr_flush(ex, 1, 8, 8, IBV_FLUSH_GLOBAL, 0), ibv_wr_set_sge(ex, 1, 2, 8)),
	      EINVAL);
	FAILS(ibv_wr_flush(ex, 1, 8, 8, 0, IBV_FLUSH_RANGE), EINVAL);
	FAILS(ibv_wr_flush(ex, 1, 8, 8, 4, IBV_FLUSH_RANGE), EINVAL);
	FAILS(ibv_wr_flush(ex, 1, 8, 8, IBV_FLUSH_GLOBAL, 2), EINVAL);
	FAILS(ibv_wr_flush(ex, 1, 8, (size_t)UINT32_MAX + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	      EINVAL);
	FAILS((ibv_wr_send(ex), ibv_wr_send(ex), ibv_wr_send(ex), ibv_wr_send(ex)), ENOMEM);
#undef FAILS
	assert_int_equal(fake_calls.kick, 0);
	/* The queue works as before. */
	ibv_wr_start(ex);
	for (int i = 0; i < 4; i++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(queued(ex), 4);
	assert_int_equal(fake_calls.kick, 1);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_abort_discards_batch(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_UC, IBV_QP_EX_WITH_SEND, IBV_QPS_RTS);

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	assert_int_equal(queued(ex), 0);
	ibv_wr_start(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(fake_calls.kick, 0);
	/* A setter without a builder is an error. */
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_complete_in_wrong_state_fails(void **state)
{
	struct ibv_qp_ex *ex = make(IBV_QPT_UC, IBV_QP_EX_WITH_SEND, IBV_QPS_RTR);
	struct ibv_wc wc;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(fake_modify(&ex->qp_base, IBV_QPS_ERR), 0);
	ex->wr_id = 12;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_true(wc.wr_id == 12 && wc.status == IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void ibv_wr_start_two_qps_have_separate_batches(void **state)
{
	struct ibv_qp_ex *a = make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND, IBV_QPS_RTS);
	struct ibv_qp_ex *b = make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND, IBV_QPS_RTS);

	(void)state;
	ibv_wr_start(a);
	ibv_wr_send(a);
	ibv_wr_start(b);
	ibv_wr_send(b);
	ibv_wr_send(a);
	assert_int_equal(ibv_wr_complete(a), 0);
	ibv_wr_abort(b);
	assert_int_equal(queued(a), 2);
	assert_int_equal(queued(b), 0);
	assert_true(engine_try_lock(&fake.engine));
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_destroy_qp(&a->qp_base), 0);
	assert_int_equal(ibv_destroy_qp(&b->qp_base), 0);
}

#define EX_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EX_TEST(ibv_wr_start_every_builder_sets_its_opcode),
		EX_TEST(ibv_wr_flush_and_atomic_write_keep_arguments),
		EX_TEST(ibv_wr_set_sge_applies_to_last_wr),
		EX_TEST(ibv_wr_set_sge_sum_above_32_bits_fails),
		EX_TEST(ibv_wr_complete_one_invalid_wr_fails_batch),
		EX_TEST(ibv_wr_abort_discards_batch),
		EX_TEST(ibv_wr_complete_in_wrong_state_fails),
		EX_TEST(ibv_wr_start_two_qps_have_separate_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
