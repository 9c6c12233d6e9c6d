/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of ids and rdma_conn_param: each value of each side, among them 0, and the attributes of
 * both QPs and the events that follow from it. The expected values are those of Linux
 * (drivers/infiniband/core/cma.c, cm.c). Runs over both transports.
 */
#include "cm_fixture.h"

#include <string.h>

#define NOT_SET (-1)

/* 4.096 us * 2^16; the local ACK timeout is twice as long. */
#define DEFAULT_LIFE_TIME   16
#define DEFAULT_ACK_TIMEOUT (DEFAULT_LIFE_TIME + 1)

/* What one side of a connection sets. */
struct settings {
	int tos; /* before the route is resolved, or before rdma_accept() */
	int ack_timeout;
	int late_ack_timeout; /* active side: after the route is resolved */
	const struct rdma_conn_param *param;
};

/* The attributes of one side's QP, and the life time of its path. */
struct values {
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t traffic_class;
	uint8_t life_time;
};

struct param_case {
	const char *name;
	struct settings active;
	struct settings passive;
	struct values active_qp;
	struct values passive_qp;
	struct rdma_conn_param requested;   /* in CONNECT_REQUEST */
	struct rdma_conn_param established; /* in the active side's ESTABLISHED */
};

/* Of param `some` on both sides. */
#define SOME_QP(ack_timeout, life)                                                            \
	{                                                                                     \
		.timeout = (ack_timeout), .retry_cnt = 6, .rnr_retry = 5, .max_rd_atomic = 2, \
		.max_dest_rd_atomic = 2, .life_time = (life)                                  \
	}
#define SOME_EVENTS                             \
	.requested = {.responder_resources = 2, \
		      .initiator_depth = 2,     \
		      .retry_count = 6,         \
		      .rnr_retry_count = 5},    \
	.established = {.responder_resources = 2, .initiator_depth = 2, .rnr_retry_count = 5}

static const struct rdma_conn_param some = {
	.responder_resources = 2, .initiator_depth = 2, .retry_count = 6, .rnr_retry_count = 5};
static const struct rdma_conn_param zeros;
static const struct rdma_conn_param request = {.responder_resources = 3,
					       .initiator_depth = 5,
					       .flow_control = 1,
					       .retry_count = 6,
					       .rnr_retry_count = 4};
static const struct rdma_conn_param reply = {.responder_resources = 2,
					     .initiator_depth = 1,
					     .flow_control = 1,
					     .retry_count = 3,
					     .rnr_retry_count = 5};
static const struct rdma_conn_param too_large = {.responder_resources = 1,
						 .initiator_depth = 1,
						 .flow_control = 9,
						 .retry_count = 8,
						 .rnr_retry_count = 255};

/* `some` on both sides, and these ACK timeouts: of the options, and of the QPs. */
#define ACK_TIMEOUT_CASE(title, active_set, late_set, passive_set, active_has, passive_has, life) \
	{                                                                                         \
		.name = (title), .active = {NOT_SET, active_set, late_set, &some},                \
		.passive = {NOT_SET, passive_set, NOT_SET, &some},                                \
		.active_qp = SOME_QP(active_has, life), .passive_qp = SOME_QP(passive_has, life), \
		SOME_EVENTS                                                                       \
	}

