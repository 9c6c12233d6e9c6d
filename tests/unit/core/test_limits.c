/* SPDX-License-Identifier: BSD-2-Clause */

/* The limits of a profile: each call succeeds at the limit and fails above it. */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/device/device.h"
#include "core/queue/requester.h"

/* tests/abi/errnos.py finds the errnos that such an assertion shows. */
#define assert_null_errno(call, error)          \
	do {                                    \
		errno = 0;                      \
		assert_null(call);              \
		assert_int_equal(errno, error); \
	} while (0)

static struct fake fake;
static struct profile profile;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	assert_int_equal(profile_by_name("usrdma", strlen("usrdma"), &profile), 0);
	fake.device.profile = &profile;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		assert_int_equal(fake.device.counts[i], 0);
	return 0;
}

static void limit(const char *setting)
{
	assert_int_equal(profile_set(&profile, setting, strlen(setting)), 0);
}

static struct ibv_qp *qp_with(uint32_t send_wr, uint32_t send_sge, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = send_wr,
			.max_recv_wr = send_wr,
			.max_send_sge = send_sge,
			.max_recv_sge = send_sge,
			.max_inline_data = inline_bytes},
	};

	errno = 0;
	return ibv_create_qp(fake.pd, &attr);
}

static void ibv_create_qp_above_a_size_fails_with_einval(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	(void)state;
	limit("max_qp_wr=20");
	limit("max_sge=3");
	limit("max_inline_data=50");
	assert_null(qp_with(21, 3, 50));
	assert_int_equal(errno, EINVAL);
	assert_null(qp_with(20, 4, 50));
	assert_int_equal(errno, EINVAL);
	assert_null(qp_with(20, 3, 51));
	assert_int_equal(errno, EINVAL);
	qp = qp_with(20, 3, 50);
	assert_non_null(qp);
	/* The granted sizes do not exceed the limits either. */
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(init.cap.max_send_wr, 20);
	assert_int_equal(init.cap.max_recv_wr, 20);
	assert_int_equal(init.cap.max_inline_data, 50);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_create_qp_above_the_number_fails_with_enomem(void **state)
{
	struct ibv_qp *qps[2];

	(void)state;
	limit("max_qp=2");
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++) {
			qps[i] = qp_with(1, 1, 0);
			assert_non_null(qps[i]);
		}
		assert_null(qp_with(1, 1, 0));
		assert_int_equal(errno, ENOMEM);
		for (int i = 0; i < 2; i++)
			assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	}
}

