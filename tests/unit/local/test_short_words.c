/* SPDX-License-Identifier: BSD-2-Clause */

/* A kernel that copies words in parts: operations with such words go through the FIFO. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_words.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "pair.h"

static struct pair pair;
static struct ibv_qp *qps[2];

static int setup(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close_connected(&pair, qps);
	return 0;
}

/* Executes one operation. Returns whether the initiator has accessed the peer's memory. */
static bool is_direct(enum ibv_wr_opcode opcode, size_t at, uint32_t bytes)
{
	uint64_t *counters = local_of(&pair.nodes[0].engine)->counters;
	uint64_t before = counters[LOCAL_ONESIDED];
	struct node *from = &pair.nodes[0], *to = &pair.nodes[1];
	struct ibv_sge sge = {(uintptr_t)from->buf + at, bytes, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	memset(from->buf, 1, 128);
	memset(to->buf, 2, 128);
	wr.wr.rdma.remote_addr = (uintptr_t)to->buf + at;
	wr.wr.rdma.rkey = to->mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
	pair_settle(&pair);
	assert_true(poll_cq_once(from->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(from->buf + at, to->buf + at, bytes);
	return counters[LOCAL_ONESIDED] != before;
}

static void local_short_words_are_left_to_the_owner(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	(void)state;
	if (!guarded_copy_is_available())
		skip();
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		kernel_words = KERNEL_WORDS_LONG;
		assert_false(is_direct(opcodes[i], 8, 4));
		assert_false(is_direct(opcodes[i], 10, 2));
		assert_false(is_direct(opcodes[i], 8, 12));
		assert_false(is_direct(opcodes[i], 4, 68));
		assert_true(is_direct(opcodes[i], 8, 8));
		assert_true(is_direct(opcodes[i], 16, 64));
		assert_true(is_direct(opcodes[i], 7, 10));
		assert_true(is_direct(opcodes[i], 9, 1));
		kernel_words = KERNEL_WORDS_ALL;
		assert_true(is_direct(opcodes[i], 8, 4));
		assert_true(is_direct(opcodes[i], 4, 68));
	}
}

static void local_words_are_left_to_the_owner(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	(void)state;
	if (!guarded_copy_is_available())
		skip();
	kernel_words = KERNEL_WORDS_NONE;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		assert_false(is_direct(opcodes[i], 8, 8));
		assert_false(is_direct(opcodes[i], 16, 64));
		assert_false(is_direct(opcodes[i], 9, 2));
		assert_true(is_direct(opcodes[i], 9, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(local_short_words_are_left_to_the_owner, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_words_are_left_to_the_owner, setup, teardown),
	};

	return cmocka_run_group_tests_name("short_words", tests, NULL, NULL);
}
