/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Clients of the rdma_cm: their end, invalid requests, shares of ids, and the report of their
 * objects.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "cma_desk.h"

static void cma_client_gone_disconnects_its_connections(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	desk_client_dies(&user);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, passive);
}

static void cma_client_gone_rejects_requests_and_ends_listeners(void **state)
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
	desk_client_dies(&root);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	param.qp_num = 0x8004;
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 8);
}

static void cma_request_foreign_id_or_channel_fails(void **state)
{
	struct ipc_cm_create create = {.ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC};
	struct ipc_cm_channel channel = {.channel = root.channel};
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&root, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "127.0.0.1", 0, NULL), -EBADF);
	assert_int_equal(desk_destroy(&user, id, NULL), -EBADF);
	assert_int_equal(desk_destroy(&user, 0, NULL), -EBADF);
	create.channel = root.channel;
	assert_int_equal(desk_ask(&user, &create, IPC_CM_CREATE, sizeof(create), NULL), -EBADF);
	assert_int_equal(desk_ask(&user, &channel, IPC_CM_CHANNEL_DESTROY, sizeof(channel), NULL),
			 -EBADF);
	assert_int_equal(desk_destroy(&root, id, NULL), 0);
	assert_int_equal(desk_destroy(&root, id, NULL), -EBADF);
	assert_int_equal(desk_ask(&root, &channel, IPC_CM_CHANNEL_DESTROY, sizeof(channel), NULL),
			 0);
}

static void cma_create_id_unsupported_port_space_fails(void **state)
{
	static const struct {
		uint32_t ps;
		uint32_t qp_type;
		int error;
	} kinds[] = {
		{RDMA_PS_TCP, IBV_QPT_UC, 0},	      {RDMA_PS_IB, IBV_QPT_RC, 0},
		{RDMA_PS_TCP, IBV_QPT_UD, -EINVAL},   {RDMA_PS_UDP, IBV_QPT_RC, -EINVAL},
		{RDMA_PS_IPOIB, IBV_QPT_UC, -EINVAL}, {RDMA_PS_TCP, IBV_QPT_XRC_SEND, 0},
		{RDMA_PS_IB, IBV_QPT_XRC_RECV, 0},    {RDMA_PS_UDP, IBV_QPT_XRC_RECV, -EINVAL},
		{RDMA_PS_TCP, 99, -EINVAL},	      {99, IBV_QPT_RC, -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ipc_cm_create req = {
			.channel = user.channel, .ps = kinds[i].ps, .qp_type = kinds[i].qp_type};
		struct ipc_cm_create_reply reply;

		assert_int_equal(desk_ask(&user, &req, IPC_CM_CREATE, sizeof(req), &reply),
				 kinds[i].error);
	}
}

static void cma_request_malformed_fails(void **state)
{
	struct ipc_cm_id req = {.reserved = 1};
	struct ipc_status status = {0};

	(void)state;
	assert_int_equal(desk_create(&user, &req.id, 1), 0);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_DESTROY, sizeof(req), NULL), -EINVAL);
	req.reserved = 0;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_DESTROY, sizeof(req) - 4, NULL), -EINVAL);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_EVENT, sizeof(req), NULL), -EINVAL);
	assert_int_equal(desk_ask(&user, &req, IPC_TYPE_COUNT, sizeof(req), NULL), -EINVAL);
	assert_int_equal(desk_ask(&user, &status, IPC_STATUS, sizeof(status), NULL), -EINVAL);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_DESTROY, sizeof(req), NULL), 0);
}

