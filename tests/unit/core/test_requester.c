/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The requester's part that is independent of the transport: order, fence, checks, local
 * operations, failures.
 */

#include "queues.h"

#include <string.h>

#include "core/object/opcode.h"
#include "core/qp/qp.h"
#include "core/queue/requester.h"

static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_mw *window;
static uint8_t memory[64];

static int open_requester(void **state)
{
	queues_open(state);
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	mr = ibv_reg_mr(fake.pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	window = ibv_alloc_mw(fake.pd, IBV_MW_TYPE_2);
	assert_non_null(mr);
	assert_non_null(window);
	return 0;
}

static int close_requester(void **state)
{
	assert_int_equal(ibv_dealloc_mw(window), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return queues_close(state);
}

static struct send_queue *sq(void)
{
	return &to_qp(qp)->sq;
}

static void post(struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	wr.send_flags |= IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void post_bind(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

	wr.bind_mw.mw = window;
	wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
							 .addr = (uintptr_t)memory,
							 .length = sizeof(memory),
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	post(wr);
}

static enum requester_next prepare(uint32_t requests_out, struct requester_error *error)
{
	enum requester_next next;

	engine_lock(&fake.engine);
	next = requester_prepare(to_qp(qp), requests_out, error);
	engine_unlock(&fake.engine);
	return next;
}

/* As a transport that sends the WQE at nxt completely. */
static void send_next(void)
{
	struct requester_error error;

	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_SEND);
	requester_begin(sq());
	sq_wqe(sq(), sq()->nxt++)->state = SEND_WQE_SENT;
}

static void requester_sendable_end_depends_on_state(void **state)
{
	(void)state;
	post_sends(qp, 3);
	assert_int_equal(requester_sendable_end(to_qp(qp)), 3);
	send_next();
	assert_int_equal(sq()->begun, 1);
	fake_modify(qp, IBV_QPS_SQD);
	assert_int_equal(requester_sendable_end(to_qp(qp)), 1);
	/* The started WQE is to be sent again. */
	sq()->nxt = sq()->una;
	assert_int_equal(requester_sendable_end(to_qp(qp)), 1);
	to_qp(qp)->state = IBV_QPS_SQE;
	assert_int_equal(requester_sendable_end(to_qp(qp)), sq()->nxt);
	to_qp(qp)->state = IBV_QPS_SQD;
}

static void requester_fence_waits_for_requests_once(void **state)
{
	struct requester_error error;

	(void)state;
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_FENCE});
	assert_int_equal(prepare(1, &error), REQUESTER_NEXT_WAIT);
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_SEND);
	/* Sent again while a request is outstanding. */
	sq_wqe(sq(), 0)->state = SEND_WQE_SENT;
	assert_int_equal(prepare(1, &error), REQUESTER_NEXT_SEND);
}

static void requester_wrong_lengths_fail(void **state)
{
	struct ibv_sge sge = {(uintptr_t)memory, 4, mr->lkey};
	struct requester_error error;

	(void)state;
	post((struct ibv_send_wr){
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1});
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_FAIL);
	assert_int_equal(error.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(error.vendor_err, VENDOR_ERR_MSG_LENGTH);
	sq_wqe(sq(), 0)->length_bytes = 8;
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_SEND);
	sq_wqe(sq(), 0)->opcode = IBV_WR_ATOMIC_WRITE;
	sq_wqe(sq(), 0)->length_bytes = 9;
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_FAIL);
	sq_wqe(sq(), 0)->opcode = IBV_WR_RDMA_READ;
	sq_wqe(sq(), 0)->length_bytes = MAX_MSG_BYTES;
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_SEND);
	sq_wqe(sq(), 0)->length_bytes = MAX_MSG_BYTES + 1;
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_FAIL);
}

