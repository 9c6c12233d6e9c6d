/* SPDX-License-Identifier: BSD-2-Clause */

/* Work queues: sizes, order, and which WQEs get a completion. */

#include "queues.h"

#include <errno.h>
#include <string.h>

#include "core/qp/qp.h"
#include "core/queue/wq.h"

static void send_queue_init_has_requested_size(void **state)
{
	static const struct ibv_qp_cap asked[] = {
		{.max_send_wr = 0},
		{.max_send_wr = 1, .max_send_sge = 1},
		{.max_send_wr = 5, .max_send_sge = 3, .max_inline_data = 1},
		{.max_send_wr = 64, .max_inline_data = MAX_INLINE_BYTES},
		{.max_send_wr = MAX_QP_WR, .max_send_sge = MAX_SGE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct ibv_qp_cap cap = asked[i];
		struct send_queue sq;

		assert_int_equal(send_queue_init(&sq, &cap, NULL), 0);
		assert_true(cap.max_send_wr >= asked[i].max_send_wr &&
			    cap.max_send_wr <= MAX_QP_WR);
		assert_true(cap.max_send_sge >= 1 && cap.max_send_sge >= asked[i].max_send_sge);
		assert_true(cap.max_inline_data >= asked[i].max_inline_data &&
			    cap.max_inline_data <= MAX_INLINE_BYTES);
		assert_int_equal(cap.max_send_wr == 0, asked[i].max_send_wr == 0);
		/* The last byte of the last WQE is accessible. */
		memset(sq_wqe(&sq, sq.mask), 0x5a, sq.stride);
		send_queue_fini(&sq);
		assert_null(sq.slots);
	}
}

static void recv_queue_init_has_requested_size(void **state)
{
	static const uint32_t wrs[] = {0, 1, 3, 64, MAX_QP_WR}, sges[] = {0, 1, 3, MAX_SGE};

	(void)state;
	for (size_t i = 0; i < sizeof(wrs) / sizeof(wrs[0]); i++) {
		for (size_t k = 0; k < sizeof(sges) / sizeof(sges[0]); k++) {
			uint32_t wr = wrs[i], sge = sges[k];
			struct recv_queue rq;

			assert_int_equal(recv_queue_init(&rq, &wr, &sge, NULL, QUEUE_RECV), 0);
			assert_true(wr >= wrs[i] && sge >= sges[k] && sge >= 1);
			assert_int_equal(wr == 0, wrs[i] == 0);
			memset(rq_wqe(&rq, rq.mask), 0x5a, rq.stride);
			recv_queue_fini(&rq);
			assert_null(rq.slots);
		}
	}
}

static void send_queue_init_above_limits_fails(void **state)
{
	const struct ibv_qp_cap over[] = {{.max_send_wr = MAX_QP_WR + 1},
					  {.max_send_sge = MAX_SGE + 1},
					  {.max_inline_data = MAX_INLINE_BYTES + 1}};
	uint32_t wr = MAX_QP_WR + 1, sge = 1;
	struct recv_queue rq;

	(void)state;
	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		struct ibv_qp_cap cap = over[i];
		struct send_queue sq;

		assert_int_equal(send_queue_init(&sq, &cap, NULL), -EINVAL);
		assert_memory_equal(&cap, &over[i], sizeof(cap));
	}
	assert_int_equal(recv_queue_init(&rq, &wr, &sge, NULL, QUEUE_RECV), -EINVAL);
	wr = 1;
	sge = MAX_SGE + 1;
	assert_int_equal(recv_queue_init(&rq, &wr, &sge, NULL, QUEUE_RECV), -EINVAL);
}

static struct ibv_qp *selective_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 2},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);

	assert_non_null(qp);
	fake_walk(qp, IBV_QPS_RTS);
	return qp;
}

static void post(struct ibv_qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode, unsigned flags)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = opcode, .send_flags = flags}, *bad;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void retire(struct ibv_qp *qp, enum ibv_wc_status status)
{
	engine_lock(&fake.engine);
	sq_retire(to_qp(qp), status, status ? VENDOR_ERR_RKEY : VENDOR_ERR_NONE);
	engine_unlock(&fake.engine);
}

