/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

/* Connections: every way in which a connection between two running processes begins and ends. */

static void rdma_connect_every_address_succeeds(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct ends ends;

		ends_open(&ends, &addrs[i]);
		assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);
		assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
		assert_int_equal(rdma_get_dst_port(ends.passive), rdma_get_src_port(ends.active));
		assert_int_equal(rdma_get_src_port(ends.passive), rdma_get_src_port(ends.listener));
		assert_int_equal(rdma_get_peer_addr(ends.passive)->sa_family, addrs[i].ss_family);
		assert_ptr_equal(ends.passive->verbs, ends.active->verbs);
		ends_close(&ends);
	}
}

static void rdma_listen_wildcard_accepts_every_address(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_storage any = {.ss_family = addrs[i].ss_family};
		struct ends ends;

		ends_listen(&ends, &any, 1);
		ends.addr = addrs[i];
		cm_set_port(&ends.addr, rdma_get_src_port(ends.listener));
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		ends_request(&ends, NULL);
		assert_non_null(ends.passive->verbs);
		ends_create_qp(ends.passive);
		ends_establish(&ends);
		ends_close(&ends);
	}
}

static void rdma_connect_then_send_and_receive_succeeds(void **state)
{
	char sent[64] = "over the connection", received[64] = {0};
	struct ibv_mr *send_mr, *recv_mr;
	struct ends ends;
	struct ibv_wc wc;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	recv_mr = rdma_reg_msgs(ends.passive, received, sizeof(received));
	send_mr = rdma_reg_msgs(ends.active, sent, sizeof(sent));
	assert_non_null(recv_mr);
	assert_non_null(send_mr);
	assert_int_equal(rdma_post_recv(ends.passive, &ends, received, sizeof(received), recv_mr),
			 0);
	ends_establish(&ends);
	assert_int_equal(rdma_post_send(ends.active, NULL, sent, sizeof(sent), send_mr, 0), 0);
	/* These calls wait on the completion channel and assert which CQ has the event. */
	assert_int_equal(rdma_get_send_comp(ends.active, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(ends.passive, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, (uintptr_t)&ends);
	assert_string_equal(received, sent);
	assert_int_equal(rdma_dereg_mr(send_mr), 0);
	assert_int_equal(rdma_dereg_mr(recv_mr), 0);
	ends_close(&ends);
}

/* Private data arrives complete. The field is as long as in the message, and its rest is zero. */
static void assert_private(const struct rdma_conn_param *param, const uint8_t *data, uint8_t given,
			   uint8_t field)
{
	const uint8_t *got = param->private_data;

	assert_int_equal(param->private_data_len, field);
	if (given)
		assert_memory_equal(got, data, given);
	for (unsigned i = given; i < field; i++)
		assert_int_equal(got[i], 0);
}

static void rdma_connect_private_data_arrives_both_ways(void **state)
{
	static const uint8_t request_lens[] = {0, 1, 55, CM_REQ_BYTES};
	static const uint8_t reply_lens[] = {0, 1, 100, CM_REP_BYTES};
	uint8_t data[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	for (int i = 0; i < 4; i++) {
		struct rdma_conn_param request = {.private_data = data,
						  .private_data_len = request_lens[i],
						  .retry_count = 7};
		struct rdma_conn_param reply = {.private_data = data,
						.private_data_len = reply_lens[i]};
		struct rdma_cm_event *event;
		struct ends ends;

		ends_listen(&ends, NULL, 1);
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		ends_request(&ends, &request);
		assert_private(&ends.request->param.conn, data, request_lens[i], CM_REQ_BYTES);
		ends_create_qp(ends.passive);
		assert_int_equal(rdma_accept(ends.passive, &reply), 0);
		event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
		assert_private(&event->param.conn, data, reply_lens[i], CM_REP_BYTES);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
		ends_close(&ends);
	}
}

static void rdma_connect_long_private_data_fails(void **state)
{
	uint8_t data[255] = {0};
	struct rdma_conn_param request = {.private_data = data,
					  .private_data_len = CM_REQ_BYTES + 1};
	struct rdma_conn_param reply = {.private_data = data, .private_data_len = CM_REP_BYTES + 1};
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_minus1_errno(rdma_connect(ends.active, &request), EINVAL);
	request.private_data_len = 255;
	assert_minus1_errno(rdma_connect(ends.active, &request), EINVAL);
	ends_request(&ends, NULL);
	assert_minus1_errno(rdma_reject(ends.passive, data, CM_REJ_BYTES + 1), EINVAL);
	ends_create_qp(ends.passive);
	assert_minus1_errno(rdma_accept(ends.passive, &reply), EINVAL);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	ends_close(&ends);
}

static void rdma_get_cm_event_parameters_are_seen_from_this_side(void **state)
{
	struct rdma_conn_param request = {.responder_resources = 3,
					  .initiator_depth = 5,
					  .flow_control = 1,
					  .retry_count = 6,
					  .rnr_retry_count = 4};
	struct rdma_conn_param reply = {.responder_resources = 2,
					.initiator_depth = 1,
					.flow_control = 1,
					.rnr_retry_count = 5};
	const struct rdma_conn_param *seen;
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, &request);
	seen = &ends.request->param.conn;
	assert_int_equal(seen->responder_resources, 5);
	assert_int_equal(seen->initiator_depth, 3);
	assert_int_equal(seen->flow_control, 1);
	assert_int_equal(seen->retry_count, 6);
	assert_int_equal(seen->rnr_retry_count, 4);
	assert_int_equal(seen->srq, 0);
	assert_int_equal(seen->qp_num, ends.active->qp->qp_num);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, &reply), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	seen = &event->param.conn;
	assert_int_equal(seen->responder_resources, 1);
	assert_int_equal(seen->initiator_depth, 2);
	assert_int_equal(seen->retry_count, 0);
	assert_int_equal(seen->rnr_retry_count, 5);
	assert_int_equal(seen->qp_num, ends.passive->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);

	assert_int_equal(ibv_query_qp(ends.active->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.max_rd_atomic, 2);
	assert_int_equal(attr.max_dest_rd_atomic, 1);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.rnr_retry, 5);
	assert_int_equal(attr.dest_qp_num, ends.passive->qp->qp_num);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC |
						       IBV_ACCESS_FLUSH_GLOBAL |
						       IBV_ACCESS_FLUSH_PERSISTENT);
	assert_int_equal(ibv_query_qp(ends.passive->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.max_rd_atomic, 1);
	assert_int_equal(attr.max_dest_rd_atomic, 2);
	assert_int_equal(attr.rnr_retry, 4);
	ends_close(&ends);
}

static void rdma_connect_above_device_limits_fails(void **state)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES,
					.initiator_depth = RDMA_MAX_INIT_DEPTH};
	struct ibv_device_attr attr;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(ibv_query_device(ends.active->verbs, &attr), 0);
	if (attr.max_qp_rd_atom < 254) {
		param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
		assert_minus1_errno(rdma_connect(ends.active, &param), EINVAL);
		param.responder_resources = RDMA_MAX_RESP_RES;
	}
	if (attr.max_qp_init_rd_atom < 254) {
		param.initiator_depth = (uint8_t)(attr.max_qp_init_rd_atom + 1);
		assert_minus1_errno(rdma_connect(ends.active, &param), EINVAL);
		param.initiator_depth = RDMA_MAX_INIT_DEPTH;
	}
	ends_request(&ends, &param);
	assert_int_equal(ends.request->param.conn.responder_resources, attr.max_qp_init_rd_atom);
	assert_int_equal(ends.request->param.conn.initiator_depth, attr.max_qp_rd_atom);
	ends_close(&ends);
}

