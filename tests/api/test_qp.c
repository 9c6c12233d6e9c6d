/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static struct ibv_cq *cq_of(struct api *api)
{
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 64, NULL, NULL, 0);

	assert_non_null(cq);
	return cq;
}

static struct ibv_qp_init_attr init_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
	};
}

static void ibv_create_qp_returns_granted_attributes(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = cq_of(api);
	struct ibv_qp_init_attr attr = init_attr(cq), asked;
	struct ibv_qp_attr now;
	struct ibv_qp *qp;

	attr.qp_context = api;
	attr.cap.max_inline_data = 64;
	asked = attr;
	qp = ibv_create_qp(api->pd, &attr);
	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= asked.cap.max_send_wr);
	assert_true(attr.cap.max_recv_wr >= asked.cap.max_recv_wr);
	assert_true(attr.cap.max_send_sge >= asked.cap.max_send_sge);
	assert_true(attr.cap.max_recv_sge >= asked.cap.max_recv_sge);
	assert_true(attr.cap.max_inline_data >= asked.cap.max_inline_data);
	assert_ptr_equal(qp->qp_context, api);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(qp->qp_type, IBV_QPT_RC);
	assert_true(qp->qp_num > 1 && qp->qp_num < 1 << 24);
	memset(&asked, 0, sizeof(asked));
	assert_int_equal(ibv_query_qp(qp, &now, IBV_QP_STATE | IBV_QP_CAP, &asked), 0);
	assert_int_equal(now.cap.max_send_wr, attr.cap.max_send_wr);
	assert_ptr_equal(asked.send_cq, cq);
	assert_ptr_equal(asked.qp_context, api);
	assert_int_equal(asked.qp_type, IBV_QPT_RC);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_create_qp_above_device_limits_fails(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = cq_of(api);
	struct ibv_device_attr device;
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;

	assert_int_equal(ibv_query_device(api->ctx, &device), 0);
	attr = init_attr(cq);
	attr.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	attr = init_attr(cq);
	attr.cap.max_recv_wr = (uint32_t)device.max_qp_wr + 1;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	attr = init_attr(cq);
	attr.cap.max_send_sge = (uint32_t)device.max_sge + 1;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	attr = init_attr(cq);
	attr.cap.max_inline_data = 1u << 30;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	attr = init_attr(cq);
	attr.cap.max_send_wr = (uint32_t)device.max_qp_wr;
	attr.cap.max_recv_wr = (uint32_t)device.max_qp_wr;
	attr.cap.max_send_sge = (uint32_t)device.max_sge;
	attr.cap.max_recv_sge = (uint32_t)device.max_sge;
	qp = ibv_create_qp(api->pd, &attr);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_create_qp_without_cq_fails(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = cq_of(api);
	struct ibv_qp_init_attr attr = init_attr(cq);

	attr.send_cq = NULL;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	attr = init_attr(cq);
	attr.recv_cq = NULL;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EINVAL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_create_qp_unsupported_type_fails(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = cq_of(api);
	struct ibv_qp_init_attr attr = init_attr(cq);

	attr.qp_type = IBV_QPT_DRIVER;
	assert_null_errno(ibv_create_qp(api->pd, &attr), EOPNOTSUPP);
	attr.qp_type = (enum ibv_qp_type)77;
	assert_null(ibv_create_qp(api->pd, &attr));
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_dealloc_pd_with_qp_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_cq *cq = cq_of(api);
	struct ibv_qp_init_attr attr = init_attr(cq);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	assert_non_null(qp);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_modify_qp_all_states_in_order_succeed(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RESET);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_INIT);
	assert_int_equal(pair.a.qp->state, IBV_QPS_INIT);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), 0);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RTR);
	assert_int_equal(qp_to_rts(pair.a.qp, 7, 7), 0);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RTS);
	assert_int_equal(qp_to_err(pair.a.qp), 0);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	pair_close(&pair);
}

static void ibv_modify_qp_skipped_state_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), EINVAL);
	assert_int_equal(qp_to_rts(pair.a.qp, 7, 7), EINVAL);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(qp_to_rts(pair.a.qp, 7, 7), EINVAL);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_INIT);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), 0);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), EINVAL);
	assert_int_equal(qp_to_init(pair.a.qp, 0), EINVAL);
	pair_close(&pair);
}

static void ibv_modify_qp_missing_attribute_fails(void **state)
{
	static const int required[] = {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS};
	int all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, all & ~required[i]), EINVAL);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, all | IBV_QP_TIMEOUT), EINVAL);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, all | IBV_QP_QKEY), EINVAL);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RESET);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, all), 0);
	pair_close(&pair);
}

static void ibv_modify_qp_invalid_value_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, mask), EINVAL);
	attr.port_num = 1;
	attr.pkey_index = 5000;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, mask), EINVAL);
	attr.qp_state = (enum ibv_qp_state)42;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
	pair_close(&pair);
}

static void ibv_modify_qp_to_reset_and_err_succeeds(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE), 0);
	/* As with Linux, RESET does not lead to ERR. */
	assert_int_equal(qp_to_err(pair.a.qp), EINVAL);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(qp_to_err(pair.a.qp), 0);
	assert_int_equal(qp_to_err(pair.a.qp), 0);
	pair_close(&pair);
}

static void ibv_query_qp_returns_modified_attributes(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					      IBV_QP_RETRY_CNT | IBV_QP_MIN_RNR_TIMER,
				      &init),
			 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, pair.b.qp->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.timeout, on_the_wire() ? 14 : 10);
	assert_int_equal(attr.min_rnr_timer, 1);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &api->gid, sizeof(api->gid));
	pair_close(&pair);
}

