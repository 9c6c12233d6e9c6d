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

static int begin(struct desk_client *client, uint32_t id, uint32_t channel, uint64_t cookie)
{
	struct ipc_cm_migrate req = {.id = id, .new_channel = channel, .cookie = cookie};

	return desk_ask(client, &req, IPC_CM_MIGRATE_BEGIN, sizeof(req), NULL);
}

static int end(struct desk_client *client, uint32_t channel, const struct ipc_cm_event *events,
	       uint32_t count, uint32_t more)
{
	struct ipc_cm_migrate_end req = {.channel = channel, .count = count, .more = more};

	for (uint32_t i = 0; events && i < count; i++)
		req.events[i] = events[i];
	return desk_ask(client, &req, IPC_CM_MIGRATE_END, sizeof(req), NULL);
}

static void write_event(struct desk_client *client, uint32_t id, uint64_t arg)
{
	struct ipc_cm_write_event req = {.id = id, .event = RDMA_CM_EVENT_USER, .arg = arg};

	assert_int_equal(desk_ask(client, &req, IPC_CM_WRITE_EVENT, sizeof(req), NULL), 0);
}

static void expect_user(int fd, uint64_t arg, uint64_t cookie, uint64_t sent)
{
	struct ipc_cm_event event;
	uint64_t got;

	desk_take(fd, &event, RDMA_CM_EVENT_USER);
	memcpy(&got, event.param.private_data, sizeof(got));
	assert_int_equal(got, arg);
	assert_int_equal(event.cookie, cookie);
	assert_int_equal(event.events_sent, sent);
}

/*
 * Two ids on one channel: events that are unread in its socket, that arrive while the channel is
 * held, and later ones.
 */
static void cma_migrate_moves_events_of_id_in_order(void **state)
{
	struct ipc_cm_event unread[4];
	uint32_t mover, stayer, channel;
	int fd;

	(void)state;
	assert_int_equal(desk_channel(&user, &fd, &channel), 0);
	assert_int_equal(desk_create(&user, &mover, 1), 0);
	assert_int_equal(desk_create(&user, &stayer, 2), 0);
	write_event(&user, mover, 10);
	write_event(&user, stayer, 20);
	write_event(&user, mover, 11);
	desk_run();
	assert_int_equal(begin(&user, mover, channel, 100), 0);
	assert_int_equal(begin(&user, mover, channel, 100), -EBUSY);
	assert_int_equal(begin(&user, stayer, channel, 100), -EBUSY);
	write_event(&user, mover, 12);
	write_event(&user, stayer, 21);
	for (int i = 0; i < 3; i++)
		desk_take(user.fd, &unread[i], RDMA_CM_EVENT_USER);
	desk_run();
	desk_expect_none(user.fd);
	desk_expect_none(fd);
	assert_int_equal(end(&user, user.channel, unread, 2, 1), 0);
	desk_run();
	desk_expect_none(user.fd);
	assert_int_equal(end(&user, user.channel, unread + 2, 1, 0), 0);
	write_event(&user, mover, 13);
	write_event(&user, stayer, 22);
	desk_run();
	for (uint64_t i = 0; i < 4; i++)
		expect_user(fd, 10 + i, 100, 1 + i);
	for (uint64_t i = 0; i < 3; i++)
		expect_user(user.fd, 20 + i, 2, 1 + i);
	desk_expect_none(fd);
	desk_expect_none(user.fd);
	close(fd);
}

/* The daemon stores returned events, so it accepts no more than it had pushed. */
static void cma_migrate_end_more_events_than_pushed_fails(void **state)
{
	struct ipc_cm_event unread;
	uint32_t id, given = 0;
	int ret;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	write_event(&user, id, 10);
	desk_run();
	assert_int_equal(begin(&user, 0, user.channel, 0), 0);
	desk_take(user.fd, &unread, RDMA_CM_EVENT_USER);
	do {
		ret = end(&user, user.channel, &unread, 1, 1);
		given += ret == 0;
	} while (!ret && given < 16);
	assert_int_equal(ret, -EINVAL);
	assert_true(given >= 1);
	assert_int_equal(end(&user, user.channel, NULL, 0, 0), 0);
	desk_run();
	for (uint32_t i = 0; i < given; i++)
		expect_user(user.fd, 10, 1, 1);
	desk_expect_none(user.fd);
}