static const struct param_case cases[] = {
	ACK_TIMEOUT_CASE("no option", NOT_SET, NOT_SET, NOT_SET, 17, 17, 16),
	/* Each side's option is that of its own QP. */
	ACK_TIMEOUT_CASE("both sides", 9, NOT_SET, 11, 9, 11, 8),
	ACK_TIMEOUT_CASE("passive side", NOT_SET, NOT_SET, 11, 17, 11, 16),
	/* The path and the REQ have the value only if the option precedes the route. */
	ACK_TIMEOUT_CASE("active side", 9, NOT_SET, NOT_SET, 9, 9, 8),
	ACK_TIMEOUT_CASE("after the route", NOT_SET, 9, NOT_SET, 9, 17, 16),
	ACK_TIMEOUT_CASE("changed after the route", 12, 0, NOT_SET, 0, 12, 11),
	/* 0: no timer. */
	ACK_TIMEOUT_CASE("0 on both sides", 0, NOT_SET, 0, 0, 0, 16),
	ACK_TIMEOUT_CASE("0 on the active side", 0, NOT_SET, NOT_SET, 0, 17, 16),
	ACK_TIMEOUT_CASE("0 on the passive side", 9, NOT_SET, 0, 9, 0, 8),
	ACK_TIMEOUT_CASE("1 and 31", 1, NOT_SET, 31, 1, 31, 0),
	ACK_TIMEOUT_CASE("31 and 1", 31, NOT_SET, 1, 31, 1, 30),
	{
		.name = "type of service",
		.active = {0x28, NOT_SET, NOT_SET, &some},
		/* As on Linux, the QP of the passive side uses the traffic class of the REQ. */
		.passive = {0x44, NOT_SET, NOT_SET, &some},
		.active_qp = {DEFAULT_ACK_TIMEOUT, 6, 5, 2, 2, 0x28, DEFAULT_LIFE_TIME},
		.passive_qp = {DEFAULT_ACK_TIMEOUT, 6, 5, 2, 2, 0x28, DEFAULT_LIFE_TIME},
		SOME_EVENTS,
	},
	{
		.name = "type of service 0",
		.active = {0, NOT_SET, NOT_SET, &some},
		.passive = {0, NOT_SET, NOT_SET, &some},
		.active_qp = SOME_QP(DEFAULT_ACK_TIMEOUT, DEFAULT_LIFE_TIME),
		.passive_qp = SOME_QP(DEFAULT_ACK_TIMEOUT, DEFAULT_LIFE_TIME),
		SOME_EVENTS,
	},
	{
		.name = "all members 0",
		.active = {NOT_SET, NOT_SET, NOT_SET, &zeros},
		.passive = {NOT_SET, NOT_SET, NOT_SET, &zeros},
		.active_qp = {.timeout = DEFAULT_ACK_TIMEOUT, .life_time = DEFAULT_LIFE_TIME},
		.passive_qp = {.timeout = DEFAULT_ACK_TIMEOUT, .life_time = DEFAULT_LIFE_TIME},
	},
	{
		.name = "different members",
		.active = {NOT_SET, NOT_SET, NOT_SET, &request},
		.passive = {NOT_SET, NOT_SET, NOT_SET, &reply},
		/* The RNR retry count of the peer's message, and the retry count of the request. */
		.active_qp = {DEFAULT_ACK_TIMEOUT, 6, 5, 2, 1, 0, DEFAULT_LIFE_TIME},
		.passive_qp = {DEFAULT_ACK_TIMEOUT, 6, 4, 1, 2, 0, DEFAULT_LIFE_TIME},
		.requested = {.responder_resources = 5,
			      .initiator_depth = 3,
			      .flow_control = 1,
			      .retry_count = 6,
			      .rnr_retry_count = 4},
		.established = {.responder_resources = 1,
				.initiator_depth = 2,
				.flow_control = 1,
				.rnr_retry_count = 5},
	},
	{
		.name = "values above 7",
		.active = {NOT_SET, NOT_SET, NOT_SET, &too_large},
		.passive = {NOT_SET, NOT_SET, NOT_SET, &too_large},
		.active_qp = {DEFAULT_ACK_TIMEOUT, 7, 7, 1, 1, 0, DEFAULT_LIFE_TIME},
		.passive_qp = {DEFAULT_ACK_TIMEOUT, 7, 7, 1, 1, 0, DEFAULT_LIFE_TIME},
		.requested = {.responder_resources = 1,
			      .initiator_depth = 1,
			      .flow_control = 1,
			      .retry_count = 7,
			      .rnr_retry_count = 7},
		.established = {.responder_resources = 1,
				.initiator_depth = 1,
				.flow_control = 1,
				.rnr_retry_count = 7},
	},
};

static void set_byte(struct rdma_cm_id *id, int name, int value)
{
	uint8_t byte = (uint8_t)value;

	if (value != NOT_SET)
		assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, name, &byte, sizeof(byte)), 0);
}

static void apply(struct rdma_cm_id *id, const struct settings *settings)
{
	set_byte(id, RDMA_OPTION_ID_TOS, settings->tos);
	set_byte(id, RDMA_OPTION_ID_ACK_TIMEOUT, settings->ack_timeout);
}

static void assert_param(const struct rdma_conn_param *seen, const struct rdma_conn_param *expected,
			 uint32_t qpn)
{
	assert_int_equal(seen->responder_resources, expected->responder_resources);
	assert_int_equal(seen->initiator_depth, expected->initiator_depth);
	assert_int_equal(seen->flow_control, expected->flow_control);
	assert_int_equal(seen->retry_count, expected->retry_count);
	assert_int_equal(seen->rnr_retry_count, expected->rnr_retry_count);
	assert_int_equal(seen->srq, 0);
	assert_int_equal(seen->qp_num, qpn);
}

