/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path MTUs that differ, in messages of the FIFO. Processes of different users exchange nothing
 * else, so that the FIFO has to contain what they compare.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/util.h"
#include "core/object/vendor_err.h"
#include "pair.h"

#define FROM 0u
#define TO   (1u << 20)

static struct pair pair;
static struct ibv_qp *qps[2];

/* The path MTU of node 1 is 1024. */
static void path_mtu_open(enum ibv_qp_type type, unsigned int path_mtu)
{
	pair_open_connected(&pair, qps, type, false);
	to_qp(qps[0])->attr.path_mtu = path_mtu;
	memset(pair.nodes[0].buf, 0x5a, TO);
	memset(pair.nodes[1].buf, 0xa5, TO);
}

static struct ibv_sge path_mtu_sge(const struct node *node, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)node->buf + FROM, bytes, node->mr->lkey};
}

/* Sends a message of this length; returns the sender's completion. */
static struct ibv_wc path_mtu_transfer(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge from = path_mtu_sge(&pair.nodes[0], bytes);
	struct ibv_sge to = path_mtu_sge(&pair.nodes[1], TO);
	struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &from,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)pair.nodes[1].buf + FROM, pair.nodes[1].mr->rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (opcode == IBV_WR_SEND)
		assert_int_equal(ibv_post_recv(qps[1], &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
	pair_settle(&pair);
	assert_true(poll_cq_once(pair.nodes[0].cq, &wc));
	assert_int_equal(wc.wr_id, 1);
	return wc;
}

static void local_message_above_smaller_path_mtu_is_refused(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ};
	static const unsigned int path_mtus[] = {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096};
	static const uint32_t lengths[] = {1, 24, 25, 256, 257, 1024, 1025, 20000, 300000};

	(void)state;
	for (size_t i = 0; i < COUNT(opcodes) * COUNT(path_mtus) * COUNT(lengths); i++) {
		enum ibv_wr_opcode opcode = opcodes[i % COUNT(opcodes)];
		unsigned int path_mtu = path_mtus[i / COUNT(opcodes) % COUNT(path_mtus)];
		uint32_t bytes = lengths[i / COUNT(opcodes) / COUNT(path_mtus)];
		uint32_t smaller = min_u32(mtu_code_bytes(path_mtu), 1024);
		bool is_read = opcode == IBV_WR_RDMA_READ;
		struct ibv_wc wc;

		path_mtu_open(IBV_QPT_RC, path_mtu);
		wc = path_mtu_transfer(opcode, bytes);
		if (path_mtu == IBV_MTU_1024 || bytes <= smaller) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_memory_equal(pair.nodes[0].buf, pair.nodes[1].buf, bytes);
		} else {
			assert_int_equal(wc.status,
					 is_read ? IBV_WC_BAD_RESP_ERR : IBV_WC_REM_INV_REQ_ERR);
			assert_int_equal(wc.vendor_err, VENDOR_ERR_PATH_MTU);
			assert_int_equal(to_qp(qps[1])->state, is_read ? IBV_QPS_RTS : IBV_QPS_ERR);
			assert_int_equal(pair.nodes[is_read ? 0 : 1].buf[0], is_read ? 0x5a : 0xa5);
		}
		pair_close_connected(&pair, qps);
	}
}

static void local_uc_message_above_smaller_path_mtu_is_dropped(void **state)
{
	(void)state;
	path_mtu_open(IBV_QPT_UC, IBV_MTU_256);
	assert_int_equal(path_mtu_transfer(IBV_WR_RDMA_WRITE, 20000).status, IBV_WC_SUCCESS);
	assert_int_equal(pair.nodes[1].buf[0], 0xa5);
	assert_int_equal(to_qp(qps[1])->state, IBV_QPS_RTS);
	assert_int_equal(path_mtu_transfer(IBV_WR_RDMA_WRITE, 256).status, IBV_WC_SUCCESS);
	assert_memory_equal(pair.nodes[0].buf, pair.nodes[1].buf, 256);
	pair_close_connected(&pair, qps);
}

/* The peer can write any value into the FIFO. */
static void local_message_invalid_path_mtu_is_refused(void **state)
{
	static const unsigned int invalid[] = {0, IBV_MTU_4096 + 1, 32, UINT8_MAX};

	(void)state;
	for (size_t i = 0; i < COUNT(invalid); i++) {
		path_mtu_open(IBV_QPT_RC, invalid[i]);
		assert_int_equal(path_mtu_transfer(IBV_WR_RDMA_WRITE, 1025).status,
				 IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(pair.nodes[1].buf[0], 0xa5);
		pair_close_connected(&pair, qps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_message_above_smaller_path_mtu_is_refused),
		cmocka_unit_test(local_uc_message_above_smaller_path_mtu_is_dropped),
		cmocka_unit_test(local_message_invalid_path_mtu_is_refused),
	};

	return cmocka_run_group_tests_name("local/path_mtu", tests, NULL, NULL);
}
