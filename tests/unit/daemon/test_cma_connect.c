/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "cma_desk.h"

#define PRIVATE_REQ 56
#define PRIVATE_REP 196
#define PRIVATE_REJ 148

static const uint8_t zero[IPC_PRIVATE_MAX];

static void expect_private(const struct ipc_cm_event *event, const char *text, uint32_t len)
{
	size_t n = strlen(text);

	assert_int_equal(event->param.private_len, len);
	assert_memory_equal(event->param.private_data, text, n);
	assert_memory_equal(event->param.private_data + n, zero, len - n);
}

static void cma_connect_both_sides_get_addresses_and_parameters(void **state)
{
	struct ipc_cm_event event, response;
	struct ipc_cm_param param;
	uint32_t active, passive;

	(void)state;
	desk_listener(&root, "10.0.0.1");
	active = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "ask");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_expect_none(root.fd);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event.id;
	assert_int_equal(event.cookie, 0);
	assert_int_equal(event.listen_cookie, 0x1157);
	assert_int_equal(event.events_sent, 1);
	assert_int_equal(event.status, 0);
	expect_private(&event, "ask", PRIVATE_REQ);
	/* The peer's initiator depth is our number of responder resources. */
	assert_int_equal(event.param.responder_resources, 2);
	assert_int_equal(event.param.initiator_depth, 4);
	assert_int_equal(event.param.qp_num, 0x8002);
	assert_int_equal(event.param.qp_type, IBV_QPT_RC);
	assert_int_equal(event.param.retry_count, 7);
	assert_int_equal(event.qp.remote_qpn, 0x8002);
	assert_int_equal(event.qp.path_mtu, IBV_MTU_1024);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
	assert_int_equal(event.route.has_path, 1);
	assert_int_equal(ntohs(((struct sockaddr_in *)&event.route.src)->sin_port), DESK_PORT);
	assert_int_equal(ntohl(((struct sockaddr_in *)&event.route.dst)->sin_addr.s_addr),
			 0x0a000001);

	desk_param(&param, 0x10002, "answer");
	param.responder_resources = 1;
	param.initiator_depth = 200;
	assert_int_equal(desk_accept(&root, passive, 0xacce, &param), 0);
	desk_run();
	desk_take(user.fd, &response, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(response.cookie, 0xac71);
	expect_private(&response, "answer", PRIVATE_REP);
	assert_int_equal(response.qp.remote_qpn, 0x10002);
	assert_int_equal(response.qp.rq_psn, event.qp.sq_psn);
	assert_int_equal(response.qp.sq_psn, event.qp.rq_psn);
	/* The smaller of the offered and the requested value. */
	assert_int_equal(response.qp.max_rd_atomic, 1);
	assert_int_equal(response.qp.max_dest_rd_atomic, 4);
	assert_int_equal(response.param.initiator_depth, 1);
	assert_int_equal(response.param.responder_resources, 4);
	desk_expect_none(root.fd);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event.cookie, 0xacce);
	assert_int_equal(event.events_sent, 1);
	assert_int_equal(event.qp.max_dest_rd_atomic, 1);
	assert_int_equal(event.qp.max_rd_atomic, 4);
	desk_expect_none(user.fd);
}

static void cma_disconnect_reports_event_on_both_sides(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;
	uint64_t events;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, passive);
	desk_expect_none(user.fd);
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.status, 0);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	desk_wait_event(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	/* A second disconnect has no effect. */
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_expect_none(user.fd);
	assert_int_equal(desk_destroy(&user, active, &events), 0);
	assert_int_equal(events, 5);
	assert_int_equal(desk_destroy(&root, passive, &events), 0);
	assert_int_equal(events, 3);
	assert_int_equal(desk_destroy(&root, listener, &events), 0);
	assert_int_equal(events, 1);
}

/* As in Linux: there is no connection to end, and no event follows. */
static void cma_disconnect_before_established_has_no_effect(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t active, passive;

	(void)state;
	desk_listener(&root, "127.0.0.1");
	active = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), -EINVAL);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event.id;
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_expect_none(root.fd);
	desk_expect_none(user.fd);
	assert_int_equal(desk_reject(&root, passive, 28, NULL, 0), 0);
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_expect_none(root.fd);
	desk_expect_none(user.fd);
}