static void assert_attr(const struct ibv_qp_attr *attr, const struct values *expected)
{
	assert_int_equal(attr->timeout, expected->timeout);
	assert_int_equal(attr->retry_cnt, expected->retry_cnt);
	assert_int_equal(attr->rnr_retry, expected->rnr_retry);
	assert_int_equal(attr->max_rd_atomic, expected->max_rd_atomic);
	assert_int_equal(attr->max_dest_rd_atomic, expected->max_dest_rd_atomic);
	assert_int_equal(attr->min_rnr_timer, 0);
	assert_int_equal(attr->ah_attr.grh.traffic_class, expected->traffic_class);
}

/* The attributes of the id's QP, and those that an application gets for a QP of its own. */
static void assert_values(struct rdma_cm_id *id, const struct values *expected)
{
	struct ibv_qp_attr attr, own = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_init_attr init;
	int mask;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_attr(&attr, expected);
	assert_int_equal(rdma_init_qp_attr(id, &own, &mask), 0);
	assert_true(mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	own.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(id, &own, &mask), 0);
	assert_true(mask & IBV_QP_TIMEOUT && mask & IBV_QP_MAX_QP_RD_ATOMIC);
	assert_attr(&own, expected);
	assert_int_equal(id->route.path_rec->packet_life_time, expected->life_time);
}

static void resolve(struct ends *ends, const struct settings *settings)
{
	ends->active = cm_id(ends->client);
	apply(ends->active, settings);
	assert_int_equal(
		rdma_resolve_addr(ends->active, NULL, (struct sockaddr *)&ends->addr, 1000), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(ends->active, 1000), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	set_byte(ends->active, RDMA_OPTION_ID_ACK_TIMEOUT, settings->late_ack_timeout);
}

static void run_case(const struct param_case *test)
{
	struct rdma_conn_param param = *test->active.param;
	static const struct rdma_conn_param none;
	struct rdma_cm_event *event;
	struct ends ends;

	print_message("# %s\n", test->name);
	ends_listen(&ends, NULL, 1);
	resolve(&ends, &test->active);
	ends_create_qp(ends.active);
	ends_request(&ends, &param);
	assert_param(&ends.request->param.conn, &test->requested, ends.active->qp->qp_num);
	ends_create_qp(ends.passive);
	apply(ends.passive, &test->passive);
	param = *test->passive.param;
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_param(&event->param.conn, &test->established, ends.passive->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	event = cm_get(ends.server, RDMA_CM_EVENT_ESTABLISHED);
	assert_param(&event->param.conn, &none, 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_values(ends.active, &test->active_qp);
	assert_values(ends.passive, &test->passive_qp);
	ends_close(&ends);
}

static void rdma_accept_sets_values_of_both_sides(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&cases[i]);
}

/* The option takes effect when the QP enters RTS, on the active side when the REP is received. */
static void rdma_set_option_ack_timeout_while_connecting_is_used(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	set_byte(ends.active, RDMA_OPTION_ID_ACK_TIMEOUT, 0);
	ends_create_qp(ends.passive);
	set_byte(ends.passive, RDMA_OPTION_ID_ACK_TIMEOUT, 13);
	set_byte(ends.passive, RDMA_OPTION_ID_ACK_TIMEOUT, 14);
	ends_establish(&ends);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		assert_int_equal(ibv_query_qp(i ? ends.passive->qp : ends.active->qp, &attr,
					      IBV_QP_TIMEOUT, &init),
				 0);
		assert_int_equal(attr.timeout, i ? 14 : 0);
	}
	ends_close(&ends);
}

/* An option of the listener is not inherited by the ids of its requests. */
static void rdma_set_option_ack_timeout_of_listener_has_no_effect(void **state)
{
	static const struct values expected = SOME_QP(DEFAULT_ACK_TIMEOUT, DEFAULT_LIFE_TIME);
	struct rdma_conn_param param = some;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	set_byte(ends.listener, RDMA_OPTION_ID_ACK_TIMEOUT, 11);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, &param);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	assert_values(ends.passive, &expected);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_accept_sets_values_of_both_sides),
		cmocka_unit_test(rdma_set_option_ack_timeout_while_connecting_is_used),
		cmocka_unit_test(rdma_set_option_ack_timeout_of_listener_has_no_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
