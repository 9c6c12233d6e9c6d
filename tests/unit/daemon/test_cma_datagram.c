/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids of datagram QPs: resolving a service, answering a request, and the events of both sides. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <json-c/json.h>
#include <cmocka.h>

#include "cma_desk.h"

#define PRIVATE_SIDR_REQ 180
#define PRIVATE_SIDR_REP 136
#define QPN		 0x10002
#define QKEY		 0xabcdef

static const uint8_t zero[IPC_PRIVATE_MAX];

static int open_datagram(void **state)
{
	int ret = desk_open(state);

	desk_ps = RDMA_PS_UDP;
	desk_qp_type = IBV_QPT_UD;
	return ret;
}

static void expect_private(const struct ipc_cm_event *event, const char *text, uint32_t len)
{
	size_t n = strlen(text);

	assert_int_equal(event->param.private_len, len);
	assert_memory_equal(event->param.private_data, text, n);
	assert_memory_equal(event->param.private_data + n, zero, len - n);
}

/* A request that has arrived at root's listener at `addr`; *active is the requesting id. */
static uint32_t ask(const char *addr, uint32_t *active, struct ipc_cm_event *event)
{
	struct ipc_cm_param param;

	*active = desk_resolved(&user, addr, DESK_PORT);
	desk_param(&param, 0x8002, "who");
	assert_int_equal(desk_connect(&user, *active, &param), 0);
	desk_expect_none(root.fd);
	desk_run();
	desk_take(root.fd, event, RDMA_CM_EVENT_CONNECT_REQUEST);
	return event->id;
}

static void cma_connect_datagram_both_sides_get_addresses_and_qpn(void **state)
{
	struct ipc_cm_event event, response;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "10.0.0.1");
	passive = ask("10.0.0.1", &active, &event);
	assert_int_equal(event.cookie, 0);
	assert_int_equal(event.listen_cookie, 0x1157);
	assert_int_equal(event.status, 0);
	expect_private(&event, "who", PRIVATE_SIDR_REQ);
	assert_int_equal(event.param.qp_type, IBV_QPT_UD);
	assert_int_equal(event.param.qp_num, 0);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
	assert_int_equal(event.route.has_path, 1);
	assert_int_equal(event.route.port_num, 1);
	assert_int_equal(ntohs(((struct sockaddr_in *)&event.route.src)->sin_port), DESK_PORT);
	assert_memory_equal(event.route.sgid, event.route.dgid, 16);

	desk_param(&param, QPN, "me");
	assert_int_equal(desk_accept(&root, passive, 0xacce, &param), 0);
	desk_run();
	desk_take(user.fd, &response, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(response.id, active);
	assert_int_equal(response.status, 0);
	assert_int_equal(response.param.qp_num, QPN);
	assert_int_equal(response.param.qkey, RDMA_UDP_QKEY);
	assert_int_equal(response.qp.remote_qpn, QPN);
	assert_int_equal(response.qp.qkey, RDMA_UDP_QKEY);
	expect_private(&response, "me", PRIVATE_SIDR_REP);
	/* The passive side gets no further event. */
	desk_run();
	desk_expect_none(root.fd);
	assert_int_equal(desk_destroy(&root, passive, NULL), 0);
	desk_run();
	desk_expect_none(user.fd);
	assert_int_equal(desk_destroy(&user, active, NULL), 0);
}

static void cma_accept_datagram_given_qkey_is_returned(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_ps = RDMA_PS_IPOIB;
	desk_listener(&root, "::");
	passive = ask("fd00::1", &active, &event);
	assert_int_equal(event.route.dst.ss_family, AF_INET6);
	desk_param(&param, QPN, "");
	param.qkey = QKEY;
	assert_int_equal(desk_accept(&root, passive, 1, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event.param.qkey, QKEY);
}

static void cma_reject_datagram_reports_unreachable_with_private_data(void **state)
{
	uint8_t words[PRIVATE_SIDR_REP + 1];
	struct ipc_cm_event event;
	uint32_t active, passive;

	(void)state;
	memset(words, 'n', sizeof(words));
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	assert_int_equal(desk_reject(&root, passive, 28, words, sizeof(words)), -EINVAL);
	assert_int_equal(desk_reject(&user, active, 28, words, 1), -EINVAL);
	assert_int_equal(desk_reject(&root, passive, 28, words, PRIVATE_SIDR_REP), 0);
	assert_int_equal(desk_reject(&root, passive, 28, NULL, 0), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, 2);
	assert_int_equal(event.param.private_len, PRIVATE_SIDR_REP);
	assert_memory_equal(event.param.private_data, words, PRIVATE_SIDR_REP);
	desk_expect_none(root.fd);
}

static void cma_connect_datagram_without_listener_reports_status_1(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_listener(&root, "127.0.0.1");
	desk_param(&param, 0x8002, "");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT + 1);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, 1);
	id = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, 1);
}

/* PS_IB permits both kinds of QP: the request must match the listener. */
static void cma_connect_datagram_to_connection_listener_is_rejected(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_ps = RDMA_PS_IB;
	desk_listener(&root, "127.0.0.1");
	desk_qp_type = IBV_QPT_RC;
	desk_listener(&root, "10.0.0.1");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 8);
	desk_qp_type = IBV_QPT_UD;
	id = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, 1);
	desk_expect_none(root.fd);
}

/* As in Linux, an accept that fails rejects the request. */
static void refused(struct ipc_cm_event *event)
{
	desk_run();
	desk_take(user.fd, event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event->status, 2);
}