static void rdma_connect_without_listener_is_rejected(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct ends ends;

		ends_listen(&ends, &addrs[i], 1);
		cm_set_port(&ends.addr, htons(CM_PORT_NOBODY));
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		assert_int_equal(rdma_connect(ends.active, NULL), 0);
		/* Invalid service ID (IBA 1.x §12.6.7.2). */
		cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 8);
		assert_int_equal(cm_qp_state(ends.active), IBV_QPS_ERR);
		ends_close(&ends);
	}
}

/*
 * Programs that listen again for each step, whose peer expects that this takes less time. The
 * daemon's backlog linger limits the time, so a slow machine may reject some requests, but not all.
 */
static void rdma_listen_soon_after_request_accepts_it(void **state)
{
	bool was_heard = false;

	(void)state;
	for (int i = 0; i < 20 && !was_heard; i++) {
		struct ends ends;

		ends_listen(&ends, NULL, 1);
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		assert_int_equal(rdma_destroy_id(ends.listener), 0);
		ends.listener = NULL;
		assert_int_equal(rdma_connect(ends.active, NULL), 0);
		/* Long enough for a rejection to arrive. */
		if (cm_readable(ends.client, 20)) {
			ends_close(&ends);
			continue;
		}
		ends.listener = cm_id(ends.server);
		assert_int_equal(rdma_bind_addr(ends.listener, (struct sockaddr *)&ends.addr), 0);
		assert_int_equal(rdma_listen(ends.listener, 1), 0);
		while (!cm_readable(ends.server, 10) && !cm_readable(ends.client, 0))
			;
		was_heard = cm_readable(ends.server, 0);
		if (was_heard)
			ends.request = cm_get(ends.server, RDMA_CM_EVENT_CONNECT_REQUEST);
		if (ends.request)
			ends.passive = ends.request->id;
		ends_close(&ends);
	}
	assert_true(was_heard);
}

