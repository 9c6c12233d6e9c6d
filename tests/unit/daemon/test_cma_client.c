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
#include "descriptors.h"

static void client_dies(struct desk_client *client)
{
	cma_client_gone(client->client);
	client->client = NULL;
}

static void cma_client_gone_disconnects_its_connections(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	client_dies(&user);
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
	client_dies(&root);
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

static void cma_channel_write_by_client_is_ignored(void **state)
{
	uint32_t channel;
	int fd;

	(void)state;
	assert_int_equal(desk_channel(&user, &fd, &channel), 0);
	assert_int_equal(send(fd, "", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	close(fd);
}

/*
 * The number of events that a channel's socket holds without the daemon's queue. Closes the
 * client's end.
 */
static unsigned int events_held(struct desk_client *client, int fd, uint32_t channel)
{
	struct desk_client other = {.client = client->client, .fd = fd, .channel = channel};
	struct ipc_cm_write_event req = {.event = RDMA_CM_EVENT_USER};
	struct ipc_cm_event event;
	unsigned int held = 0;

	assert_int_equal(desk_create(&other, &req.id, 0x55), 0);
	for (int i = 0; i < 500; i++)
		assert_int_equal(desk_ask(&other, &req, IPC_CM_WRITE_EVENT, sizeof(req), NULL), 0);
	desk_run();
	while (recv(fd, &event, sizeof(event), 0) > 0)
		held++;
	close(fd);
	return held;
}

/* The first 64 channels of a user have larger buffers, whichever of its processes creates them. */
static void cma_channel_buffers_are_limited_for_each_user(void **state)
{
	struct desk_client second = {
		.client = cma_client_new(desk_cma, &(struct cma_peer){.uid = 1000})};
	unsigned int first, last;
	uint32_t channels[66];
	int fds[66];

	(void)state;
	for (int i = 0; i < 64; i++)
		assert_int_equal(desk_channel(&user, &fds[i], &channels[i]), 0);
	first = events_held(&user, fds[0], channels[0]);
	assert_int_equal(desk_channel(&second, &fds[64], &channels[64]), 0);
	last = events_held(&second, fds[64], channels[64]);
	assert_true(last > 4);
	assert_true(first > 4 * last);
	assert_int_equal(desk_channel(&root, &fds[65], &channels[65]), 0);
	assert_true(events_held(&root, fds[65], channels[65]) > 4 * last);
	for (int i = 1; i < 64; i++)
		close(fds[i]);
	client_dies(&second);
}

/* A full socket does not block the daemon: events are queued in order until there is room. */
static void cma_event_full_channel_queues_in_order(void **state)
{
	struct ipc_cm_write_event req = {.event = RDMA_CM_EVENT_USER};
	struct ipc_cm_event event;

	(void)state;
	assert_int_equal(desk_create(&user, &req.id, 0x55), 0);
	for (uint64_t i = 1; i <= 500; i++) {
		req.arg = i;
		assert_int_equal(desk_ask(&user, &req, IPC_CM_WRITE_EVENT, sizeof(req), NULL), 0);
	}
	for (uint64_t i = 1; i <= 500; i++) {
		uint64_t arg;

		desk_run();
		desk_take(user.fd, &event, RDMA_CM_EVENT_USER);
		memcpy(&arg, event.param.private_data, sizeof(arg));
		assert_int_equal(arg, i);
		assert_int_equal(event.events_sent, i);
		assert_int_equal(event.param.private_len, sizeof(arg));
	}
	desk_expect_none(user.fd);
}

static void cma_event_written_by_client_is_limited(void **state)
{
	struct ipc_cm_write_event req = {.event = RDMA_CM_EVENT_ESTABLISHED};
	int ret = 0;

	(void)state;
	assert_int_equal(desk_create(&user, &req.id, 0x55), 0);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_WRITE_EVENT, sizeof(req), NULL), -EINVAL);
	req.event = RDMA_CM_EVENT_USER;
	for (int i = 0; i < 5000 && !ret; i++)
		ret = desk_ask(&user, &req, IPC_CM_WRITE_EVENT, sizeof(req), NULL);
	assert_int_equal(ret, -ENOBUFS);
}

/* A connection to a group fails: each attempt causes an event, and the id may try again. */
static void cma_event_unread_failures_are_limited(void **state)
{
	uint32_t id, other;
	int ret = 0;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_create(&user, &other, 2), 0);
	for (int i = 0; i < 20000 && !ret; i++) {
		ret = desk_resolve(&user, id, "224.1.2.3", DESK_PORT);
		desk_run();
	}
	assert_int_equal(ret, -EDQUOT);
	/*
	 * The limit counts unread failures of all ids of this client, not those of other clients.
	 */
	assert_int_equal(desk_resolve(&user, other, "127.0.0.1", DESK_PORT), -EDQUOT);
	assert_int_equal(desk_create(&root, &id, 1), 0);
	assert_int_equal(desk_resolve(&root, id, "127.0.0.1", DESK_PORT), 0);
}

