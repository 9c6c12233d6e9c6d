/* SPDX-License-Identifier: BSD-2-Clause */

/* The ring of responder resources. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "local/qp.h"
#include "pair.h"

static struct pair pair;
static struct ibv_qp *qps[2];

static void post_read(uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf + i, 1, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	pair.nodes[1].buf[i] = (uint8_t)(i + 1);
	wr.wr.rdma.remote_addr = (uintptr_t)pair.nodes[1].buf + i;
	wr.wr.rdma.rkey = pair.nodes[1].mr->rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

/*
 * The responder executes all READs before it sends the first response. The counter of responder
 * resources wraps in between.
 */
static void local_response_of_reads_at_wrap_of_counter_is_complete(void **state)
{
	struct local_qp *responder;
	struct ibv_wc wc;

	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
	responder = local_qp_of(to_qp(qps[1]));
	responder->rx.jobs_head = responder->rx.jobs_tail = UINT32_MAX - 1;
	for (uint32_t i = 0; i < PAIR_READS; i++)
		post_read(i);
	pair_settle(&pair);
	for (uint32_t i = 0; i < PAIR_READS; i++) {
		assert_true(poll_cq_once(pair.nodes[0].cq, &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(pair.nodes[0].buf[i], i + 1);
	}
	pair_close_connected(&pair, qps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_response_of_reads_at_wrap_of_counter_is_complete),
	};

	return cmocka_run_group_tests_name("response", tests, NULL, NULL);
}