static void rdma_listen_one_address_rejects_requests_to_others(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	struct ends ends;
	size_t count = cm_addrs(addrs);

	(void)state;
	if (count < 3 || addrs[2].ss_family != AF_INET)
		skip();
	ends_listen(&ends, &addrs[0], 1);
	ends.addr = addrs[2];
	cm_set_port(&ends.addr, rdma_get_src_port(ends.listener));
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 8);
	ends_close(&ends);
}

static void rdma_reject_reason_and_private_data_arrive(void **state)
{
	static const uint8_t lens[] = {0, 7, CM_REJ_BYTES};
	uint8_t data[CM_REJ_BYTES];

	(void)state;
	memset(data, 0xa5, sizeof(data));
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_event *event;
		struct ends ends;

		ends_listen(&ends, NULL, 1);
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		ends_request(&ends, NULL);
		assert_int_equal(rdma_reject(ends.passive, data, lens[i]), 0);
		event = cm_get(ends.client, RDMA_CM_EVENT_REJECTED);
		/* Consumer defined (IBA 1.x §12.6.7.2). */
		assert_int_equal(event->status, 28);
		assert_private(&event->param.conn, data, lens[i], CM_REJ_BYTES);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		assert_int_equal(cm_qp_state(ends.active), IBV_QPS_ERR);
		assert_minus1_errno(rdma_accept(ends.passive, &(struct rdma_conn_param){0}),
				    EINVAL);
		ends_close(&ends);
	}
}

static void rdma_destroy_id_unanswered_request_rejects_it(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	assert_int_equal(rdma_destroy_id(ends.passive), 0);
	ends.passive = NULL;
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	ends_close(&ends);
}

static void rdma_destroy_id_listener_rejects_unread_requests(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 4);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	assert_true(cm_readable(ends.server, 10000));
	assert_int_equal(rdma_destroy_id(ends.listener), 0);
	ends.listener = NULL;
	cm_skip_to(ends.client, RDMA_CM_EVENT_REJECTED);
	assert_false(cm_readable(ends.server, 0));
	ends_close(&ends);
}

/* Without a limit of the backlog a client could fill this host with half-open connections. */
static void rdma_listen_backlog_limits_pending_requests(void **state)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *extra;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	assert_true(cm_readable(ends.server, 10000));
	extra = ends.active;
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	/*
	 * A request for which there was no room is rejected, or is repeated until there is room;
	 * never both.
	 */
	event = cm_get(ends.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->param.conn.qp_num, extra->qp->qp_num);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	rdma_destroy_qp(extra);
	assert_int_equal(rdma_destroy_id(extra), 0);
	ends_close(&ends);
}

