/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The depths that rdma_accept() grants, and the state after a failed accept. Runs over both
 * transports.
 */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

#define OFFERED	   2
#define TOO_MUCH   50
#define READS	   8
#define READ_BYTES 64

static void assert_depths(struct rdma_cm_id *id, uint8_t initiator, uint8_t responder)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr,
				      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
			 0);
	assert_int_equal(attr.max_rd_atomic, initiator);
	assert_int_equal(attr.max_dest_rd_atomic, responder);
}

/*
 * Posts as many READs as the send queue has room for; the QP limits how many are outstanding at
 * once.
 */
static void reads_succeed(struct rdma_cm_id *from, struct rdma_cm_id *at)
{
	static char source[READS * READ_BYTES], sink[READS * READ_BYTES];
	struct ibv_mr *source_mr = rdma_reg_read(at, source, sizeof(source));
	struct ibv_mr *sink_mr = rdma_reg_msgs(from, sink, sizeof(sink));
	struct ibv_wc wc;

	assert_non_null(source_mr);
	assert_non_null(sink_mr);
	memset(sink, 0, sizeof(sink));
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (char)(i / READ_BYTES + 1);
	for (size_t i = 0; i < READS; i++)
		assert_int_equal(rdma_post_read(from, NULL, sink + i * READ_BYTES, READ_BYTES,
						sink_mr, 0, (uintptr_t)source + i * READ_BYTES,
						source_mr->rkey),
				 0);
	for (int i = 0; i < READS; i++) {
		assert_int_equal(rdma_get_send_comp(from, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_memory_equal(sink, source, sizeof(sink));
	assert_int_equal(rdma_dereg_mr(source_mr), 0);
	assert_int_equal(rdma_dereg_mr(sink_mr), 0);
}

static void request(struct ends *ends, struct rdma_conn_param *param)
{
	ends_listen(ends, NULL, 1);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, param);
	ends_create_qp(ends->passive);
}

static void rdma_accept_resources_are_limited_by_request(void **state)
{
	struct rdma_conn_param asked = {
		.responder_resources = OFFERED, .initiator_depth = OFFERED + 1, .retry_count = 7};
	struct rdma_conn_param granted = {.responder_resources = TOO_MUCH,
					  .initiator_depth = TOO_MUCH};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	request(&ends, &asked);
	assert_int_equal(rdma_accept(ends.passive, &granted), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.conn.responder_resources, OFFERED);
	assert_int_equal(event->param.conn.initiator_depth, OFFERED + 1);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	assert_depths(ends.passive, OFFERED, OFFERED + 1);
	assert_depths(ends.active, OFFERED + 1, OFFERED);
	reads_succeed(ends.passive, ends.active);
	reads_succeed(ends.active, ends.passive);
	ends_close(&ends);
}

static void rdma_accept_maximum_takes_resources_of_request(void **state)
{
	struct rdma_conn_param asked = {
		.responder_resources = OFFERED, .initiator_depth = OFFERED, .retry_count = 7};
	struct rdma_conn_param granted = {.responder_resources = RDMA_MAX_RESP_RES,
					  .initiator_depth = RDMA_MAX_INIT_DEPTH};
	struct ends ends;

	(void)state;
	request(&ends, &asked);
	assert_int_equal(rdma_accept(ends.passive, &granted), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ESTABLISHED);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	assert_depths(ends.passive, OFFERED, OFFERED);
	assert_depths(ends.active, OFFERED, OFFERED);
	ends_close(&ends);
}

static void rdma_accept_null_private_data_ignores_length(void **state)
{
	struct rdma_conn_param stale = {.private_data_len = UINT8_MAX, .retry_count = 7};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	request(&ends, &stale);
	assert_int_equal(rdma_accept(ends.passive, &stale), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ESTABLISHED);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	ends_close(&ends);

	request(&ends, NULL);
	assert_int_equal(rdma_reject(ends.passive, NULL, UINT8_MAX), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_REJECTED);
	for (size_t i = 0; i < event->param.conn.private_data_len; i++)
		assert_int_equal(((const char *)event->param.conn.private_data)[i], 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
}

static void refuse_accept(struct ends *ends)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES - 1};

	assert_minus1_errno(rdma_accept(ends->passive, &param), EINVAL);
	assert_int_equal(cm_qp_state(ends->passive), IBV_QPS_INIT);
}

static void rdma_accept_failed_call_may_be_repeated(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	refuse_accept(&ends);
	ends_establish(&ends);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	/* A second call does not change the QP either. */
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	reads_succeed(ends.active, ends.passive);
	ends_close(&ends);
}

static void rdma_reject_after_failed_accept_succeeds(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	refuse_accept(&ends);
	assert_int_equal(rdma_reject(ends.passive, NULL, 0), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	ends_close(&ends);
}

/* As with Linux, the request is rejected: the peer does not wait for a second call. */
static void rdma_accept_long_private_data_rejects_request(void **state)
{
	static char data[CM_REP_BYTES + 1];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	assert_minus1_errno(rdma_accept(ends.passive, &param), EINVAL);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	assert_minus1_errno(rdma_reject(ends.passive, NULL, 0), EINVAL);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	assert_false(cm_readable(ends.server, 0));
	ends_close(&ends);
}

static void rdma_accept_long_private_data_rejects_synchronous_request(void **state)
{
	static char data[CM_REP_BYTES + 1];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};
	struct rdma_cm_id *listener, *id;
	struct ends ends;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
	memset(&ends, 0, sizeof(ends));
	ends.addr = cm_loopback(0);
	ends.server = cm_channel();
	ends.client = cm_channel();
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&ends.addr), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	cm_set_port(&ends.addr, rdma_get_src_port(listener));
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	assert_int_equal(rdma_get_request(listener, &id), 0);
	ends_create_qp(id);
	assert_minus1_errno(rdma_accept(id, &param), EINVAL);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	assert_minus1_errno(rdma_accept(id, NULL), EINVAL);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	ends_close(&ends);
}