static void cma_connect_without_listener_is_rejected_with_reason_8(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "127.0.0.1");
	desk_param(&param, 0x8002, "");
	/* An unused port, and a port of another address. */
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT + 1);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 8);
	param.qp_num++;
	id = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 8);
	assert_int_equal(event.param.private_len, PRIVATE_REJ);
}

static void cma_listen_exact_address_precedes_wildcard(void **state)
{
	uint32_t wildcard, exact, id;
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	assert_int_equal(desk_create(&root, &wildcard, 1), 0);
	assert_int_equal(desk_create(&root, &exact, 2), 0);
	desk_option(&root, wildcard, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1, sizeof(int));
	assert_int_equal(desk_bind(&root, wildcard, "::", DESK_PORT, NULL), 0);
	assert_int_equal(desk_bind(&root, exact, "10.0.0.1", DESK_PORT, NULL), 0);
	assert_int_equal(desk_listen(&root, wildcard, 3), 0);
	assert_int_equal(desk_listen(&root, exact, 3), 0);
	desk_param(&param, 0x8002, "");
	id = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	param.qp_num++;
	id = desk_resolved(&user, "fd00::1", DESK_PORT);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.listen_cookie, 2);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.listen_cookie, 1);
	assert_int_equal(event.route.src.ss_family, AF_INET6);
}

