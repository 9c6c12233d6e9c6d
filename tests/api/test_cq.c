/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static void ibv_create_cq_invalid_size_fails(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_null_errno(ibv_create_cq(api->ctx, 0, NULL, NULL, 0), EINVAL);
	assert_null_errno(ibv_create_cq(api->ctx, -1, NULL, NULL, 0), EINVAL);
	assert_null_errno(ibv_create_cq(api->ctx, attr.max_cqe + 1, NULL, NULL, 0), EINVAL);
}

static void ibv_create_cq_max_cqe_succeeds(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;
	struct ibv_cq *cq;

	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	cq = ibv_create_cq(api->ctx, attr.max_cqe, NULL, NULL, 0);
	assert_non_null(cq);
	assert_true(cq->cqe >= attr.max_cqe);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_create_cq_invalid_comp_vector_fails(void **state)
{
	struct api *api = *state;

	assert_null_errno(ibv_create_cq(api->ctx, 1, NULL, NULL, -1), EINVAL);
	assert_null_errno(ibv_create_cq(api->ctx, 1, NULL, NULL, api->ctx->num_comp_vectors),
			  EINVAL);
}

static void ibv_create_cq_sets_members(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 10, api, NULL, 0);

	assert_non_null(cq);
	assert_true(cq->cqe >= 10);
	assert_ptr_equal(cq->cq_context, api);
	assert_ptr_equal(cq->context, api->ctx);
	wc_none(cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_destroy_cq_with_qp_fails_with_ebusy(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct pair pair;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_destroy_cq(pair.a.cq), EBUSY);
	pair_close(&pair);
}

/*
 * In rdma-core the kernel returns these errors, so that errno has the value also. Programs call
 * perror().
 */
static void calls_that_return_an_errno_set_errno(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct api *api = *state;
	struct ibv_port_attr port;
	struct pair pair;

	pair_open(&pair, api, &options);
	errno = 0;
	assert_int_equal(ibv_destroy_cq(pair.a.cq), EBUSY);
	assert_int_equal(errno, EBUSY);
	errno = 0;
	assert_int_equal(ibv_dealloc_pd(api->pd), EBUSY);
	assert_int_equal(errno, EBUSY);
	errno = 0;
	assert_int_equal(ibv_resize_cq(pair.a.cq, 1 << 30), EINVAL);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_attach_mcast(pair.a.qp, &api->gid, 0), EINVAL);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_query_port(api->ctx, 2, &port), EINVAL);
	assert_int_equal(errno, EINVAL);
	pair_close(&pair);
}

static void ibv_destroy_comp_channel_with_cq_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 1, NULL, channel, 0);

	assert_non_null(cq);
	assert_ptr_equal(cq->channel, channel);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void completes(struct pair *pair, uint64_t wr_id, unsigned int more_flags)
{
	struct ibv_sge sge = sge_of(&pair->a, 0, 8), recv = sge_of(&pair->b, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, wr_id);

	wr.send_flags |= more_flags;
	post_recv_ok(&pair->b, &recv, 1, wr_id);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, wr_id, IBV_WC_SUCCESS);
}