static void rdma_accept_in_wrong_state_fails(void **state)
{
	struct rdma_conn_param param = {.qp_num = 0x1234};
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_minus1_errno(rdma_connect(id, &param), EINVAL);
	assert_minus1_errno(rdma_connect(NULL, &param), EINVAL);
	assert_minus1_errno(rdma_accept(id, &param), EINVAL);
	assert_minus1_errno(rdma_accept(NULL, &param), EINVAL);
	assert_minus1_errno(rdma_reject(id, NULL, 0), EINVAL);
	assert_minus1_errno(rdma_reject(NULL, NULL, 0), EINVAL);
	assert_minus1_errno(rdma_disconnect(id), EINVAL);
	assert_minus1_errno(rdma_disconnect(NULL), EINVAL);
	assert_minus1_errno(rdma_establish(id), EINVAL);
	assert_minus1_errno(rdma_establish(NULL), EINVAL);
	assert_minus1_errno(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	assert_minus1_errno(rdma_notify(NULL, IBV_EVENT_COMM_EST), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_connect_without_route_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends.active = cm_id(ends.client);
	assert_int_equal(rdma_resolve_addr(ends.active, NULL, (struct sockaddr *)&ends.addr, 1000),
			 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_minus1_errno(rdma_connect(ends.active, NULL), EINVAL);
	ends_create_qp(ends.active);
	assert_minus1_errno(rdma_connect(ends.active, NULL), EINVAL);
	ends_close(&ends);
}

static void rdma_disconnect_reports_event_on_both_sides(void **state)
{
	struct ends ends;

	(void)state;
	for (int who = 0; who < 2; who++) {
		struct rdma_event_channel *channels[2];
		struct rdma_cm_id *ids[2];

		ends_open(&ends, NULL);
		ids[who] = ends.active;
		channels[who] = ends.client;
		ids[!who] = ends.passive;
		channels[!who] = ends.server;
		assert_int_equal(rdma_disconnect(ids[0]), 0);
		assert_int_equal(cm_qp_state(ids[0]), IBV_QPS_ERR);
		cm_pass(channels[1], ids[1], RDMA_CM_EVENT_DISCONNECTED);
		/*
		 * As documented, both sides call rdma_disconnect(). The first side gets its event
		 * when the second side has called it.
		 */
		assert_int_equal(rdma_disconnect(ids[1]), 0);
		assert_int_equal(cm_qp_state(ids[1]), IBV_QPS_ERR);
		cm_pass(channels[0], ids[0], RDMA_CM_EVENT_DISCONNECTED);
		cm_pass(ends.client, ends.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		ends_close(&ends);
	}
}

static void rdma_disconnect_flushes_receives(void **state)
{
	char buf[16];
	struct ibv_mr *mr;
	struct ends ends;
	struct ibv_wc wc;

	(void)state;
	ends_open(&ends, NULL);
	mr = rdma_reg_msgs(ends.passive, buf, sizeof(buf));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(ends.passive, buf, buf, sizeof(buf), mr), 0);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	assert_int_equal(rdma_get_recv_comp(ends.passive, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, (uintptr_t)buf);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	ends_close(&ends);
}

static void rdma_destroy_id_connected_disconnects_peer(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	rdma_destroy_qp(ends.active);
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	ends.active = NULL;
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	ends_close(&ends);
}

static void rdma_establish_id_with_qp_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_minus1_errno(rdma_establish(ends.active), EINVAL);
	assert_minus1_errno(rdma_establish(ends.passive), EINVAL);
	assert_minus1_errno(rdma_connect(ends.active, NULL), EINVAL);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	ends_close(&ends);
}

static void rdma_notify_established_connection_succeeds(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_minus1_errno(rdma_notify(ends.passive, IBV_EVENT_COMM_EST), EISCONN);
	assert_minus1_errno(rdma_notify(ends.passive, IBV_EVENT_QP_FATAL), EINVAL);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_connect_every_address_succeeds),
		cmocka_unit_test(rdma_listen_wildcard_accepts_every_address),
		cmocka_unit_test(rdma_connect_then_send_and_receive_succeeds),
		cmocka_unit_test(rdma_connect_private_data_arrives_both_ways),
		cmocka_unit_test(rdma_connect_long_private_data_fails),
		cmocka_unit_test(rdma_get_cm_event_parameters_are_seen_from_this_side),
		cmocka_unit_test(rdma_connect_above_device_limits_fails),
		cmocka_unit_test(rdma_connect_without_listener_is_rejected),
		cmocka_unit_test(rdma_listen_soon_after_request_accepts_it),
		cmocka_unit_test(rdma_listen_one_address_rejects_requests_to_others),
		cmocka_unit_test(rdma_reject_reason_and_private_data_arrive),
		cmocka_unit_test(rdma_destroy_id_unanswered_request_rejects_it),
		cmocka_unit_test(rdma_destroy_id_listener_rejects_unread_requests),
		cmocka_unit_test(rdma_listen_backlog_limits_pending_requests),
		cmocka_unit_test(rdma_accept_in_wrong_state_fails),
		cmocka_unit_test(rdma_connect_without_route_fails),
		cmocka_unit_test(rdma_disconnect_reports_event_on_both_sides),
		cmocka_unit_test(rdma_disconnect_flushes_receives),
		cmocka_unit_test(rdma_destroy_id_connected_disconnects_peer),
		cmocka_unit_test(rdma_establish_id_with_qp_fails),
		cmocka_unit_test(rdma_notify_established_connection_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
