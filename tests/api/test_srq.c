/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static struct ibv_srq *make_srq(struct api *api, uint32_t max_wr)
{
	struct ibv_srq_init_attr attr = {.srq_context = api,
					 .attr = {.max_wr = max_wr, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(api->pd, &attr);

	assert_non_null(srq);
	assert_true(attr.attr.max_wr >= max_wr);
	assert_true(attr.attr.max_sge >= 2);
	return srq;
}

static int post(struct ibv_srq *srq, const struct side *side, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(side, 0, 64);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void send_one(struct side *side, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(side, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, wr_id);

	post_send_ok(side, &wr);
	wc_expect(side->cq, wr_id, IBV_WC_SUCCESS);
}

static void ibv_create_srq_above_limits_fails(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_device_attr device;

	assert_int_equal(ibv_query_device(api->ctx, &device), 0);
	attr.attr.max_wr = (uint32_t)device.max_srq_wr + 1;
	assert_null_errno(ibv_create_srq(api->pd, &attr), EINVAL);
	attr.attr.max_wr = 1;
	attr.attr.max_sge = (uint32_t)device.max_srq_sge + 1;
	assert_null_errno(ibv_create_srq(api->pd, &attr), EINVAL);
}

/*
 * Receives without SGEs are sufficient for RDMA WRITE with immediate data, and some programs create
 * SRQs for that.
 */
static void ibv_create_srq_zero_max_sge_succeeds(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4}};
	struct ibv_srq *srq = ibv_create_srq(api->pd, &attr);
	struct pair_options options = {.srq = srq};
	struct ibv_recv_wr empty = {.wr_id = 2}, *bad;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	assert_non_null(srq);
	pair_open(&pair, api, &options);
	assert_int_equal(ibv_post_srq_recv(srq, &empty, &bad), 0);
	fill_pattern(pair.a.buf, 8, 9);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, &pair.b, 16, 1);
	wr.imm_data = htobe32(77);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(be32toh(wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS).imm_data), 77);
	assert_memory_equal(pair.b.buf + 16, pair.a.buf, 8);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_create_srq_two_qps_share_receives(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq};
	struct pair one, two;

	pair_open(&one, api, &options);
	pair_open(&two, api, &options);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(srq, &one.b, 10 + i), 0);
	send_one(&one.a, 1);
	send_one(&two.a, 2);
	send_one(&two.a, 3);
	send_one(&one.a, 4);
	assert_int_equal(wc_expect(one.b.cq, 10, IBV_WC_SUCCESS).qp_num, one.b.qp->qp_num);
	assert_int_equal(wc_expect(two.b.cq, 11, IBV_WC_SUCCESS).qp_num, two.b.qp->qp_num);
	wc_expect(two.b.cq, 12, IBV_WC_SUCCESS);
	wc_expect(one.b.cq, 13, IBV_WC_SUCCESS);
	pair_close(&two);
	pair_close(&one);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* Its receives use memory of the SRQ's PD, whatever the PD of the receiving queue pair. */
static void ibv_post_srq_recv_memory_is_of_pd_of_srq(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	struct pair_options options = {.srq = srq};
	struct ibv_sge sge = {.length = 64};
	struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;
	static uint8_t buf[64];
	struct ibv_mr *mr;
	struct pair pair;

	assert_non_null(srq);
	mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	pair_open(&pair, api, &options);
	sge.addr = (uintptr_t)buf;
	sge.lkey = mr->lkey;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	fill_pattern(pair.a.buf, 8, 3);
	send_one(&pair.a, 1);
	wc_expect(pair.b.cq, 5, IBV_WC_SUCCESS);
	assert_memory_equal(buf, pair.a.buf, 8);
	/* Memory of the queue pair's PD is not accessible by the SRQ. */
	assert_int_equal(post(srq, &pair.b, 6), 0);
	sge = sge_of(&pair.a, 0, 8);
	post_send_ok(&pair.a, &(struct ibv_send_wr){.wr_id = 2,
						    .sg_list = &sge,
						    .num_sge = 1,
						    .opcode = IBV_WR_SEND,
						    .send_flags = IBV_SEND_SIGNALED});
	wc_expect(pair.a.cq, 2, IBV_WC_REM_OP_ERR);
	wc_expect(pair.b.cq, 6, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_destroy_srq_with_qp_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq, .stays_unconnected = true};
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_post_recv_qp_with_srq_fails(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq};
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_post_recv(pair.b.qp, &wr, &bad), EINVAL);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_modify_srq_limit_reports_one_event(void **state)
{
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq};
	struct pair pair;

	pair_open(&pair, api, &options);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(post(srq, &pair.b, i), 0);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 3);
	for (uint64_t i = 0; i < 3; i++)
		send_one(&pair.a, i);
	async_none(api->ctx);
	send_one(&pair.a, 3);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_SRQ_LIMIT_REACHED), srq);
	send_one(&pair.a, 4);
	async_none(api->ctx);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 0);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_modify_srq_invalid_attr_fails(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct ibv_srq_attr attr, asked = {.srq_limit = 0};

	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	asked.srq_limit = attr.max_wr + 1;
	assert_int_equal(ibv_modify_srq(srq, &asked, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &asked, 1 << 10), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_post_srq_recv_full_queue_fails_with_enomem(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 4);
	struct pair_options options = {.srq = srq};
	struct ibv_srq_attr attr;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	for (uint64_t i = 0; i < attr.max_wr; i++)
		assert_int_equal(post(srq, &pair.b, i), 0);
	assert_int_equal(post(srq, &pair.b, 99), ENOMEM);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_get_async_event_err_with_srq_reports_last_wqe_reached(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq};
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(post(srq, &pair.b, 1), 0);
	assert_int_equal(qp_to_err(pair.b.qp), 0);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_QP_LAST_WQE_REACHED), pair.b.qp);
	/* Receives in the shared queue stay there for the other queue pairs. */
	wc_none(pair.b.cq);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_post_srq_recv_resumes_waiting_sender(void **state)
{
	struct api *api = *state;
	struct ibv_srq *srq = make_srq(api, 16);
	struct pair_options options = {.srq = srq, .rnr_retry = 7};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, api, &options);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_none(pair.a.cq);
	assert_int_equal(post(srq, &pair.b, 2), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_srq_above_limits_fails),
		cmocka_unit_test(ibv_create_srq_zero_max_sge_succeeds),
		cmocka_unit_test(ibv_create_srq_two_qps_share_receives),
		cmocka_unit_test(ibv_post_srq_recv_memory_is_of_pd_of_srq),
		cmocka_unit_test(ibv_destroy_srq_with_qp_fails_with_ebusy),
		cmocka_unit_test(ibv_post_recv_qp_with_srq_fails),
		cmocka_unit_test(ibv_modify_srq_limit_reports_one_event),
		cmocka_unit_test(ibv_modify_srq_invalid_attr_fails),
		cmocka_unit_test(ibv_post_srq_recv_full_queue_fails_with_enomem),
		cmocka_unit_test(ibv_get_async_event_err_with_srq_reports_last_wqe_reached),
		cmocka_unit_test(ibv_post_srq_recv_resumes_waiting_sender),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