static void sq_retire_completion_has_values_of_wr(void **state)
{
	static const struct {
		enum ibv_wr_opcode wr;
		enum ibv_wc_opcode wc;
	} table[] = {
		{IBV_WR_SEND, IBV_WC_SEND},
		{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
		{IBV_WR_SEND_WITH_INV, IBV_WC_SEND},
		{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
		{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
		{IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV},
	};
	struct ibv_qp *qp = selective_qp();

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ibv_wc wc;

		post(qp, i, table[i].wr, IBV_SEND_SIGNALED);
		sq_wqe(&to_qp(qp)->sq, to_qp(qp)->sq.una)->length_bytes = 1000 + (uint32_t)i;
		retire(qp, IBV_WC_SUCCESS);
		wc = expect_wc(i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, table[i].wc);
		assert_int_equal(wc.byte_len, 1000 + i);
		assert_int_equal(wc.qp_num, qp->qp_num);
		assert_int_equal(wc.vendor_err, VENDOR_ERR_NONE);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void sq_retire_unsignaled_success_has_no_completion(void **state)
{
	struct ibv_qp *qp = selective_qp();

	(void)state;
	post(qp, 1, IBV_WR_SEND, 0);
	post(qp, 2, IBV_WR_SEND, IBV_SEND_SIGNALED);
	post(qp, 3, IBV_WR_SEND, 0);
	retire(qp, IBV_WC_SUCCESS);
	expect_cq_empty();
	retire(qp, IBV_WC_SUCCESS);
	(void)expect_wc(2, IBV_WC_SUCCESS);
	/* A failure creates a completion, also of an unsignalled WR. */
	retire(qp, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(expect_wc(3, IBV_WC_REM_ACCESS_ERR).vendor_err, VENDOR_ERR_RKEY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The limits of [una, nxt) and [nxt, begun) never fall behind the completed WQEs; indices wrap. */
static void sq_retire_indices_never_fall_behind(void **state)
{
	struct ibv_qp *qp = selective_qp();
	struct send_queue *sq = &to_qp(qp)->sq;

	(void)state;
	sq->una = sq->nxt = sq->begun = sq->head = UINT32_MAX - 1;
	for (uint64_t i = 0; i < 4; i++)
		post(qp, i, IBV_WR_SEND, 0);
	assert_int_equal(sq->head, 2);
	retire(qp, IBV_WC_SUCCESS);
	assert_int_equal(sq->una, UINT32_MAX);
	assert_int_equal(sq->nxt, UINT32_MAX);
	assert_int_equal(sq->begun, UINT32_MAX);
	sq->nxt = 1;
	sq->begun = 2;
	retire(qp, IBV_WC_SUCCESS);
	assert_int_equal(sq->una, 0);
	assert_int_equal(sq->nxt, 1);
	assert_int_equal(sq->begun, 2);
	engine_lock(&fake.engine);
	sq_flush(to_qp(qp));
	engine_unlock(&fake.engine);
	expect_flushed(2, 2);
	assert_int_equal(sq->una, sq->head);
	assert_int_equal(sq->nxt, sq->head);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void sq_cut_discards_wqes(void **state)
{
	struct ibv_qp *qp = selective_qp();

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		post(qp, i, IBV_WR_SEND, IBV_SEND_SIGNALED);
	engine_lock(&fake.engine);
	sq_cut(to_qp(qp), 1);
	sq_flush(to_qp(qp));
	engine_unlock(&fake.engine);
	expect_flushed(0, 1);
	expect_cq_empty();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void rq_take_returns_receives_in_order(void **state)
{
	struct ibv_qp *qp = selective_qp();
	struct ibv_sge sge[2] = {{1, 10, 3}, {2, 20, 4}};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = sge, .num_sge = 2}, *bad;
	struct recv_taken taken;
	uint64_t room_bytes = 99;

	(void)state;
	engine_lock(&fake.engine);
	assert_false(rq_peek(to_qp(qp), &room_bytes));
	assert_false(rq_take(to_qp(qp), &taken));
	engine_unlock(&fake.engine);
	assert_int_equal(room_bytes, 99);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	wr.wr_id = 8;
	wr.num_sge = 0;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	engine_lock(&fake.engine);
	assert_true(rq_peek(to_qp(qp), &room_bytes));
	assert_int_equal(room_bytes, 30);
	assert_true(rq_take(to_qp(qp), &taken));
	assert_int_equal(taken.wr_id, 7);
	assert_int_equal(taken.num_sge, 2);
	assert_memory_equal(taken.sge, sge, sizeof(sge));
	assert_true(rq_peek(to_qp(qp), &room_bytes));
	assert_int_equal(room_bytes, 0);
	rq_flush(to_qp(qp));
	engine_unlock(&fake.engine);
	expect_flushed(8, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A shared queue exists longer than its QPs: only its owner empties it. */
static void rq_flush_srq_keeps_receives(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0}};
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &attr);
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct recv_taken taken;
	uint64_t room_bytes;
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(srq);
	qp = fake_qp(&fake, IBV_QPT_RC, srq);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	engine_lock(&fake.engine);
	rq_flush(to_qp(qp));
	assert_true(rq_peek(to_qp(qp), &room_bytes));
	assert_true(rq_take(to_qp(qp), &taken));
	engine_unlock(&fake.engine);
	assert_int_equal(taken.wr_id, 7);
	expect_cq_empty();
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUES_TEST(send_queue_init_has_requested_size),
		QUEUES_TEST(recv_queue_init_has_requested_size),
		QUEUES_TEST(send_queue_init_above_limits_fails),
		QUEUES_TEST(sq_retire_completion_has_values_of_wr),
		QUEUES_TEST(sq_retire_unsignaled_success_has_no_completion),
		QUEUES_TEST(sq_retire_indices_never_fall_behind),
		QUEUES_TEST(sq_cut_discards_wqes),
		QUEUES_TEST(rq_take_returns_receives_in_order),
		QUEUES_TEST(rq_flush_srq_keeps_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