static void ibv_req_notify_cq_reports_one_event(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct pair_options options = {.channel = channel};
	struct ibv_cq *cq;
	struct pair pair;
	void *context;

	pair_open(&pair, api, &options);
	make_nonblocking(channel->fd);
	assert_minus1_errno(ibv_get_cq_event(channel, &cq, &context), EAGAIN);
	completes(&pair, 1, 0);
	wc_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
	assert_false(readable_within(channel->fd, 0));

	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
	completes(&pair, 2, 0);
	completes(&pair, 3, 0);
	assert_true(readable_within(channel->fd, 10000));
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	assert_ptr_equal(cq, pair.b.cq);
	wc_expect(cq, 2, IBV_WC_SUCCESS);
	wc_expect(cq, 3, IBV_WC_SUCCESS);
	assert_minus1_errno(ibv_get_cq_event(channel, &cq, &context), EAGAIN);
	ibv_ack_cq_events(pair.b.cq, 1);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_req_notify_cq_solicited_only_ignores_others(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct pair_options options = {.channel = channel};
	struct ibv_cq *cq;
	struct pair pair;
	void *context;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
	completes(&pair, 1, 0);
	wc_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
	assert_false(readable_within(channel->fd, 0));
	completes(&pair, 2, IBV_SEND_SOLICITED);
	assert_true(readable_within(channel->fd, 10000));
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	assert_ptr_equal(cq, pair.b.cq);
	ibv_ack_cq_events(cq, 1);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_req_notify_cq_solicited_only_reports_failures(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct pair_options options = {.channel = channel};
	struct ibv_sge recv;
	struct ibv_cq *cq;
	struct pair pair;
	void *context;

	pair_open(&pair, api, &options);
	recv = sge_of(&pair.b, 0, 8);
	post_recv_ok(&pair.b, &recv, 1, 9);
	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
	assert_int_equal(qp_to_err(pair.b.qp), 0);
	assert_true(readable_within(channel->fd, 10000));
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	wc_expect(pair.b.cq, 9, IBV_WC_WR_FLUSH_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_req_notify_cq_twice_next_completion_prevails(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct pair_options options = {.channel = channel};
	struct ibv_cq *cq;
	struct pair pair;
	void *context;

	pair_open(&pair, api, &options);
	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
	completes(&pair, 1, 0);
	assert_true(readable_within(channel->fd, 10000));
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_resize_cq_keeps_completions(void **state)
{
	struct api *api = *state;
	struct pair pair;
	int before;

	pair_open(&pair, api, NULL);
	before = pair.b.cq->cqe;
	for (uint64_t i = 0; i < 10; i++)
		completes(&pair, i, 0);
	assert_int_equal(ibv_resize_cq(pair.b.cq, before * 4), 0);
	assert_true(pair.b.cq->cqe >= before * 4);
	assert_int_equal(ibv_resize_cq(pair.b.cq, 20), 0);
	assert_true(pair.b.cq->cqe >= 20);
	for (uint64_t i = 0; i < 10; i++)
		wc_expect(pair.b.cq, i, IBV_WC_SUCCESS);
	wc_none(pair.b.cq);
	pair_close(&pair);
}

static void ibv_resize_cq_invalid_size_fails(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;
	struct pair pair;

	pair_open(&pair, api, NULL);
	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	for (uint64_t i = 0; i < 20; i++)
		completes(&pair, i, 0);
	assert_int_equal(ibv_resize_cq(pair.b.cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(pair.b.cq, 5), EINVAL);
	assert_int_equal(ibv_resize_cq(pair.b.cq, attr.max_cqe + 1), EINVAL);
	for (uint64_t i = 0; i < 20; i++)
		wc_expect(pair.b.cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_poll_cq_returns_several_completions(void **state)
{
	struct api *api = *state;
	struct ibv_wc wc[32];
	struct pair pair;
	int got;

	pair_open(&pair, api, NULL);
	for (uint64_t i = 0; i < 30; i++)
		completes(&pair, i, 0);
	memset(wc, 0, sizeof(wc));
	assert_int_equal(ibv_poll_cq(pair.b.cq, 0, wc), 0);
	got = ibv_poll_cq(pair.b.cq, 32, wc);
	assert_int_equal(got, 30);
	for (int i = 0; i < got; i++) {
		assert_int_equal(wc[i].wr_id, i);
		assert_int_equal(wc[i].opcode, IBV_WC_RECV);
		assert_int_equal(wc[i].qp_num, pair.b.qp->qp_num);
	}
	pair_close(&pair);
}

static void ibv_create_cq_holds_completions_of_queues_of_same_size(void **state)
{
	static const uint32_t sizes[] = {1, 100, 255, 256, 4095, 4096};
	struct api *api = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = sizes[i], .max_sge = 1}};
		struct ibv_qp_init_attr qp_attr = {
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = sizes[i], .max_recv_wr = sizes[i]},
		};
		struct ibv_srq *srq = ibv_create_srq(api->pd, &srq_attr);
		struct ibv_cq *cq = ibv_create_cq(api->ctx, (int)sizes[i], NULL, NULL, 0);
		struct ibv_qp *qp;

		assert_non_null(srq);
		assert_non_null(cq);
		qp_attr.send_cq = qp_attr.recv_cq = cq;
		qp = ibv_create_qp(api->pd, &qp_attr);
		assert_non_null(qp);
		assert_true((uint32_t)cq->cqe >= srq_attr.attr.max_wr);
		assert_true((uint32_t)cq->cqe >= qp_attr.cap.max_send_wr);
		assert_true((uint32_t)cq->cqe >= qp_attr.cap.max_recv_wr);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
}

static void ibv_poll_cq_overrun_reports_cq_err(void **state)
{
	struct ibv_sge sge = {.length = 0};
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 0}, *bad;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 4096, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 1, NULL, NULL, 0);
	struct ibv_qp *qp;

	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ibv_create_qp(api->pd, &attr);
	assert_non_null(qp);
	assert_int_equal(qp_to_init(qp, 0), 0);
	for (int i = 0; i <= cq->cqe; i++)
		assert_int_equal(ibv_post_recv(qp, &recv, &bad), 0);
	assert_int_equal(qp_to_err(qp), 0);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_CQ_ERR), cq);
	while (readable_within(api->ctx->async_fd, 0)) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(api->ctx, &event), 0);
		ibv_ack_async_event(&event);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/*
 * A CQ overflow moves a QP with a lost completion to ERR and raises an event; its other queue is
 * flushed as usual.
 */
static void ibv_poll_cq_overrun_moves_qp_to_err(void **state)
{
	struct ibv_recv_wr recv = {.wr_id = 7}, *bad_recv;
	struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct api *api = *state;
	struct ibv_cq *small = ibv_create_cq(api->ctx, 1, NULL, NULL, 0);
	struct ibv_cq *other = ibv_create_cq(api->ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = small,
		.recv_cq = other,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);

	assert_non_null(qp);
	assert_int_equal(qp_to_init(qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_rtr(qp, api, qp->qp_num), 0);
	assert_int_equal(qp_to_rts(qp, 7, 7), 0);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), 0);
	for (int i = 0; i <= small->cqe; i++)
		assert_int_equal(ibv_post_send(qp, &send, &bad), 0);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_CQ_ERR), small);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_QP_FATAL), qp);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	wc_expect(other, 7, IBV_WC_WR_FLUSH_ERR);
	async_none(api->ctx);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(small), 0);
	assert_int_equal(ibv_destroy_cq(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_cq_invalid_size_fails),
		cmocka_unit_test(ibv_create_cq_max_cqe_succeeds),
		cmocka_unit_test(ibv_create_cq_invalid_comp_vector_fails),
		cmocka_unit_test(ibv_create_cq_sets_members),
		cmocka_unit_test(calls_that_return_an_errno_set_errno),
		cmocka_unit_test(ibv_destroy_cq_with_qp_fails_with_ebusy),
		cmocka_unit_test(ibv_destroy_comp_channel_with_cq_fails_with_ebusy),
		cmocka_unit_test(ibv_req_notify_cq_reports_one_event),
		cmocka_unit_test(ibv_req_notify_cq_solicited_only_ignores_others),
		cmocka_unit_test(ibv_req_notify_cq_solicited_only_reports_failures),
		cmocka_unit_test(ibv_req_notify_cq_twice_next_completion_prevails),
		cmocka_unit_test(ibv_resize_cq_keeps_completions),
		cmocka_unit_test(ibv_resize_cq_invalid_size_fails),
		cmocka_unit_test(ibv_poll_cq_returns_several_completions),
		cmocka_unit_test(ibv_create_cq_holds_completions_of_queues_of_same_size),
		cmocka_unit_test(ibv_poll_cq_overrun_reports_cq_err),
		cmocka_unit_test(ibv_poll_cq_overrun_moves_qp_to_err),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