static uint64_t events_made(void)
{
	json_object *counters = json_object_new_object();
	json_object *cm = cma_report_counters(desk_cma, counters);
	uint64_t made = json_object_get_uint64(json_object_object_get(cm, "events"));

	json_object_put(counters);
	json_object_put(cm);
	return made;
}

/* The same limit holds for requests whose only reply is the event. */
static void cma_event_unread_error_replies_are_limited(void **state)
{
	struct ipc_cm_connect req = {.hdr.flags = IPC_UNANSWERED};
	uint64_t made;

	(void)state;
	req.id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&req.param, 0x8002, "");
	req.param.qp_type = IBV_QPT_UD;
	for (int i = 0; i < 10000; i++) {
		(void)desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL);
		desk_run();
	}
	made = events_made();
	for (int i = 0; i < 1000; i++)
		(void)desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL);
	assert_int_equal(events_made(), made);
}

/*
 * A client that reads its events is not limited, nor is a client with many ids and one event for
 * each.
 */
static void cma_event_many_ids_with_one_event_are_permitted(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(desk_create(&user, &id, (uint64_t)i + 1), 0);
		assert_int_equal(desk_resolve(&user, id, "127.0.0.1", DESK_PORT), 0);
	}
	for (int i = 0; i < 10000; i++) {
		desk_wait_event(&user);
		desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(event.cookie, i + 1);
	}
}

static void cma_channel_destroy_drops_its_events_only(void **state)
{
	uint32_t active, passive, listener;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	close(root.fd);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	assert_int_equal(desk_destroy(&root, passive, NULL), 0);
	desk_run();
	root.fd = dup(0);
}

/* As in Linux: connections, unread requests and listeners of the channel end with it. */
static void cma_channel_destroy_ends_its_ids(void **state)
{
	struct ipc_cm_channel req = {.channel = root.channel};
	uint32_t active, passive, listener, requester;
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	requester = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x9002, "");
	assert_int_equal(desk_connect(&user, requester, &param), 0);
	desk_run();
	assert_int_equal(desk_ask(&root, &req, IPC_CM_CHANNEL_DESTROY, sizeof(req), NULL), 0);
	assert_int_equal(desk_destroy(&root, listener, NULL), -EBADF);
	assert_int_equal(desk_destroy(&root, passive, NULL), -EBADF);
	desk_run();
	/* The ids are destroyed in the order of their creation. */
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.id, active);
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.id, requester);
	desk_listener(&user, "0.0.0.0");
}

static void cma_netdev_changed_removed_device_reports_device_removal(void **state)
{
	uint32_t active, passive, listener, other;
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	other = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	fake_netdev_remove(FAKE_ETH);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(event.id, active);
	desk_take(root.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(event.id, passive);
	desk_expect_none(user.fd);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), -EINVAL);
	assert_int_equal(desk_destroy(&user, active, NULL), 0);
	/* The wildcard listener is not affected. */
	desk_param(&param, 0x9002, "");
	assert_int_equal(desk_connect(&user, other, &param), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* The address was removed between resolution and connect: no MAD can be sent any more. */
static void cma_connect_removed_address_reports_unreachable(void **state)
{
	uint32_t active, passive, listener, late;
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	late = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	fake_netdev_drop_gid(FAKE_ETH, 0);
	desk_param(&param, 0x9002, "");
	assert_int_equal(desk_connect(&user, late, &param), 0);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.id, late);
	assert_int_equal(event.status, -EHOSTUNREACH);
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(event.status, -ETIMEDOUT);
}