/* The response has 8 bytes; the SGEs may have more. */
static void requester_atomic_with_longer_sge_has_8_bytes(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP};
	struct ibv_sge sge = {(uintptr_t)memory, sizeof(memory), mr->lkey};
	struct requester_error error;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		post((struct ibv_send_wr){.opcode = opcodes[i], .sg_list = &sge, .num_sge = 1});
		send_next();
		assert_int_equal(sq_wqe(sq(), i)->length_bytes, 8);
	}
	/* Also if they have more than the longest message. */
	post((struct ibv_send_wr){.opcode = opcodes[0], .sg_list = &sge, .num_sge = 1});
	sq_wqe(sq(), 2)->length_bytes = UINT32_MAX;
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_SEND);
	assert_int_equal(sq_wqe(sq(), 2)->length_bytes, 8);
}

/* A second bind of a bound type 2 window would fail. */
static void local_operation_is_executed_once(void **state)
{
	struct requester_error error;

	(void)state;
	post_sends(qp, 1);
	send_next();
	post_bind();
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_EXECUTED);
	assert_int_equal(sq()->nxt, 2);
	assert_int_equal(sq_wqe(sq(), 1)->state, SEND_WQE_DONE);
	assert_ptr_equal(to_mw(window)->mr, to_mr(mr));
	/* In SQD the QP waits for its completion, too. */
	assert_int_equal(sq()->begun, 2);
	/* The preceding SEND is sent again. */
	sq()->nxt = sq()->una;
	send_next();
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_EXECUTED);
	assert_int_equal(sq()->nxt, 2);
}

static void requester_failed_local_operation_changes_nothing(void **state)
{
	struct requester_error error;

	(void)state;
	post((struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = window->rkey});
	assert_int_equal(prepare(0, &error), REQUESTER_NEXT_FAIL);
	assert_int_equal(error.status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(error.vendor_err, VENDOR_ERR_NOT_INVALIDATABLE);
	assert_int_equal(sq()->nxt, 0);
	assert_int_equal(sq_wqe(sq(), 0)->state, SEND_WQE_POSTED);
}

static void requester_failure_flushes_later_wqes(void **state)
{
	(void)state;
	post_sends(qp, 3);
	send_next();
	assert_false(requester_is_oldest(sq()));
	engine_lock(&fake.engine);
	requester_fail(to_qp(qp), IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_NO_RESPONSE);
	engine_unlock(&fake.engine);
	assert_true(requester_is_oldest(sq()));
	assert_int_equal(expect_wc(0, IBV_WC_RETRY_EXC_ERR).vendor_err, VENDOR_ERR_NO_RESPONSE);
	expect_flushed(1, 2);
	expect_cq_empty();
	assert_int_equal(to_qp(qp)->state, IBV_QPS_ERR);
}

static void requester_limits_follow_attributes(void **state)
{
	(void)state;
	to_qp(qp)->attr.max_rd_atomic = 0;
	assert_int_equal(requester_depth(to_qp(qp)), 1);
	to_qp(qp)->attr.max_rd_atomic = 9;
	assert_int_equal(requester_depth(to_qp(qp)), 9);
	to_qp(qp)->attr.timeout = 0;
	assert_int_equal(requester_ack_timeout_ns(to_qp(qp)), 0);
	to_qp(qp)->attr.timeout = 1;
	assert_int_equal(requester_ack_timeout_ns(to_qp(qp)), 8192);
	to_qp(qp)->attr.timeout = 31;
	assert_int_equal(requester_ack_timeout_ns(to_qp(qp)), UINT64_C(4096) << 31);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_requester, close_requester)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requester_sendable_end_depends_on_state),
		TEST(requester_fence_waits_for_requests_once),
		TEST(requester_wrong_lengths_fail),
		TEST(requester_atomic_with_longer_sge_has_8_bytes),
		TEST(local_operation_is_executed_once),
		TEST(requester_failed_local_operation_changes_nothing),
		TEST(requester_failure_flushes_later_wqes),
		TEST(requester_limits_follow_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