static void ibv_query_qp_updates_public_state_only_if_requested(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct api *api = *state;
	struct ibv_send_wr send;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, api, NULL);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey++;
	send = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &send);
	wc_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(pair.a.qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(attr.dest_qp_num, pair.b.qp->qp_num);
	assert_int_equal(pair.a.qp->state, IBV_QPS_RTS);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	assert_int_equal(pair.a.qp->state, IBV_QPS_ERR);
	pair_close(&pair);
}

static void ibv_post_send_in_wrong_state_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv = NULL;
	struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad_send), EINVAL);
	assert_int_equal(qp_to_rtr(pair.a.qp, api, pair.b.qp->qp_num), 0);
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad_send), EINVAL);
	pair_close(&pair);
}

static void ibv_post_recv_full_queue_fails_with_enomem_and_bad_wr(void **state)
{
	struct ibv_recv_wr recv[2] = {{.wr_id = 1, .next = &recv[1]}, {.wr_id = 2}};
	struct ibv_recv_wr *bad = NULL;
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_CAP, &init), 0);
	for (uint32_t i = 1; i < attr.cap.max_recv_wr; i++)
		post_recv_ok(&pair.a, NULL, 0, i);
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv[0], &bad), ENOMEM);
	assert_ptr_equal(bad, &recv[1]);
	pair_close(&pair);
}

static void ibv_post_send_too_many_sges_fails(void **state)
{
	struct ibv_sge sge[64];
	struct ibv_send_wr send = {.sg_list = sge, .opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {.sg_list = sge}, *bad_recv;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_CAP, &init), 0);
	for (int i = 0; i < 64; i++)
		sge[i] = sge_of(&pair.a, 0, 1);
	send.num_sge = (int)attr.cap.max_send_sge + 1;
	recv.num_sge = (int)attr.cap.max_recv_sge + 1;
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad_send), EINVAL);
	assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad_recv), EINVAL);
	send.num_sge = -1;
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad_send), EINVAL);
	pair_close(&pair);
}

static void ibv_post_send_unknown_opcode_fails(void **state)
{
	struct ibv_send_wr send = {.opcode = (enum ibv_wr_opcode)99}, *bad = NULL;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad), EINVAL);
	assert_ptr_equal(bad, &send);
	pair_close(&pair);
}

static void ibv_post_send_in_err_is_flushed_in_order(void **state)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	for (uint64_t i = 0; i < 5; i++)
		post_recv_ok(&pair.a, NULL, 0, i);
	assert_int_equal(qp_to_err(pair.a.qp), 0);
	for (uint64_t i = 0; i < 5; i++)
		wc_expect(pair.a.cq, i, IBV_WC_WR_FLUSH_ERR);
	/* Work requests posted in ERR are flushed too, signalled or not. */
	post_recv_ok(&pair.a, NULL, 0, 10);
	wc_expect(pair.a.cq, 10, IBV_WC_WR_FLUSH_ERR);
	send.wr_id = 11;
	send.send_flags = 0;
	assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad), 0);
	wc_expect(pair.a.cq, 11, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
}

static void ibv_modify_qp_sqd_to_rts_resumes(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_sge sge, recv;
	struct ibv_send_wr wr;
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, NULL);
	sge = sge_of(&pair.a, 0, 8);
	recv = sge_of(&pair.b, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	attr.en_sqd_async_notify = 1;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_SQ_DRAINED), pair.a.qp);
	post_recv_ok(&pair.b, &recv, 1, 2);
	post_send_ok(&pair.a, &wr);
	wc_none(pair.b.cq);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_create_qp_qpn_is_not_reused_at_once(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = cq_of(api);
	uint32_t last = 0;

	for (int i = 0; i < 100; i++) {
		struct ibv_qp_init_attr attr = init_attr(cq);
		struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);

		assert_non_null(qp);
		assert_int_not_equal(qp->qp_num, last);
		last = qp->qp_num;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_qp_returns_granted_attributes),
		cmocka_unit_test(ibv_create_qp_above_device_limits_fails),
		cmocka_unit_test(ibv_create_qp_without_cq_fails),
		cmocka_unit_test(ibv_create_qp_unsupported_type_fails),
		cmocka_unit_test(ibv_dealloc_pd_with_qp_fails_with_ebusy),
		cmocka_unit_test(ibv_modify_qp_all_states_in_order_succeed),
		cmocka_unit_test(ibv_modify_qp_skipped_state_fails),
		cmocka_unit_test(ibv_modify_qp_missing_attribute_fails),
		cmocka_unit_test(ibv_modify_qp_invalid_value_fails),
		cmocka_unit_test(ibv_modify_qp_to_reset_and_err_succeeds),
		cmocka_unit_test(ibv_query_qp_returns_modified_attributes),
		cmocka_unit_test(ibv_query_qp_updates_public_state_only_if_requested),
		cmocka_unit_test(ibv_post_send_in_wrong_state_fails),
		cmocka_unit_test(ibv_post_recv_full_queue_fails_with_enomem_and_bad_wr),
		cmocka_unit_test(ibv_post_send_too_many_sges_fails),
		cmocka_unit_test(ibv_post_send_unknown_opcode_fails),
		cmocka_unit_test(ibv_post_send_in_err_is_flushed_in_order),
		cmocka_unit_test(ibv_modify_qp_sqd_to_rts_resumes),
		cmocka_unit_test(ibv_create_qp_qpn_is_not_reused_at_once),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
