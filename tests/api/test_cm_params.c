/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct rdma_conn_param: which members rdma_connect() and rdma_accept() use, and what the events
 * and the QPs of both sides show.
 */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

#define RNR_TIMER_655_MS 0
#define RETRIES_MAX	 7

static struct ibv_qp_attr qp_attr(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr,
				      IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER | IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_DEST_QPN,
				      &init),
			 0);
	return attr;
}

static void requested(struct ends *ends, struct rdma_conn_param *param)
{
	ends_listen(ends, NULL, 1);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, param);
	ends_create_qp(ends->passive);
}

/* Accepts with these parameters. Returns the event of the active side. */
static struct rdma_cm_event *accepted(struct ends *ends, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_accept(ends->passive, param), 0);
	event = cm_get(ends->client, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, ends->active);
	return event;
}

/* Acknowledges the event of the active side and retrieves that of the passive side. */
static void end(struct ends *ends, struct rdma_cm_event *event)
{
	assert_int_equal(rdma_ack_cm_event(event), 0);
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_ESTABLISHED);
	ends_close(ends);
}

static void rdma_connect_qps_have_rnr_timer_of_655_ms(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(qp_attr(ends.active).min_rnr_timer, RNR_TIMER_655_MS);
	assert_int_equal(qp_attr(ends.passive).min_rnr_timer, RNR_TIMER_655_MS);
	ends_close(&ends);
}

/* The device has no ACK delay: the timeout covers the packet lifetime in both directions. */
static void rdma_connect_ack_timeout_follows_packet_lifetime(void **state)
{
	struct ibv_device_attr attr;
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(ibv_query_device(ends.active->verbs, &attr), 0);
	assert_int_equal(attr.local_ca_ack_delay, 0);
	assert_int_equal(qp_attr(ends.active).timeout,
			 ends.active->route.path_rec->packet_life_time + 1);
	assert_int_equal(qp_attr(ends.passive).timeout,
			 ends.passive->route.path_rec->packet_life_time + 1);
	ends_close(&ends);
}

static void rdma_connect_retry_counts_have_three_bits(void **state)
{
	struct rdma_conn_param param = {.retry_count = UINT8_MAX, .rnr_retry_count = UINT8_MAX};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &param);
	assert_int_equal(ends.request->param.conn.retry_count, RETRIES_MAX);
	assert_int_equal(ends.request->param.conn.rnr_retry_count, RETRIES_MAX);
	event = accepted(&ends, &param);
	assert_int_equal(event->param.conn.rnr_retry_count, RETRIES_MAX);
	assert_int_equal(qp_attr(ends.active).retry_cnt, RETRIES_MAX);
	assert_int_equal(qp_attr(ends.active).rnr_retry, RETRIES_MAX);
	assert_int_equal(qp_attr(ends.passive).retry_cnt, RETRIES_MAX);
	assert_int_equal(qp_attr(ends.passive).rnr_retry, RETRIES_MAX);
	end(&ends, event);
}

/* Both QPs retransmit as often as the request specifies. */
static void rdma_accept_retry_count_is_ignored(void **state)
{
	struct rdma_conn_param request = {.retry_count = 3}, reply = {.retry_count = 6};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &request);
	event = accepted(&ends, &reply);
	assert_int_equal(qp_attr(ends.active).retry_cnt, 3);
	assert_int_equal(qp_attr(ends.passive).retry_cnt, 3);
	end(&ends, event);
}

/* Each side chooses how often its peer repeats a message that found no receive. */
static void rdma_connect_rnr_retry_count_is_for_qp_of_peer(void **state)
{
	struct rdma_conn_param request = {.rnr_retry_count = 2}, reply = {.rnr_retry_count = 5};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &request);
	event = accepted(&ends, &reply);
	assert_int_equal(qp_attr(ends.passive).rnr_retry, 2);
	assert_int_equal(qp_attr(ends.active).rnr_retry, 5);
	end(&ends, event);
}