static void cma_connect_datagram_long_private_data_fails(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive, id;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	param.private_len = PRIVATE_SIDR_REQ + 1;
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	param.private_len = PRIVATE_SIDR_REQ;
	param.qp_num = 1 << 24;
	assert_int_equal(desk_connect(&user, id, &param), -EINVAL);
	param.qp_num = 0;
	memset(param.private_data, 'p', PRIVATE_SIDR_REQ);
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.param.private_len, PRIVATE_SIDR_REQ);
	assert_int_equal(event.param.private_data[PRIVATE_SIDR_REQ - 1], 'p');
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	assert_int_equal(desk_destroy(&root, event.id, NULL), 0);

	passive = ask("127.0.0.1", &active, &event);
	desk_param(&param, QPN, "");
	param.private_len = PRIVATE_SIDR_REP + 1;
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EINVAL);
	refused(&event);
	passive = ask("127.0.0.1", &active, &event);
	param.private_len = PRIVATE_SIDR_REP;
	param.qp_num = 1 << 24;
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EINVAL);
	refused(&event);
	passive = ask("127.0.0.1", &active, &event);
	param.qp_num = QPN;
	assert_int_equal(desk_accept(&root, passive, 1, &param), 0);
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EINVAL);
}

static int no_qpn(void *ctx, const struct cma_peer *peer, uint32_t qpn)
{
	(void)ctx;
	(void)peer;
	return qpn == QPN ? -EPERM : 0;
}

static void cma_accept_datagram_foreign_qpn_fails(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	cma_set_qpn_check(desk_cma, no_qpn, NULL);
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	desk_param(&param, QPN, "");
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EPERM);
	refused(&event);
	param.qp_num++;
	assert_int_equal(desk_accept(&root, passive, 1, &param), -EINVAL);
}

/* These calls fail, because there is no connection. */
static void cma_disconnect_datagram_id_fails(void **state)
{
	struct ipc_cm_notify notify = {.event = IBV_EVENT_COMM_EST};
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), -EINVAL);
	desk_param(&param, QPN, "");
	assert_int_equal(desk_accept(&root, passive, 1, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	notify.id = active;
	assert_int_equal(desk_ask(&user, &notify, IPC_CM_NOTIFY, sizeof(notify), NULL), -EINVAL);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), -EINVAL);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, passive), 0);
	desk_run();
	desk_expect_none(user.fd);
	desk_expect_none(root.fd);
}

static void cma_destroy_datagram_request_rejects_it(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	assert_int_equal(desk_destroy(&root, passive, NULL), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, 2);
	/* Destroying a listener rejects its unread requests, too. */
	active = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_run();
	cma_client_gone(root.client);
	root.client = NULL;
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.id, active);
	assert_int_equal(event.status, 2);
}

static void cma_destroy_resolving_id_reports_no_event(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	assert_int_equal(desk_destroy(&user, active, NULL), 0);
	desk_param(&param, QPN, "");
	assert_int_equal(desk_accept(&root, passive, 1, &param), 0);
	desk_run();
	desk_expect_none(user.fd);
}

static void cma_netdev_changed_datagram_id_reports_device_removal(void **state)
{
	struct ipc_cm_event event;
	uint32_t active, passive;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	passive = ask("10.0.0.1", &active, &event);
	fake_netdev_remove(FAKE_ETH);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(event.id, active);
	desk_take(root.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(event.id, passive);
}

/* The timeout given by the client is used. The default timeout is tested in tests/unit/cm. */
static void cma_connect_datagram_uses_timeout_of_client(void **state)
{
	struct ipc_cm_connect req = {.timeout_ms = 1};
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	req.id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	req.param = param;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	/* No reply arrives. */
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, -ETIMEDOUT);
}

static void cma_report_contains_datagram_ids(void **state)
{
	json_object *report = json_object_new_object(), *list, *name;
	json_object *counters = json_object_new_object();
	struct ipc_cm_event event;
	uint32_t active, passive;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	passive = ask("127.0.0.1", &active, &event);
	desk_report(report, counters);
	assert_true(json_object_object_get_ex(report, "connections", &list));
	assert_int_equal(json_object_array_length(list), 2);
	json_object_put(report);
	desk_param(&param, QPN, "");
	assert_int_equal(desk_accept(&root, passive, 1, &param), 0);
	desk_run();
	report = json_object_new_object();
	desk_report(report, counters);
	assert_true(json_object_object_get_ex(report, "connections", &list));
	assert_int_equal(json_object_array_length(list), 2);
	assert_true(
		json_object_object_get_ex(json_object_array_get_idx(list, 0), "port_space", &name));
	assert_string_equal(json_object_get_string(name), "udp");
	assert_true(json_object_object_get_ex(json_object_array_get_idx(list, 0), "state", &name));
	assert_string_equal(json_object_get_string(name), "connected");
	json_object_put(report);
	json_object_put(counters);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_datagram, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_connect_datagram_both_sides_get_addresses_and_qpn),
		TEST(cma_accept_datagram_given_qkey_is_returned),
		TEST(cma_reject_datagram_reports_unreachable_with_private_data),
		TEST(cma_connect_datagram_without_listener_reports_status_1),
		TEST(cma_connect_datagram_to_connection_listener_is_rejected),
		TEST(cma_connect_datagram_long_private_data_fails),
		TEST(cma_accept_datagram_foreign_qpn_fails),
		TEST(cma_disconnect_datagram_id_fails),
		TEST(cma_destroy_datagram_request_rejects_it),
		TEST(cma_destroy_resolving_id_reports_no_event),
		TEST(cma_netdev_changed_datagram_id_reports_device_removal),
		TEST(cma_connect_datagram_uses_timeout_of_client),
		TEST(cma_report_contains_datagram_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
