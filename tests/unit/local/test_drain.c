/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The send queue in SQD: WQEs that were started complete, later WQEs wait for RTS (IBA 1.x
 * §10.3.1.5).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

#define BYTES 8u

static struct pair pair;
static struct ibv_qp *qps[2];
static struct ibv_mr *window_mr;
static struct ibv_mw *window;

static int open_drain(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
	window_mr = ibv_reg_mr(pair.nodes[0].pd, pair.nodes[0].buf, PAIR_BUF_BYTES,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	window = ibv_alloc_mw(pair.nodes[0].pd, IBV_MW_TYPE_2);
	assert_non_null(window_mr);
	assert_non_null(window);
	return 0;
}

static int close_drain(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	assert_int_equal(ibv_dealloc_mw(window), 0);
	assert_int_equal(ibv_dereg_mr(window_mr), 0);
	pair_close(&pair);
	return 0;
}

static void post_read(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf, BYTES, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)pair.nodes[1].buf;
	wr.wr.rdma.rkey = pair.nodes[1].mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

static void post_bind(uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.bind_mw.mw = window;
	wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = window_mr,
							 .addr = (uintptr_t)pair.nodes[0].buf,
							 .length = BYTES,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

static void to_state(enum ibv_qp_state qp_state)
{
	struct ibv_qp_attr attr = {.qp_state = qp_state};

	assert_int_equal(ibv_modify_qp(qps[0], &attr, IBV_QP_STATE), 0);
}

/* Asserts that the WRs [first, end) succeed and no other WR completes. */
static void expect_done(uint64_t first, uint64_t end)
{
	struct ibv_wc wc;

	pair_settle(&pair);
	for (; first != end; first++) {
		assert_true(poll_cq_once(pair.nodes[0].cq, &wc));
		assert_int_equal(wc.wr_id, first);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_false(poll_cq_once(pair.nodes[0].cq, &wc));
}

static void local_drain_started_reads_complete_and_later_ones_wait(void **state)
{
	(void)state;
	post_read(0);
	post_read(1);
	to_state(IBV_QPS_SQD);
	post_read(2);
	expect_done(0, 2);
	to_state(IBV_QPS_RTS);
	expect_done(2, 3);
}

/* The bind was executed, but completes only after the READs. */
static void local_drain_started_local_operation_completes_and_later_reads_wait(void **state)
{
	(void)state;
	post_read(0);
	post_read(1);
	post_bind(2);
	to_state(IBV_QPS_SQD);
	post_read(3);
	expect_done(0, 3);
	to_state(IBV_QPS_RTS);
	expect_done(3, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			local_drain_started_reads_complete_and_later_ones_wait, open_drain,
			close_drain),
		cmocka_unit_test_setup_teardown(
			local_drain_started_local_operation_completes_and_later_reads_wait,
			open_drain, close_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