static void rdma_connect_flow_control_is_reported_to_peer(void **state)
{
	(void)state;
	for (uint8_t sides = 0; sides < 4; sides++) {
		struct rdma_conn_param request = {.flow_control = sides & 1};
		struct rdma_conn_param reply = {.flow_control = sides >> 1};
		struct rdma_cm_event *event;
		struct ends ends;

		requested(&ends, &request);
		assert_int_equal(ends.request->param.conn.flow_control, sides & 1);
		event = accepted(&ends, &reply);
		assert_int_equal(event->param.conn.flow_control, sides >> 1);
		end(&ends, event);
	}
}

/* The number of the QP and the kind of its receive queue are those of the id's QP. */
static void rdma_connect_srq_and_qp_num_of_id_with_qp_are_ignored(void **state)
{
	struct rdma_conn_param param = {.srq = 1, .qp_num = 0x4711};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &param);
	assert_int_equal(ends.request->param.conn.srq, 0);
	assert_int_equal(ends.request->param.conn.qp_num, ends.active->qp->qp_num);
	event = accepted(&ends, &param);
	assert_int_equal(event->param.conn.srq, 0);
	assert_int_equal(event->param.conn.qp_num, ends.passive->qp->qp_num);
	assert_int_equal(qp_attr(ends.active).dest_qp_num, ends.passive->qp->qp_num);
	assert_int_equal(qp_attr(ends.passive).dest_qp_num, ends.active->qp->qp_num);
	end(&ends, event);
}

static void rdma_connect_private_data_is_copied_during_call(void **state)
{
	char data[8] = "request";
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, &param), 0);
	memcpy(data, "reply!!", sizeof(data));
	ends.request = cm_get(ends.server, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends.passive = ends.request->id;
	assert_string_equal(ends.request->param.conn.private_data, "request");
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	memset(data, 0, sizeof(data));
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_string_equal(event->param.conn.private_data, "reply!!");
	end(&ends, event);
}

/* RDMA_CM_EVENT_ESTABLISHED of the passive side follows from the RTU, which has no private data. */
static void rdma_get_cm_event_without_private_data_has_null(void **state)
{
	struct rdma_conn_param param = {.private_data = "x", .private_data_len = 1};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &param);
	event = accepted(&ends, &param);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	event = cm_get(ends.server, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, ends.passive);
	assert_null(event->listen_id);
	assert_null(event->param.conn.private_data);
	assert_int_equal(event->param.conn.private_data_len, 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
}

static int datagrams(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_UDP;
	return 0;
}

static int connections(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_TCP;
	return 0;
}

/* The members that describe a connection are not checked and have no effect. */
static void rdma_connect_ud_members_of_connections_are_ignored(void **state)
{
	struct rdma_conn_param param = {
		.responder_resources = RDMA_MAX_RESP_RES - 1,
		.initiator_depth = RDMA_MAX_INIT_DEPTH - 1,
		.flow_control = 1,
		.retry_count = UINT8_MAX,
		.rnr_retry_count = UINT8_MAX,
		.srq = 1,
		.qp_num = 0x4711,
	};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	requested(&ends, &param);
	event = accepted(&ends, &param);
	assert_int_equal(event->param.ud.qp_num, ends.passive->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_connect_qps_have_rnr_timer_of_655_ms),
		cmocka_unit_test(rdma_connect_ack_timeout_follows_packet_lifetime),
		cmocka_unit_test(rdma_connect_retry_counts_have_three_bits),
		cmocka_unit_test(rdma_accept_retry_count_is_ignored),
		cmocka_unit_test(rdma_connect_rnr_retry_count_is_for_qp_of_peer),
		cmocka_unit_test(rdma_connect_flow_control_is_reported_to_peer),
		cmocka_unit_test(rdma_connect_srq_and_qp_num_of_id_with_qp_are_ignored),
		cmocka_unit_test(rdma_connect_private_data_is_copied_during_call),
		cmocka_unit_test(rdma_get_cm_event_without_private_data_has_null),
		cmocka_unit_test_setup_teardown(rdma_connect_ud_members_of_connections_are_ignored,
						datagrams, connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