/*
 * A client that returns events it never read holds a channel repeatedly: the daemon stores a
 * bounded number of them.
 */
static void cma_migrate_end_repeated_events_are_limited(void **state)
{
	struct ipc_cm_event made_up[IPC_MIGRATE_EVENTS] = {0};
	uint32_t id;
	int ret = 0;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	for (uint64_t i = 0; i < 100; i++)
		write_event(&user, id, i);
	desk_run();
	for (int i = 0; i < IPC_MIGRATE_EVENTS; i++)
		made_up[i] = (struct ipc_cm_event){.id = id, .event = RDMA_CM_EVENT_USER};
	for (int i = 0; i < 2000 && ret != -EDQUOT; i++) {
		assert_int_equal(begin(&user, 0, user.channel, 0), 0);
		do {
			ret = end(&user, user.channel, made_up, IPC_MIGRATE_EVENTS, 1);
		} while (!ret);
		assert_int_equal(end(&user, user.channel, NULL, 0, 0), 0);
		desk_run();
	}
	assert_int_equal(ret, -EDQUOT);
}

static void cma_migrate_end_drops_events_of_destroyed_id(void **state)
{
	struct ipc_cm_event unread[3];
	uint32_t dying, other;
	uint64_t events;

	(void)state;
	assert_int_equal(desk_create(&user, &dying, 1), 0);
	assert_int_equal(desk_create(&user, &other, 2), 0);
	write_event(&user, dying, 10);
	write_event(&user, other, 20);
	desk_run();
	/* Not in the socket yet, and therefore never pushed. */
	write_event(&user, dying, 11);
	assert_int_equal(desk_destroy(&user, dying, &events), 0);
	assert_int_equal(events, 1);
	assert_int_equal(begin(&user, 0, user.channel, 0), 0);
	write_event(&user, other, 21);
	desk_take(user.fd, &unread[0], RDMA_CM_EVENT_USER);
	desk_take(user.fd, &unread[1], RDMA_CM_EVENT_USER);
	/* Also if the client returns an event that it should have discarded. */
	assert_int_equal(end(&user, user.channel, unread, 2, 0), 0);
	desk_run();
	expect_user(user.fd, 20, 2, 1);
	expect_user(user.fd, 21, 2, 2);
	desk_expect_none(user.fd);
}

/* An unread request moves with its listener, together with its new id and the id's events. */
static void cma_migrate_moves_unread_request_with_listener(void **state)
{
	struct ipc_cm_event unread, event;
	uint32_t listener, id, channel;
	struct ipc_cm_param param;
	int fd;

	(void)state;
	assert_int_equal(desk_channel(&root, &fd, &channel), 0);
	listener = desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	assert_int_equal(begin(&root, listener, channel, 0x2222), 0);
	desk_take(root.fd, &unread, RDMA_CM_EVENT_CONNECT_REQUEST);
	/* The peer gives up during the migration. */
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	desk_run();
	assert_int_equal(end(&root, root.channel, &unread, 1, 0), 0);
	desk_run();
	desk_take(fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.listen_cookie, 0x2222);
	desk_expect_none(fd);
	assert_int_equal(desk_accept(&root, unread.id, 1, &param), -EINVAL);
	desk_expect_none(root.fd);
	close(fd);
}

