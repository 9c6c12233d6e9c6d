/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Both QPs are reset and connected again with other PSNs. Messages and responses of the first
 * connection that are still in the FIFOs have no effect on the second one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair.h"

#define WAIT_NS (20 * CLOCK_NS_PER_S)
#define BYTES	8

/* sq_psn of both QPs in the first and the second connection. */
#define OLD_PSN 100
#define NEW_PSN 101

static struct pair pair;
static struct ibv_qp *qps[2];

static void connect_side(int side, uint32_t psn)
{
	pair_connect_to(qps[side], qps[!side]->qp_num, psn, psn);
}

static void reset_side(int side)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(ibv_modify_qp(qps[side], &attr, IBV_QP_STATE), 0);
}

static void open_qps(bool can_reach_memory, uint32_t psn)
{
	pair_open(&pair, can_reach_memory);
	for (int i = 0; i < 2; i++)
		qps[i] = pair_create_qp(&pair.nodes[i], IBV_QPT_RC, NULL);
	connect_side(0, psn);
	connect_side(1, psn);
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

static void post_recv(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[1].buf, BYTES, pair.nodes[1].mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[1], &wr, &bad), 0);
}

static void expect(int side, uint64_t wr_id, enum ibv_wc_status status)
{
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	while (!poll_cq_once(pair.nodes[side].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	assert_int_equal(wc.wr_id, wr_id);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

static void expect_nothing(int side)
{
	struct ibv_wc wc;

	assert_false(poll_cq_once(pair.nodes[side].cq, &wc));
}

/* The SEND 2 of the second connection is complete only when the receive 2 is posted. */
static void expect_second_connection_delivers(void)
{
	expect_nothing(0);
	expect_nothing(1);
	post_recv(2);
	expect(1, 2, IBV_WC_SUCCESS);
	expect(0, 2, IBV_WC_SUCCESS);
	pair_close_connected(&pair, qps);
}

/*
 * The responder executes the SEND of the first connection when it is reset. Then the requester has
 * the second connection.
 */
static void local_reconnect_ack_of_earlier_connection_completes_nothing(void **state)
{
	(void)state;
	open_qps(false, OLD_PSN);
	post_recv(1);
	post(IBV_WR_SEND, 1);
	reset_side(0);
	connect_side(0, NEW_PSN);
	post(IBV_WR_SEND, 2);
	reset_side(1);
	connect_side(1, NEW_PSN);
	for (int i = 0; i < 2; i++)
		node_turn(&pair.nodes[i]);
	expect_second_connection_delivers();
}

/* The same for the READ response, which has the data of the first connection. */
static void local_reconnect_read_response_of_earlier_connection_is_dropped(void **state)
{
	(void)state;
	open_qps(false, OLD_PSN);
	pair.nodes[1].buf[0] = 1;
	post(IBV_WR_RDMA_READ, 1);
	reset_side(0);
	connect_side(0, NEW_PSN);
	post(IBV_WR_RDMA_READ, 2);
	reset_side(1);
	pair.nodes[1].buf[0] = 2;
	connect_side(1, NEW_PSN);
	expect(0, 2, IBV_WC_SUCCESS);
	assert_int_equal(pair.nodes[0].buf[0], 2);
	pair_close_connected(&pair, qps);
}

/* The responder has the second connection when the requester sends on the first one. */
static void local_reconnect_request_of_earlier_connection_is_not_executed(void **state)
{
	(void)state;
	open_qps(false, OLD_PSN);
	reset_side(1);
	connect_side(1, NEW_PSN);
	post_recv(2);
	post(IBV_WR_SEND, 1);
	node_turn(&pair.nodes[1]);
	expect_nothing(1);
	reset_side(0);
	connect_side(0, NEW_PSN);
	post(IBV_WR_SEND, 2);
	expect(1, 2, IBV_WC_SUCCESS);
	expect(0, 2, IBV_WC_SUCCESS);
	pair_close_connected(&pair, qps);
}

/*
 * Both QPs were in RESET before one of them is connected again: a NIC drops all packets of the
 * first connection then.
 */
static void local_reconnect_with_same_psns_drops_what_arrived_in_reset(void **state)
{
	(void)state;
	open_qps(false, OLD_PSN);
	post_recv(1);
	post(IBV_WR_SEND, 1);
	reset_side(0);
	reset_side(1);
	connect_side(0, OLD_PSN);
	connect_side(1, OLD_PSN);
	post(IBV_WR_SEND, 2);
	pair_settle(&pair);
	expect_second_connection_delivers();
}

static void local_reconnect_write_of_earlier_connection_is_not_executed(void **state)
{
	(void)state;
	open_qps(true, OLD_PSN);
	pair.nodes[0].buf[0] = 1;
	post(IBV_WR_RDMA_WRITE, 1);
	expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair.nodes[1].buf[0], 1);
	reset_side(1);
	connect_side(1, NEW_PSN);
	pair.nodes[0].buf[0] = 2;
	post(IBV_WR_RDMA_WRITE, 2);
	expect(0, 2, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(pair.nodes[1].buf[0], 1);
	pair_close_connected(&pair, qps);
}

/* As with a NIC: the responder drops each packet, and the retries are exhausted. */
static void local_reconnect_with_other_psn_than_peer_fails_requester(void **state)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		open_qps(false, OLD_PSN);
		reset_side(0);
		connect_side(0, OLD_PSN + 1);
		post_recv(1);
		post(opcodes[i], 1);
		expect(0, 1, IBV_WC_RETRY_EXC_ERR);
		expect_nothing(1);
		pair_close_connected(&pair, qps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_reconnect_ack_of_earlier_connection_completes_nothing),
		cmocka_unit_test(local_reconnect_read_response_of_earlier_connection_is_dropped),
		cmocka_unit_test(local_reconnect_request_of_earlier_connection_is_not_executed),
		cmocka_unit_test(local_reconnect_with_same_psns_drops_what_arrived_in_reset),
		cmocka_unit_test(local_reconnect_write_of_earlier_connection_is_not_executed),
		cmocka_unit_test(local_reconnect_with_other_psn_than_peer_fails_requester),
	};

	return cmocka_run_group_tests_name("reconnect", tests, NULL, NULL);
}
