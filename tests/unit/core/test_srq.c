/* SPDX-License-Identifier: BSD-2-Clause */

/* Shared receive queues: sizes, limits, and the effect of a QP's error. */

#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "core/qp/qp.h"
#include "core/queue/wq.h"

static struct fake fake;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_srq *make(uint32_t max_wr)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &attr);

	assert_non_null(srq);
	assert_true(attr.attr.max_wr >= max_wr && attr.attr.max_sge >= 2);
	return srq;
}

static int post(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = wr_id, .length = 1, .lkey = 2};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad = NULL;
	int ret = ibv_post_srq_recv(srq, &wr, &bad);

	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

static uint64_t take(struct ibv_qp *qp)
{
	struct recv_taken got;

	engine_lock(&fake.engine);
	assert_true(rq_take(to_qp(qp), &got));
	engine_unlock(&fake.engine);
	assert_int_equal(got.num_sge, 1);
	assert_int_equal(got.sge[0].addr, got.wr_id);
	return got.wr_id;
}

static int set_limit(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static int resize(struct ibv_srq *srq, uint32_t max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr};

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static void ibv_create_srq_limits_attributes(void **state)
{
	static const struct ibv_srq_attr bad[] = {
		{.max_wr = 0, .max_sge = 1},
		{.max_wr = MAX_SRQ_WR + 1, .max_sge = 1},
		{.max_wr = 1, .max_sge = MAX_SGE + 1},
	};
	struct ibv_srq *srq = make(MAX_SRQ_WR);
	struct ibv_srq_attr attr;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ibv_srq_init_attr init = {.attr = bad[i]};

		errno = 0;
		assert_null(ibv_create_srq(fake.pd, &init));
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr == MAX_SRQ_WR && attr.srq_limit == 0);
	for (uint32_t i = 0; i < attr.max_wr; i++)
		assert_int_equal(post(srq, i), 0);
	assert_int_equal(post(srq, 0), ENOMEM);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_modify_srq_limit_reports_one_event(void **state)
{
	struct ibv_srq *srq = make(16);
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, srq);
	struct ibv_srq_attr attr;

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post(srq, i), 0);
	assert_int_equal(set_limit(srq, 17), EINVAL);
	assert_int_equal(set_limit(srq, 6), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 6);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(take(qp), i);
	fake_expect_no_event(&fake);
	assert_int_equal(take(qp), 2);
	fake_expect_event(&fake, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	assert_int_equal(take(qp), 3);
	fake_expect_no_event(&fake);
	/* Armed when the SRQ is already below the limit. */
	assert_int_equal(set_limit(srq, 5), 0);
	fake_expect_event(&fake, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_int_equal(set_limit(srq, 4), 0);
	fake_expect_no_event(&fake);
	assert_int_equal(set_limit(srq, 0), 0);
	assert_int_equal(take(qp), 4);
	fake_expect_no_event(&fake);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_modify_srq_resize_keeps_order(void **state)
{
	struct ibv_srq *srq = make(8);
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, srq);
	uint64_t posted = 0, taken = 0;
	struct ibv_srq_attr attr;

	(void)state;
	/* The outstanding receives wrap around the end of the ring. */
	for (; posted < 6; posted++)
		assert_int_equal(post(srq, posted), 0);
	for (; taken < 5; taken++)
		assert_int_equal(take(qp), taken);
	for (; posted < 13; posted++)
		assert_int_equal(post(srq, posted), 0);
	assert_int_equal(resize(srq, 7), EINVAL);
	assert_int_equal(resize(srq, 0), EINVAL);
	assert_int_equal(resize(srq, MAX_SRQ_WR + 1), EINVAL);
	assert_int_equal(resize(srq, 100), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr >= 100);
	for (; posted < 5 + 100; posted++)
		assert_int_equal(post(srq, posted), 0);
	for (; taken < 100; taken++)
		assert_int_equal(take(qp), taken);
	assert_int_equal(set_limit(srq, 5), 0);
	/* A limit above the size of the smaller queue. */
	assert_int_equal(resize(srq, 4), EINVAL);
	assert_int_equal(set_limit(srq, 0), 0);
	assert_int_equal(resize(srq, 8), 0);
	for (; taken < posted; taken++)
		assert_int_equal(take(qp), taken);
	attr.max_wr = 8;
	assert_int_equal(ibv_modify_srq(srq, &attr, 1 << 2), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &attr, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

#define WAIT_S 20

static void *use_verbs(void *arg)
{
	struct ibv_pd *pd = ibv_alloc_pd(arg);

	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	return NULL;
}

/* Another thread can call verbs while the application's allocator runs. */
static void wait_for_other_thread(struct ibv_pd *pd)
{
	struct timespec until;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, use_verbs, pd->context), 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), 0);
}