static void cma_migrate_end_request_of_destroyed_listener_is_rejected(void **state)
{
	struct ipc_cm_event unread, event;
	struct ipc_cm_param param;
	uint32_t listener, id;

	(void)state;
	listener = desk_listener(&root, "0.0.0.0");
	id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	assert_int_equal(desk_destroy(&root, listener, NULL), 0);
	assert_int_equal(begin(&root, 0, root.channel, 0), 0);
	desk_take(root.fd, &unread, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(end(&root, root.channel, &unread, 1, 0), 0);
	desk_run();
	desk_expect_none(root.fd);
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 28);
	assert_int_equal(desk_destroy(&root, unread.id, NULL), -EBADF);
}

/* A request that was not pushed yet is removed with the listener, and is rejected. */
static void cma_destroy_listener_rejects_queued_requests(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t listener, id;

	(void)state;
	listener = desk_listener(&root, "0.0.0.0");
	assert_int_equal(begin(&root, 0, root.channel, 0), 0);
	for (uint32_t i = 0; i < 3; i++) {
		id = desk_resolved(&user, "127.0.0.1", DESK_PORT);
		desk_param(&param, 0x8002 + i, "");
		assert_int_equal(desk_connect(&user, id, &param), 0);
	}
	desk_run();
	assert_int_equal(desk_destroy(&root, listener, NULL), 0);
	assert_int_equal(end(&root, root.channel, NULL, 0, 0), 0);
	desk_run();
	for (uint32_t i = 0; i < 3; i++)
		desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	desk_expect_none(root.fd);
}

static void cma_migrate_invalid_request_fails(void **state)
{
	uint32_t id, channel;
	int fd;

	(void)state;
	assert_int_equal(desk_channel(&user, &fd, &channel), 0);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(begin(&user, id, root.channel, 1), -EBADF);
	assert_int_equal(begin(&user, id + 1, channel, 1), -EBADF);
	assert_int_equal(begin(&root, id, root.channel, 1), -EBADF);
	assert_int_equal(end(&user, channel, NULL, 0, 0), -EINVAL);
	assert_int_equal(end(&user, root.channel, NULL, 0, 0), -EBADF);
	assert_int_equal(begin(&user, 0, channel, 0), 0);
	assert_int_equal(begin(&user, 0, channel, 0), -EBUSY);
	assert_int_equal(end(&user, channel, NULL, IPC_MIGRATE_EVENTS + 1, 0), -EINVAL);
	assert_int_equal(end(&user, channel, NULL, 0, 2), -EINVAL);
	close(fd);
	/* A client that ends while it holds a channel is handled by desk_close(). */
}

static void cma_destroy_during_migrate_succeeds(void **state)
{
	uint32_t id, channel;
	struct ipc_cm_channel req;
	int fd;

	(void)state;
	assert_int_equal(desk_channel(&user, &fd, &channel), 0);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	write_event(&user, id, 1);
	assert_int_equal(begin(&user, id, channel, 1), 0);
	write_event(&user, id, 2);
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	req = (struct ipc_cm_channel){.channel = user.channel};
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CHANNEL_DESTROY, sizeof(req), NULL), -EBUSY);
	assert_int_equal(end(&user, user.channel, NULL, 0, 0), 0);
	req = (struct ipc_cm_channel){.channel = user.channel};
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CHANNEL_DESTROY, sizeof(req), NULL), 0);
	req = (struct ipc_cm_channel){.channel = channel};
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CHANNEL_DESTROY, sizeof(req), NULL), 0);
	desk_run();
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_migrate_moves_events_of_id_in_order),
		TEST(cma_migrate_end_more_events_than_pushed_fails),
		TEST(cma_migrate_end_repeated_events_are_limited),
		TEST(cma_migrate_end_drops_events_of_destroyed_id),
		TEST(cma_migrate_moves_unread_request_with_listener),
		TEST(cma_migrate_end_request_of_destroyed_listener_is_rejected),
		TEST(cma_destroy_listener_rejects_queued_requests),
		TEST(cma_migrate_invalid_request_fails),
		TEST(cma_destroy_during_migrate_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
