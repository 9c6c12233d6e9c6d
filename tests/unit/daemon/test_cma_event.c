/* SPDX-License-Identifier: BSD-2-Clause */

/* Event channels: their sockets, and the limits on events that a client does not read. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "cma_desk.h"
#include "descriptors.h"

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
	desk_client_dies(&second);
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
		TEST(cma_channel_write_by_client_is_ignored),
		TEST(cma_channel_buffers_are_limited_for_each_user),
		TEST(cma_event_full_channel_queues_in_order),
		TEST(cma_event_written_by_client_is_limited),
		TEST(cma_event_unread_failures_are_limited),
		TEST(cma_event_unread_error_replies_are_limited),
		TEST(cma_event_many_ids_with_one_event_are_permitted),
		TEST(cma_channel_destroy_drops_its_events_only),
		TEST(cma_channel_destroy_ends_its_ids),
		TEST(cma_channel_without_descriptors_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
