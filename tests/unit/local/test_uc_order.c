/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * UC: a WRITE that the requester could execute itself does not precede messages that are still in
 * the FIFO.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

#define BYTES 1024 /* more than an element holds */

static struct pair pair;
static struct ibv_qp *qps[2];

static void post(enum ibv_wr_opcode opcode, uint8_t value)
{
	uint8_t *from = pair.nodes[0].buf + (size_t)value * BYTES;
	struct ibv_sge sge = {(uintptr_t)from, BYTES, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

	for (int i = 0; i < BYTES; i++)
		from[i] = value;
	wr.wr.rdma.remote_addr = (uintptr_t)pair.nodes[1].buf;
	wr.wr.rdma.rkey = pair.nodes[1].mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

static void post_recv(void)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[1].buf, BYTES, pair.nodes[1].mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[1], &wr, &bad), 0);
}

static void expect_data(uint8_t value)
{
	assert_int_equal(pair.nodes[1].buf[0], value);
	assert_int_equal(pair.nodes[1].buf[BYTES - 1], value);
}

static void local_uc_order_write_follows_send(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_UC, true);
	post_recv();
	post(IBV_WR_SEND, 1);
	post(IBV_WR_RDMA_WRITE, 2);
	post(IBV_WR_RDMA_WRITE, 3);
	expect_data(0);
	node_turn(&pair.nodes[1]);
	expect_data(3);
	/* Now the requester executes it. */
	post(IBV_WR_RDMA_WRITE, 4);
	expect_data(4);
	pair_close_connected(&pair, qps);
}

/*
 * The data of a WRITE with immediate that the requester has executed is in place before its element
 * arrives.
 */
static void local_uc_order_write_follows_placed_write_directly(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_UC, true);
	post_recv();
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
	expect_data(1);
	post(IBV_WR_RDMA_WRITE, 2);
	expect_data(2);
	pair_settle(&pair);
	expect_data(2);
	pair_close_connected(&pair, qps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_uc_order_write_follows_send),
		cmocka_unit_test(local_uc_order_write_follows_placed_write_directly),
	};

	return cmocka_run_group_tests_name("uc_order", tests, NULL, NULL);
}