static void ibv_create_cq_above_limits_fails(void **state)
{
	struct ibv_cq *cq;

	(void)state;
	limit("max_cqe=100");
	limit("max_cq=2");
	assert_null_errno(ibv_create_cq(fake.ctx, 101, NULL, NULL, 0), EINVAL);
	cq = ibv_create_cq(fake.ctx, 100, NULL, NULL, 0);
	assert_non_null(cq);
	assert_int_equal(cq->cqe, 100);
	assert_int_equal(ibv_resize_cq(cq, 101), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 99), 0);
	assert_int_equal(cq->cqe, 100);
	assert_null_errno(ibv_create_cq(fake.ctx, 1, NULL, NULL, 0), ENOMEM);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_reg_mr_above_limits_fails(void **state)
{
	static uint8_t buf[128];
	struct ibv_mr *mr;

	(void)state;
	limit("max_mr_size=64");
	limit("max_mr=1");
	assert_null_errno(ibv_reg_mr(fake.pd, buf, 65, 0), EINVAL);
	mr = ibv_reg_mr(fake.pd, buf, 64, 0);
	assert_non_null(mr);
	assert_null_errno(ibv_reg_mr(fake.pd, buf, 64, 0), ENOMEM);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 65, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(fake.pd, buf, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_alloc_pd_above_the_number_fails_with_enomem(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	limit("max_pd=2");
	pd = ibv_alloc_pd(fake.ctx);
	assert_non_null(pd);
	assert_null_errno(ibv_alloc_pd(fake.ctx), ENOMEM);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_alloc_mw_above_the_number_fails_with_enomem(void **state)
{
	struct ibv_mw *mw;

	(void)state;
	limit("max_mw=1");
	mw = ibv_alloc_mw(fake.pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	assert_null_errno(ibv_alloc_mw(fake.pd, IBV_MW_TYPE_2), ENOMEM);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void ibv_create_srq_above_limits_fails(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 2}};
	struct ibv_srq_attr grown = {.max_wr = 11};
	struct ibv_srq *srq;

	(void)state;
	limit("max_srq_wr=10");
	limit("max_srq_sge=2");
	limit("max_srq=1");
	srq = ibv_create_srq(fake.pd, &attr);
	assert_non_null(srq);
	assert_int_equal(attr.attr.max_wr, 10);
	assert_int_equal(ibv_modify_srq(srq, &grown, IBV_SRQ_MAX_WR), EINVAL);
	assert_null_errno(ibv_create_srq(fake.pd, &attr), ENOMEM);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	attr.attr.max_wr = 11;
	assert_null_errno(ibv_create_srq(fake.pd, &attr), EINVAL);
	attr.attr.max_wr = 10;
	attr.attr.max_sge = 3;
	assert_null_errno(ibv_create_srq(fake.pd, &attr), EINVAL);
}

static void ibv_create_srq_without_srqs_fails_with_eopnotsupp(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .oflags = O_CREAT,
					  .fd = -1};

	(void)state;
	limit("max_srq=0");
	assert_null_errno(ibv_create_srq(fake.pd, &attr), EOPNOTSUPP);
	assert_null_errno(ibv_open_xrcd(fake.ctx, &xrcd), EOPNOTSUPP);
}

static void ibv_modify_qp_above_rd_atomic_fails_with_einval(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = fake_attr(IBV_QPS_RTR);
	int mask = fake_mask(IBV_QPT_RC, IBV_QPS_RTR);

	(void)state;
	limit("max_qp_rd_atom=4");
	limit("max_qp_init_rd_atom=2");
	assert_int_equal(fake_modify(qp, IBV_QPS_INIT), 0);
	attr.max_dest_rd_atomic = 5;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EINVAL);
	attr.max_dest_rd_atomic = 4;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	attr = fake_attr(IBV_QPS_RTS);
	mask = fake_mask(IBV_QPT_RC, IBV_QPS_RTS);
	attr.max_rd_atomic = 3;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EINVAL);
	attr.max_rd_atomic = 2;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, int num_sge)
{
	struct ibv_sge sges[4] = {{0}};
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sges, .num_sge = num_sge};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void ibv_post_send_of_what_the_profile_lacks_fails_with_einval(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	limit("max_sge_rd=2");
	limit("atomic_cap=none");
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(post(qp, IBV_WR_RDMA_READ, 3), EINVAL);
	assert_int_equal(post(qp, IBV_WR_RDMA_READ, 2), 0);
	assert_int_equal(post(qp, IBV_WR_RDMA_WRITE, 4), 0);
	assert_int_equal(post(qp, IBV_WR_SEND, 4), 0);
	assert_int_equal(post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 1), EINVAL);
	assert_int_equal(post(qp, IBV_WR_ATOMIC_CMP_AND_SWP, 1), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void requester_ack_timeout_ns_has_a_minimum(void **state)
{
	static const struct {
		uint8_t timeout;
		uint64_t multiple; /* of 4.096 us */
	} rows[] = {
		{0, 0}, {1, UINT64_C(1) << 12}, {12, UINT64_C(1) << 12}, {14, UINT64_C(1) << 14}};
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	to_qp(qp)->attr.timeout = 1;
	assert_int_equal(requester_ack_timeout_ns(to_qp(qp)), 2 * 4096);
	limit("min_ack_timeout=12");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		to_qp(qp)->attr.timeout = rows[i].timeout;
		assert_int_equal(requester_ack_timeout_ns(to_qp(qp)), 4096 * rows[i].multiple);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define LIMIT_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMIT_TEST(ibv_create_qp_above_a_size_fails_with_einval),
		LIMIT_TEST(ibv_create_qp_above_the_number_fails_with_enomem),
		LIMIT_TEST(ibv_create_cq_above_limits_fails),
		LIMIT_TEST(ibv_reg_mr_above_limits_fails),
		LIMIT_TEST(ibv_alloc_pd_above_the_number_fails_with_enomem),
		LIMIT_TEST(ibv_alloc_mw_above_the_number_fails_with_enomem),
		LIMIT_TEST(ibv_create_srq_above_limits_fails),
		LIMIT_TEST(ibv_create_srq_without_srqs_fails_with_eopnotsupp),
		LIMIT_TEST(ibv_modify_qp_above_rd_atomic_fails_with_einval),
		LIMIT_TEST(ibv_post_send_of_what_the_profile_lacks_fails_with_einval),
		LIMIT_TEST(requester_ack_timeout_ns_has_a_minimum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
