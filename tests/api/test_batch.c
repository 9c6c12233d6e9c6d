/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of ibv_wr_start() beside other calls of the same thread and of other threads. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define RC_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ)

/* The thread of a batch may make any other call; only the WRs of the batch are not posted yet. */
static void ibv_wr_start_permits_other_calls_before_complete(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_send_wr wr, *bad;
	struct ibv_qp_ex *qp;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, &options);
	qp = batch_start(&pair.a, 1);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	mr = ibv_reg_mr(pair.api->pd, pair.a.buf, 4096, ALL_ACCESS);
	assert_non_null(mr);
	sge = sge_of(&pair.b, 0, 8);
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair.a, 0, 2);
	post_send_ok(&pair.b, &wr);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	wc_none(pair.a.cq);
	/* Exception: ibv_post_send() on the same queue pair fails. */
	assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

struct poster {
	struct pair *pair;
	bool has_posted;
	pthread_t thread;
};

/* Makes calls of each kind, also posts to another queue pair. */
static void *use_other_objects(void *arg)
{
	struct poster *poster = arg;
	struct pair *pair = poster->pair;
	struct ibv_sge sge = sge_of(&pair->b, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair->a, 0, 2);
	struct ibv_mr *mr = ibv_reg_mr(pair->api->pd, pair->a.buf, 4096, ALL_ACCESS);

	assert_non_null(mr);
	post_send_ok(&pair->b, &wr);
	wc_expect(pair->b.cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	poster->has_posted = true;
	return NULL;
}

/* No lock is held during a batch: its thread waits here for a thread that makes other calls. */
static void ibv_wr_start_permits_calls_of_other_threads(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct poster poster;
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	poster = (struct poster){.pair = &pair};
	qp = batch_start(&pair.a, 1);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	assert_int_equal(pthread_create(&poster.thread, NULL, use_other_objects, &poster), 0);
	assert_int_equal(pthread_join(poster.thread, NULL), 0);
	assert_true(poster.has_posted);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

#define BATCHES 500u

/* Posts batches of two WRs and single WRs. wr_id: 0 and 1 in a batch, 2 otherwise. */
static void *post_batches(void *arg)
{
	struct poster *poster = arg;
	struct side *side = &poster->pair->a;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->qp);
	struct ibv_sge sge = sge_of(side, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &poster->pair->b, 0, 2);

	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		for (uint64_t i = 0; i < 2; i++) {
			qp->wr_id = i;
			ibv_wr_rdma_write(qp, poster->pair->b.mr->rkey,
					  (uintptr_t)poster->pair->b.buf);
			ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
			sched_yield();
		}
		assert_int_equal(ibv_wr_complete(qp), 0);
		post_send_ok(side, &wr);
	}
	return NULL;
}

/* Two threads post to one queue pair. The WRs of one batch stay together. */
static void ibv_wr_start_waits_for_batch_of_other_thread(void **state)
{
	/* Both queues have space for all WRs. */
	struct pair_options options = {.send_ops_flags = RC_OPS, .max_wr = 2 * 3 * BATCHES};
	struct poster posters[2];
	bool is_open = false;
	struct pair pair;

	pair_open(&pair, *state, &options);
	for (int i = 0; i < 2; i++) {
		posters[i] = (struct poster){.pair = &pair};
		assert_int_equal(
			pthread_create(&posters[i].thread, NULL, post_batches, &posters[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
	for (uint32_t polled = 0; polled < 2 * 3 * BATCHES;) {
		struct ibv_wc wc;
		int found = ibv_poll_cq(pair.a.cq, 1, &wc);

		assert_true(found >= 0);
		if (!found)
			continue;
		polled++;
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(is_open, wc.wr_id == 1);
		is_open = wc.wr_id == 0;
	}
	pair_close(&pair);
}

static void ibv_wr_complete_after_reset_fails(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	qp = batch_start(&pair.a, 1);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	/* A batch that no ibv_wr_start() began. */
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

static void ibv_wr_start_twice_fails_batch(void **state)
{
	struct pair_options options = {.send_ops_flags = RC_OPS};
	struct ibv_qp_ex *qp;
	struct pair pair;

	pair_open(&pair, *state, &options);
	batch_start(&pair.a, 1);
	qp = batch_start(&pair.a, 2);
	ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.buf);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	wc_none(pair.a.cq);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_wr_start_permits_other_calls_before_complete),
		cmocka_unit_test(ibv_wr_start_permits_calls_of_other_threads),
		cmocka_unit_test(ibv_wr_start_waits_for_batch_of_other_thread),
		cmocka_unit_test(ibv_wr_complete_after_reset_fails),
		cmocka_unit_test(ibv_wr_start_twice_fails_batch),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