static void *alloc_waiting(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			   uint64_t resource_type)
{
	void *memory;

	(void)context;
	(void)resource_type;
	wait_for_other_thread(pd);
	return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

static void free_waiting(struct ibv_pd *pd, void *context, void *memory, uint64_t resource_type)
{
	(void)context;
	(void)resource_type;
	wait_for_other_thread(pd);
	free(memory);
}

static void ibv_modify_srq_resize_calls_allocator_without_lock(void **state)
{
	struct ibv_parent_domain_init_attr domain = {
		.pd = fake.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
		.alloc = alloc_waiting,
		.free = free_waiting,
	};
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_pd *pd = ibv_alloc_parent_domain(fake.pd->context, &domain);
	struct ibv_srq *srq;

	(void)state;
	assert_non_null(pd);
	srq = ibv_create_srq(pd, &attr);
	assert_non_null(srq);
	assert_int_equal(post(srq, 1), 0);
	assert_int_equal(post(srq, 2), 0);
	assert_int_equal(resize(srq, 64), 0);
	/* Fewer WRs than are posted: the new queue is freed. */
	assert_int_equal(resize(srq, 1), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_create_qp_with_srq_uses_it(void **state)
{
	struct ibv_srq *srq = make(8);
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, srq);
	struct ibv_qp_init_attr attr = {.send_cq = fake.cq,
					.recv_cq = fake.cq,
					.srq = srq,
					.qp_type = IBV_QPT_UC,
					.cap = {.max_recv_wr = 99}};
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_qp_attr qp_attr;

	(void)state;
	errno = 0;
	assert_null(ibv_create_qp(fake.pd, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_qp(qp, &qp_attr, 0, &attr), 0);
	assert_ptr_equal(attr.srq, srq);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(attr.cap.max_recv_sge, 0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	/*
	 * No receive of the SRQ is flushed with the QP; an event reports that the QP takes no
	 * further receive.
	 */
	assert_int_equal(post(srq, 1), 0);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	fake_expect_event(&fake, IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	assert_int_equal(take(qp), 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_post_srq_recv_notifies_transports_of_waiting_qps(void **state)
{
	struct ibv_srq *srq = make(8);
	struct ibv_qp *waiting_recv = fake_qp(&fake, IBV_QPT_RC, srq);
	struct ibv_qp *gone = fake_qp(&fake, IBV_QPT_RC, srq);

	(void)state;
	fake_walk(waiting_recv, IBV_QPS_RTS);
	fake_walk(gone, IBV_QPS_RTS);
	to_qp(waiting_recv)->is_waiting_recv = true;
	to_qp(gone)->is_waiting_recv = true;
	list_add_tail(&to_qp(gone)->waiting_recv_node, &to_srq(srq)->waiting_recv);
	list_add_tail(&to_qp(waiting_recv)->waiting_recv_node, &to_srq(srq)->waiting_recv);
	assert_int_equal(ibv_destroy_qp(gone), 0);
	assert_int_equal(post(srq, 1), 0);
	assert_int_equal(fake_calls.recv_posted, 1);
	assert_true(list_is_empty(&to_srq(srq)->waiting_recv));
	assert_int_equal(ibv_destroy_qp(waiting_recv), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_create_srq_ex_basic_type_succeeds(void **state)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_BASIC,
		.pd = fake.pd,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(fake.ctx, &attr);
	uint32_t number;

	(void)state;
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
#define REFUSES(change, error)                                   \
	do {                                                     \
		struct ibv_srq_init_attr_ex saved = attr;        \
		change;                                          \
		errno = 0;                                       \
		assert_null(ibv_create_srq_ex(fake.ctx, &attr)); \
		assert_int_equal(errno, error);                  \
		attr = saved;                                    \
	} while (0)
	REFUSES(attr.srq_type = IBV_SRQT_XRC, EINVAL);
	REFUSES(attr.srq_type = IBV_SRQT_TM, EOPNOTSUPP);
	REFUSES(attr.srq_type = (enum ibv_srq_type)9, EINVAL);
	REFUSES(attr.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED, EINVAL);
	REFUSES(attr.pd = NULL, EINVAL);
	REFUSES(fake.engine.is_orphan = true, EIO);
	fake.engine.is_orphan = false;
#undef REFUSES
}

#define SRQ_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SRQ_TEST(ibv_create_srq_limits_attributes),
		SRQ_TEST(ibv_modify_srq_limit_reports_one_event),
		SRQ_TEST(ibv_modify_srq_resize_keeps_order),
		SRQ_TEST(ibv_modify_srq_resize_calls_allocator_without_lock),
		SRQ_TEST(ibv_create_qp_with_srq_uses_it),
		SRQ_TEST(ibv_post_srq_recv_notifies_transports_of_waiting_qps),
		SRQ_TEST(ibv_create_srq_ex_basic_type_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
