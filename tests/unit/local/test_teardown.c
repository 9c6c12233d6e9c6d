/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A QP ends within a message or a READ response: the requester's work request fails, and does not
 * wait indefinitely.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "pair.h"

/* More than the FIFO holds, so that a part is always still to be sent. */
#define BYTES	(PAIR_BUF_BYTES - 4096)
#define WAIT_NS (20 * CLOCK_NS_PER_S)

enum ending { ENDS_RESET, ENDS_ERR, ENDS_DESTROY, ENDING_COUNT };

static struct pair pair;
static struct ibv_qp *qps[2];

static void open_qps(void)
{
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
}

static void close_qps(void)
{
	pair_close_connected(&pair, qps);
}

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf, BYTES, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)pair.nodes[1].buf;
	wr.wr.rdma.rkey = pair.nodes[1].mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

static void end_responder(enum ending ending)
{
	struct ibv_qp_attr attr = {.qp_state = ending == ENDS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET};

	if (ending != ENDS_DESTROY) {
		assert_int_equal(ibv_modify_qp(qps[1], &attr, IBV_QP_STATE), 0);
		return;
	}
	assert_int_equal(ibv_destroy_qp(qps[1]), 0);
	qps[1] = NULL;
}

static void expect(uint64_t wr_id, enum ibv_wc_status status)
{
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	while (!poll_cq_once(pair.nodes[0].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	assert_int_equal(wc.wr_id, wr_id);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* ERR reports the end of the receive as well; this test checks the requester. */
static void half_a_message_fails(enum ibv_wr_opcode opcode, enum ending ending)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[1].buf, BYTES, pair.nodes[1].mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[1], &recv, &bad), 0);
	post(opcode, 1);
	post(opcode, 2);
	node_turn(&pair.nodes[1]);
	end_responder(ending);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect(2, IBV_WC_WR_FLUSH_ERR);
}

static void for_all_endings(enum ibv_wr_opcode opcode)
{
	for (int ending = 0; ending < ENDING_COUNT; ending++) {
		open_qps();
		half_a_message_fails(opcode, (enum ending)ending);
		close_qps();
	}
}

static void local_teardown_within_send_fails_requester(void **state)
{
	(void)state;
	for_all_endings(IBV_WR_SEND);
}

static void local_teardown_within_write_fails_requester(void **state)
{
	(void)state;
	for_all_endings(IBV_WR_RDMA_WRITE);
}

static void local_teardown_within_read_response_fails_requester(void **state)
{
	(void)state;
	for_all_endings(IBV_WR_RDMA_READ);
}

/*
 * The response had begun, and the application writes to the memory after it has revoked the right
 * to read it.
 */
static void local_teardown_err_ends_read_response(void **state)
{
	const uint8_t *got;

	(void)state;
	open_qps();
	got = pair.nodes[0].buf;
	memset(pair.nodes[1].buf, 1, BYTES);
	post(IBV_WR_RDMA_READ, 1);
	node_turn(&pair.nodes[1]);
	end_responder(ENDS_ERR);
	memset(pair.nodes[1].buf, 2, BYTES);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(got[0], 1);
	assert_null(memchr(got, 2, BYTES));
	close_qps();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_teardown_within_send_fails_requester),
		cmocka_unit_test(local_teardown_within_write_fails_requester),
		cmocka_unit_test(local_teardown_within_read_response_fails_requester),
		cmocka_unit_test(local_teardown_err_ends_read_response),
	};

	return cmocka_run_group_tests_name("teardown", tests, NULL, NULL);
}