static void cma_netdev_changed_device_of_listener_reports_device_removal(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	id = desk_listener(&root, "10.0.0.1");
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(event.id, id);
	desk_expect_none(root.fd);
	assert_int_equal(desk_listen(&root, id, 1), -EINVAL);
	assert_int_equal(desk_destroy(&root, id, NULL), 0);
}

/* As in Linux, the rdma_cm reports nothing. */
static void cma_netdev_changed_removed_address_has_no_event(void **state)
{
	uint32_t active, passive, listener;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	fake_netdev_drop_gid(FAKE_ETH, 0);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_GID_CHANGE);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_PORT_DOWN);
	desk_run();
	desk_expect_none(user.fd);
	desk_expect_none(root.fd);
}

/*
 * Each change is reported, but not changes of removed interfaces or changes that concern only other
 * ids.
 */
static void cma_netdev_changed_bond_failover_reports_addr_change(void **state)
{
	uint32_t active, passive, listener;
	struct ipc_cm_event event;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	for (int i = 0; i < 2; i++) {
		cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_FAILOVER);
		cma_netdev_changed(desk_cma, FAKE_ETH + 1000, IPC_DEVICE_FAILOVER);
		cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_WHAT_COUNT);
		desk_run();
		desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_CHANGE);
		assert_int_equal(event.id, active);
		desk_take(root.fd, &event, RDMA_CM_EVENT_ADDR_CHANGE);
		assert_int_equal(event.id, passive);
		desk_expect_none(user.fd);
		desk_expect_none(root.fd);
	}
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_FAILOVER);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	desk_expect_none(user.fd);
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
			client_dies(&greedy[i][j]);
	}
}

/* The daemon decides whether it keeps the descriptor of a channel. */
static bool keeps_none(void *ctx, int fd)
{
	int *asked = ctx;

	assert_true(fd >= 0);
	++*asked;
	return false;
}

static void cma_channel_without_descriptors_fails(void **state)
{
	int fd, asked = 0, before = count_descriptors();
	const struct cma_peer peer = {.uid = 3000, .may_keep = keeps_none, .ctx = &asked};
	struct cma_client *client = cma_client_new(desk_cma, &peer);
	struct desk_client other = {.client = client};

	(void)state;
	assert_int_equal(desk_channel(&other, &fd, &other.channel), -EDQUOT);
	assert_int_equal(asked, 1);
	assert_int_equal(count_descriptors(), before);
	cma_client_gone(client);
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
		TEST(cma_channel_write_by_client_is_ignored),
		TEST(cma_channel_buffers_are_limited_for_each_user),
		TEST(cma_event_full_channel_queues_in_order),
		TEST(cma_event_written_by_client_is_limited),
		TEST(cma_event_unread_failures_are_limited),
		TEST(cma_event_unread_error_replies_are_limited),
		TEST(cma_event_many_ids_with_one_event_are_permitted),
		TEST(cma_channel_destroy_drops_its_events_only),
		TEST(cma_channel_destroy_ends_its_ids),
		TEST(cma_netdev_changed_removed_device_reports_device_removal),
		TEST(cma_connect_removed_address_reports_unreachable),
		TEST(cma_netdev_changed_device_of_listener_reports_device_removal),
		TEST(cma_netdev_changed_removed_address_has_no_event),
		TEST(cma_netdev_changed_bond_failover_reports_addr_change),
		TEST(cma_report_contains_every_object),
		TEST(cma_report_ids_long_list_is_split),
		TEST(cma_create_id_above_quota_fails),
		TEST(cma_create_id_users_cannot_use_all),
		TEST(cma_channel_without_descriptors_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