static void cma_reject_private_data_arrives(void **state)
{
	uint8_t words[PRIVATE_REJ + 1];
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id, child;

	(void)state;
	memset(words, 'n', sizeof(words));
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = event.id;
	assert_int_equal(desk_reject(&root, child, 28, words, sizeof(words)), -EINVAL);
	assert_int_equal(desk_reject(&root, child, 0, NULL, 0), -EINVAL);
	assert_int_equal(desk_reject(&root, child, 1000, NULL, 0), -EINVAL);
	assert_int_equal(desk_reject(&root, child, 28, words, PRIVATE_REJ), 0);
	assert_int_equal(desk_reject(&root, child, 28, NULL, 0), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	assert_int_equal(event.param.private_len, PRIVATE_REJ);
	assert_memory_equal(event.param.private_data, words, PRIVATE_REJ);
}

static void cma_reject_reply_is_reported_to_passive_side(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	param.qp_num = 0x10002;
	assert_int_equal(desk_accept(&root, event.id, 5, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(desk_reject(&user, id, 28, "no", 2), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	expect_private(&event, "no", PRIVATE_REJ);
}

static void cma_connect_long_private_data_fails(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	param.private_len = PRIVATE_REQ + 1;
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	param.private_len = UINT32_MAX;
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	param.private_len = PRIVATE_REQ;
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	param.private_len = PRIVATE_REP + 1;
	assert_int_equal(desk_accept(&root, event.id, 5, &param), -EINVAL);
	/* As in Linux, the request was rejected. */
	param.private_len = PRIVATE_REP;
	param.qp_num++;
	assert_int_equal(desk_accept(&root, event.id, 5, &param), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	desk_expect_none(root.fd);
}

static int only_even(void *ctx, const struct cma_peer *peer, uint32_t qpn)
{
	(void)ctx;
	assert_int_equal(peer->uid, 1000);
	return qpn % 2 ? -EPERM : 0;
}

static void cma_connect_invalid_parameter_fails(void **state)
{
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x1000000, "");
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	desk_param(&param, 0x8002, "");
	param.qp_type = IBV_QPT_UD;
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	cma_set_qpn_check(desk_cma, only_even, NULL);
	desk_param(&param, 0x8003, "");
	assert_int_equal(desk_connect(&user, id, &param), -EPERM);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
}

static void cma_connect_uc_request_is_uc(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	param.qp_type = IBV_QPT_UC;
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.param.qp_type, IBV_QPT_UC);
}

static void cma_listen_full_backlog_drops_requests(void **state)
{
	uint32_t listener, ids[3];
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	assert_int_equal(desk_create(&root, &listener, 1), 0);
	assert_int_equal(desk_bind(&root, listener, "0.0.0.0", DESK_PORT, NULL), 0);
	assert_int_equal(desk_listen(&root, listener, 2), 0);
	for (uint32_t i = 0; i < 3; i++) {
		ids[i] = desk_resolved(&user, "127.0.0.1", DESK_PORT);
		desk_param(&param, 0x8002 + i, "");
		assert_int_equal(desk_connect(&user, ids[i], &param), 0);
	}
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	desk_expect_none(user.fd);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	desk_expect_none(root.fd);
	/* Both were read, and the third request is retransmitted. */
	desk_wait_event(&root);
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.events_sent, 3);
}

static void cma_destroy_connecting_id_cancels_request(void **state)
{
	struct ipc_cm_connect accept = {.hdr.flags = IPC_UNANSWERED, .cookie = 0x55};
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event.id;
	/* As in Linux: until ACCEPT, the context of the id is that of the listener. */
	desk_expect_none(root.fd);
	accept.id = id;
	accept.param = param;
	assert_int_equal(desk_ask(&root, &accept, IPC_CM_ACCEPT, sizeof(accept), NULL), -EINVAL);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.id, id);
	assert_int_equal(event.status, 4);
	assert_int_equal(event.cookie, accept.cookie);
	assert_int_equal(desk_accept(&root, id, 1, &param), -EINVAL);
	desk_expect_none(root.fd);
	assert_int_equal(desk_destroy(&root, id, NULL), 0);
}

static void cma_destroy_listener_keeps_connections(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	assert_int_equal(desk_destroy(&root, listener, NULL), 0);
	desk_run();
	desk_expect_none(user.fd);
	assert_int_equal(desk_destroy(&root, passive, NULL), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
}

static void cma_notify_before_rtu_establishes(void **state)
{
	struct ipc_cm_notify req = {.event = IBV_EVENT_COMM_EST};
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	req.id = event.id;
	desk_param(&param, 0x8004, "");
	assert_int_equal(desk_accept(&root, event.id, 9, &param), 0);
	desk_run();
	assert_int_equal(desk_ask(&root, &req, IPC_CM_NOTIFY, sizeof(req), NULL), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(desk_ask(&root, &req, IPC_CM_NOTIFY, sizeof(req), NULL), -EISCONN);
	req.event = IBV_EVENT_PATH_MIG;
	assert_int_equal(desk_ask(&root, &req, IPC_CM_NOTIFY, sizeof(req), NULL), -EINVAL);
}

static void request_whose_path_mtu_exceeds_that_of_the_interface_arrives(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	fake_netdev_set_mtu(FAKE_LO, 1500);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.qp.path_mtu, IBV_MTU_4096);
	assert_int_equal(event.route.mtu, IBV_MTU_4096);
}

/*
 * A request without a reply fails by an event, except if the id already got an event for the cause.
 */
static void cma_connect_request_without_reply_fails_by_event(void **state)
{
	struct ipc_cm_connect req = {.hdr.flags = IPC_UNANSWERED};
	struct ipc_cm_id establish = {.hdr.flags = IPC_UNANSWERED};
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	req.id = id;
	desk_param(&req.param, 0x8002, "");
	req.param.qp_type = IBV_QPT_UD;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_CONNECT_ERROR);
	assert_int_equal(event.id, id);
	assert_int_equal(event.status, -EINVAL);
	req.param.qp_type = IBV_QPT_RC;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(desk_reject(&root, event.id, 28, NULL, 0), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	establish.id = id;
	assert_int_equal(desk_ask(&user, &establish, IPC_CM_ESTABLISH, sizeof(establish), NULL),
			 -EINVAL);
	establish.id = ~id;
	assert_int_equal(desk_ask(&user, &establish, IPC_CM_ESTABLISH, sizeof(establish), NULL),
			 -EBADF);
	desk_run();
	desk_expect_none(user.fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_connect_both_sides_get_addresses_and_parameters),
		TEST(cma_disconnect_reports_event_on_both_sides),
		TEST(cma_disconnect_before_established_has_no_effect),
		TEST(cma_connect_without_listener_is_rejected_with_reason_8),
		TEST(cma_listen_exact_address_precedes_wildcard),
		TEST(cma_reject_private_data_arrives),
		TEST(cma_reject_reply_is_reported_to_passive_side),
		TEST(cma_connect_long_private_data_fails),
		TEST(cma_connect_invalid_parameter_fails),
		TEST(cma_connect_uc_request_is_uc),
		TEST(cma_listen_full_backlog_drops_requests),
		TEST(cma_destroy_connecting_id_cancels_request),
		TEST(cma_connect_request_without_reply_fails_by_event),
		TEST(cma_destroy_listener_keeps_connections),
		TEST(cma_notify_before_rtu_establishes),
		TEST(request_whose_path_mtu_exceeds_that_of_the_interface_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