static void cma_report_contains_every_object(void **state)
{
	uint32_t active, passive, listener;
	json_object *report = json_object_new_object();
	json_object *counters = json_object_new_object();
	json_object *list, *value;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	desk_report(report, counters);
	assert_true(json_object_object_get_ex(report, "listeners", &list));
	assert_int_equal(json_object_array_length(list), 1);
	value = json_object_object_get(json_object_array_get_idx(list, 0), "local");
	assert_string_equal(json_object_get_string(value), "0.0.0.0:7174");
	assert_true(json_object_object_get_ex(report, "connections", &list));
	assert_int_equal(json_object_array_length(list), 2);
	value = json_object_object_get(json_object_array_get_idx(list, 0), "state");
	assert_string_equal(json_object_get_string(value), "established");
	assert_true(json_object_object_get_ex(report, "cm", &list));
	assert_true(json_object_object_get_ex(list, "mads_sent", &value));
	assert_int_equal(json_object_get_int(json_object_object_get(value, "REQ")), 1);
	value = json_object_object_get(json_object_object_get(counters, "gsi"), "mads_looped");
	assert_true(json_object_get_uint64(value) >= 3);
	json_object_put(counters);
	json_object_put(report);
}

/* A list is returned in pieces, and every id is in one of them. */
static void cma_report_ids_long_list_is_split(void **state)
{
	uint32_t cursor = 0, made = 0, reported = 0, pieces = 0;
	json_object *some;

	(void)state;
	for (made = 0; made < 1000; made++) {
		uint32_t id;

		assert_int_equal(desk_create(&user, &id, 1), 0);
		assert_int_equal(desk_bind(&user, id, "0.0.0.0", 0, NULL), 0);
		assert_int_equal(desk_listen(&user, id, 1), 0);
	}
	while ((some = cma_report_ids(desk_cma, CMA_LISTENERS, 0, &cursor))) {
		assert_true(json_object_array_length(some) < made / 2);
		reported += (uint32_t)json_object_array_length(some);
		pieces++;
		json_object_put(some);
	}
	assert_int_equal(reported, made);
	assert_true(pieces > 1);
}

static void cma_create_id_above_quota_fails(void **state)
{
	uint32_t id;
	unsigned made = 0;
	int ret;

	(void)state;
	while ((ret = desk_create(&user, &id, made)) == 0)
		made++;
	assert_int_equal(ret, -EDQUOT);
	assert_int_equal(made, 32768);
	/* The other client has a limit of its own. */
	assert_int_equal(desk_create(&root, &id, 1), 0);
}

/* Creates ids with new clients of a user until the user has its share. Returns their number. */
static unsigned create_ids(struct desk_client *clients, int count, uid_t uid)
{
	const struct cma_peer peer = {.uid = uid, .pid = 4000};
	unsigned made = 0;
	uint32_t id;

	for (int i = 0; i < count; i++) {
		int ret;

		clients[i].client = cma_client_new(desk_cma, &peer);
		assert_int_equal(desk_channel(&clients[i], &clients[i].fd, &clients[i].channel), 0);
		while ((ret = desk_create(&clients[i], &id, 1)) == 0)
			made++;
		assert_int_equal(ret, -EDQUOT);
	}
	return made;
}

/*
 * However many processes the users have, ids are left for further users, and some are reserved for
 * root.
 */
static void cma_create_id_users_cannot_use_all(void **state)
{
	const uid_t first_uid = geteuid() + 2000;
	struct desk_client greedy[3][5];
	unsigned made[3];
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		made[i] = create_ids(greedy[i], 5, first_uid + i);
	assert_int_equal(made[0], (262144 - 8192) / 2);
	assert_int_equal(made[1], made[0] / 2);
	assert_int_equal(made[2], made[1] / 2);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	for (int i = 0; i < 32768; i++)
		assert_int_equal(desk_create(&root, &id, 1), 0);
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 5; j++)
			desk_client_dies(&greedy[i][j]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_client_gone_disconnects_its_connections),
		TEST(cma_client_gone_rejects_requests_and_ends_listeners),
		TEST(cma_request_foreign_id_or_channel_fails),
		TEST(cma_create_id_unsupported_port_space_fails),
		TEST(cma_request_malformed_fails),
		TEST(cma_report_contains_every_object),
		TEST(cma_report_ids_long_list_is_split),
		TEST(cma_create_id_above_quota_fails),
		TEST(cma_create_id_users_cannot_use_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