static void rdma_reject_before_response_fails(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	/* The active side has not received a response that it could reject. */
	assert_minus1_errno(rdma_reject(ends.active, NULL, 0), EINVAL);
	ends_establish(&ends);
	ends_close(&ends);
}

/* The call moves the QP to ERR, and the attempt continues. */
static void rdma_disconnect_while_connecting_moves_qp_to_err(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_ERR);
	assert_false(cm_readable(ends.client, 0));
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	cm_skip_to(ends.client, RDMA_CM_EVENT_CONNECT_ERROR);
	cm_skip_to(ends.server, RDMA_CM_EVENT_REJECTED);
	ends_close(&ends);
}

static void rdma_disconnect_before_accept_moves_qp_to_err(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	assert_false(cm_readable(ends.client, 0));
	assert_int_equal(rdma_reject(ends.passive, NULL, 0), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	ends_close(&ends);
}

static void rdma_disconnect_after_reject_succeeds(void **state)
{
	struct ends ends;

	(void)state;
	request(&ends, NULL);
	assert_int_equal(rdma_reject(ends.passive, NULL, 0), 0);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	assert_false(cm_readable(ends.client, 0));
	assert_false(cm_readable(ends.server, 0));
	ends_close(&ends);
}

static void rdma_disconnect_after_disconnected_succeeds(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	ends_close(&ends);
}

#define PAIRS 2

/*
 * Programs that only measure the CM exchange connect ids without queue pairs and use arbitrary
 * QPNs. Such a QPN belongs to no process: the second request is neither a duplicate of the first
 * nor a sign that the first connection is stale.
 */
static void rdma_accept_ids_without_qp_may_have_same_qpn(void **state)
{
	static const uint32_t numbers[] = {0, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct rdma_conn_param param = {.qp_num = numbers[i], .responder_resources = 1};
		struct rdma_cm_id *active[PAIRS], *passive[PAIRS];
		struct ends ends;

		ends_listen(&ends, NULL, PAIRS);
		for (int k = 0; k < PAIRS; k++) {
			ends_resolve(&ends);
			ends_request(&ends, &param);
			assert_int_equal(ends.request->param.conn.qp_num, numbers[i]);
			assert_int_equal(rdma_accept(ends.passive, &param), 0);
			assert_int_equal(rdma_ack_cm_event(ends.request), 0);
			cm_pass(ends.client, ends.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
			assert_int_equal(rdma_establish(ends.active), 0);
			cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
			active[k] = ends.active;
			passive[k] = ends.passive;
		}
		/* Both connections stay established until each is disconnected. */
		for (int k = 0; k < PAIRS; k++) {
			assert_int_equal(rdma_disconnect(active[k]), 0);
			cm_pass(ends.server, passive[k], RDMA_CM_EVENT_DISCONNECTED);
			assert_int_equal(rdma_disconnect(passive[k]), 0);
			cm_pass(ends.client, active[k], RDMA_CM_EVENT_DISCONNECTED);
			assert_int_equal(rdma_destroy_id(active[k]), 0);
			assert_int_equal(rdma_destroy_id(passive[k]), 0);
		}
		ends.active = ends.passive = NULL;
		ends.request = NULL;
		ends_close(&ends);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_accept_resources_are_limited_by_request),
		cmocka_unit_test(rdma_accept_maximum_takes_resources_of_request),
		cmocka_unit_test(rdma_accept_null_private_data_ignores_length),
		cmocka_unit_test(rdma_accept_failed_call_may_be_repeated),
		cmocka_unit_test(rdma_reject_after_failed_accept_succeeds),
		cmocka_unit_test(rdma_accept_long_private_data_rejects_request),
		cmocka_unit_test(rdma_accept_long_private_data_rejects_synchronous_request),
		cmocka_unit_test(rdma_reject_before_response_fails),
		cmocka_unit_test(rdma_disconnect_while_connecting_moves_qp_to_err),
		cmocka_unit_test(rdma_disconnect_before_accept_moves_qp_to_err),
		cmocka_unit_test(rdma_disconnect_after_reject_succeeds),
		cmocka_unit_test(rdma_disconnect_after_disconnected_succeeds),
		cmocka_unit_test(rdma_accept_ids_without_qp_may_have_same_qpn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
