/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/av.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/neigh_wait.h"
#include "fake_netdev.h"
#include "ipc/client.h"
#include "wire/gid.h"

#define NEIGHBOUR "10.0.0.77"
#define USER	  1000
#define OTHER	  1001

static uv_loop_t loop;
static struct server server;

/* A session of role VERBS. */
struct client {
	struct session session;
	int pushes; /* the client's end of its push socket */
};

static struct client user, user_too, other;

static struct session *ended; /* the last one */

/* Replaces that of session.c, which needs the whole daemon. */
void session_end_later(struct session *session)
{
	ended = session;
}

static bool may_keep(struct push *push, int fd)
{
	(void)push;
	(void)fd;
	return true;
}

static void on_push(struct push *push)
{
	(void)push;
}

static void client_open(struct client *client, uid_t uid)
{
	memset(client, 0, sizeof(*client));
	client->session = (struct session){.server = &server, .fd = -1, .cred.uid = uid};
	av_session_init(&client->session);
	push_init(&client->session.published.push, &loop, NULL, may_keep, on_push, on_push);
	assert_int_equal(push_open(&client->session.published.push, &client->pushes), 0);
}

static void client_close(struct client *client)
{
	av_leave(&client->session);
	assert_int_equal(client->session.av_wait_count, 0);
	close(client->session.published.push.fd);
	close(client->pushes);
}

static int av_open(void **state)
{
	(void)state;
	fake_netdev_reset();
	ended = NULL;
	memset(&server, 0, sizeof(server));
	list_init(&server.av_waits);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(neigh_waits_open(&loop), 0);
	client_open(&user, USER);
	client_open(&user_too, USER);
	client_open(&other, OTHER);
	return 0;
}

static int av_close(void **state)
{
	(void)state;
	client_close(&user);
	client_close(&user_too);
	client_close(&other);
	assert_int_equal(server.av_wait_count, 0);
	assert_false(fake_neigh_is_watched());
	neigh_waits_close();
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

static void gid_of(uint8_t gid[GID_BYTES], const char *text)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1)
		gid_from_ipv4(gid, &in);
	else
		assert_int_equal(inet_pton(AF_INET6, text, gid), 1);
}

/* Resolves a destination from the address of eth0. *flags: those of the reply. */
static int ask_gid(struct client *client, const uint8_t dgid[GID_BYTES], uint32_t serial,
		   uint32_t *flags)
{
	struct ipc_av_resolve req = {.serial = serial, .ifindex = FAKE_ETH};
	struct ipc_av_resolve_reply reply = {.flags = 0};
	int ret;

	gid_of(req.sgid, gid_is_ipv4(dgid) ? "10.0.0.1" : "fd00::1");
	memcpy(req.dgid, dgid, GID_BYTES);
	ret = av_resolve(&client->session, &req, &reply);
	*flags = reply.flags;
	return ret;
}

static int ask(struct client *client, const char *text, uint32_t serial, uint32_t *flags)
{
	uint8_t dgid[GID_BYTES];

	gid_of(dgid, text);
	return ask_gid(client, dgid, serial, flags);
}

static void wait_begins(struct client *client, uint32_t serial)
{
	uint32_t flags;

	assert_int_equal(ask(client, NEIGHBOUR, serial, &flags), 0);
	assert_int_equal(flags, IPC_AV_WAITS);
}

static void expect_push(struct client *client, uint32_t serial, int error)
{
	struct ipc_av_resolved msg;
	int nfds;

	assert_int_equal(ipc_recv(client->pushes, true, &msg, sizeof(msg), NULL, &nfds),
			 sizeof(msg));
	assert_int_equal(msg.hdr.type, IPC_AV_RESOLVED);
	assert_int_equal(msg.serial, serial);
	assert_int_equal(msg.error, error);
}

static void expect_no_push(struct client *client)
{
	struct ipc_av_resolved msg;
	int nfds;

	assert_int_equal(ipc_recv(client->pushes, true, &msg, sizeof(msg), NULL, &nfds), -EAGAIN);
}

static void av_resolve_reports_local_gid(void **state)
{
	uint32_t flags;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(ask(&user, "10.0.0.1", 1, &flags), 0);
	assert_int_equal(flags, IPC_AV_IS_LOCAL);
	assert_int_equal(ask(&user, "::1", 2, &flags), 0);
	assert_int_equal(flags, IPC_AV_IS_LOCAL);
	assert_int_equal(fake_neigh_solicited(), 0);
}

static void av_resolve_accepts_known_neighbour_at_once(void **state)
{
	uint32_t flags;

	(void)state;
	assert_int_equal(ask(&user, NEIGHBOUR, 1, &flags), 0);
	assert_int_equal(flags, 0);
	assert_int_equal(fake_neigh_solicited(), 0);
}

static void av_resolve_reports_hop_limit_of_route(void **state)
{
	struct ipc_av_resolve req = {.ifindex = FAKE_ETH};
	struct ipc_av_resolve_reply reply = {.flags = 0};

	(void)state;
	gid_of(req.sgid, "10.0.0.1");
	gid_of(req.dgid, NEIGHBOUR);
	assert_int_equal(av_resolve(&user.session, &req, &reply), 0);
	assert_int_equal(reply.hop_limit, FAKE_HOP_LIMIT);
	reply.hop_limit = 0;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(av_resolve(&user.session, &req, &reply), 0);
	assert_int_equal(reply.flags, IPC_AV_WAITS);
	assert_int_equal(reply.hop_limit, FAKE_HOP_LIMIT);
}

static void av_resolve_accepts_multicast_group_without_neighbour(void **state)
{
	uint32_t flags;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(ask(&user, "239.1.2.3", 1, &flags), 0);
	assert_int_equal(flags, 0);
	assert_int_equal(ask(&user, "ff0e::1", 2, &flags), 0);
	assert_int_equal(flags, 0);
}

static void av_resolve_rejects_address_without_route(void **state)
{
	uint32_t flags;

	(void)state;
	assert_int_equal(ask(&user, "192.0.2.1", 1, &flags), -ENETUNREACH);
	assert_int_equal(ask(&user, "2001:db8::1", 2, &flags), -ENETUNREACH);
	assert_int_equal(fake_neigh_solicited(), 0);
}

static void av_resolve_of_route_only_does_not_wait(void **state)
{
	struct ipc_av_resolve req = {.flags = IPC_AV_ROUTE_ONLY};
	struct ipc_av_resolve_reply reply = {.flags = 0};

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	gid_of(req.sgid, "10.0.0.1");
	gid_of(req.dgid, NEIGHBOUR);
	assert_int_equal(av_resolve(&user.session, &req, &reply), 0);
	assert_int_equal(reply.flags, 0);
	assert_int_equal(fake_neigh_solicited(), 0);
	gid_of(req.dgid, "192.0.2.1");
	assert_int_equal(av_resolve(&user.session, &req, &reply), -ENETUNREACH);
	req.flags = IPC_AV_WAITS;
	assert_int_equal(av_resolve(&user.session, &req, &reply), -EINVAL);
}

static void av_resolve_rejects_session_without_segment(void **state)
{
	struct client *client = &user;
	uint32_t flags;

	(void)state;
	client->session.published.push.is_open = false;
	assert_int_equal(ask(client, NEIGHBOUR, 1, &flags), -EINVAL);
}

static void av_resolved_follows_reply_of_neighbour(void **state)
{
	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 7);
	expect_no_push(&user);
	fake_neigh_set(NEIGH_VALID);
	expect_push(&user, 7, 0);
	assert_int_equal(user.session.av_wait_count, 0);
	assert_false(fake_neigh_is_watched());
}

static void av_resolved_reports_failed_neighbour(void **state)
{
	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 7);
	fake_neigh_set(NEIGH_FAILED);
	expect_push(&user, 7, -EHOSTUNREACH);
}

static void av_resolved_reports_timeout(void **state)
{
	struct pollfd fd = {.fd = user.pushes, .events = POLLIN};

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 7);
	while (poll(&fd, 1, 0) == 0)
		uv_run(&loop, UV_RUN_ONCE);
	expect_push(&user, 7, -ETIMEDOUT);
}

static void av_waits_of_one_hop_share_solicitation(void **state)
{
	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 1);
	wait_begins(&user_too, 2);
	wait_begins(&other, 3);
	assert_int_equal(fake_neigh_solicited(), 1);
	fake_neigh_set(NEIGH_VALID);
	expect_push(&user, 1, 0);
	expect_push(&user_too, 2, 0);
	expect_push(&other, 3, 0);
}

static void av_wait_ends_with_its_session(void **state)
{
	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 1);
	wait_begins(&other, 2);
	av_leave(&user.session);
	assert_true(fake_neigh_is_watched());
	fake_neigh_set(NEIGH_VALID);
	expect_no_push(&user);
	expect_push(&other, 2, 0);
}

static void av_session_ends_if_result_cannot_be_sent(void **state)
{
	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	wait_begins(&user, 1);
	shutdown(user.pushes, SHUT_RDWR);
	fake_neigh_set(NEIGH_VALID);
	assert_ptr_equal(ended, &user.session);
}

/* Begins waits for different hops until one is refused; returns their number. */
static uint32_t fill(struct client *client, uint8_t net)
{
	uint32_t flags, count = 0;
	uint8_t dgid[GID_BYTES];
	int ret;

	for (;;) {
		gid_of(dgid, "10.0.0.0");
		dgid[13] = net;
		dgid[14] = (uint8_t)(count >> 8);
		dgid[15] = (uint8_t)count;
		ret = ask_gid(client, dgid, count, &flags);
		if (ret)
			break;
		assert_int_equal(flags, IPC_AV_WAITS);
		count++;
	}
	assert_int_equal(ret, -EDQUOT);
	return count;
}

static void av_waits_of_session_are_limited(void **state)
{
	uint32_t flags;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(fill(&user, 1), IPC_AV_WAITS_MAX);
	assert_int_equal(user.session.av_wait_count, IPC_AV_WAITS_MAX);
	/* A destination that does not wait is not limited. */
	fake_neigh_set(NEIGH_VALID);
	assert_int_equal(ask(&user, NEIGHBOUR, 1, &flags), 0);
	assert_int_equal(flags, 0);
}

/* A user with many sessions gets at most half of what root's share leaves. */
static void av_waits_of_user_leave_share_to_other_users(void **state)
{
	static struct client sessions[AV_WAITS_MAX / IPC_AV_WAITS_MAX];
	uint32_t held = 0;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	for (size_t i = 0; i < sizeof(sessions) / sizeof(sessions[0]); i++) {
		client_open(&sessions[i], USER);
		held += fill(&sessions[i], (uint8_t)(i + 10));
	}
	assert_int_equal(held, (AV_WAITS_MAX - AV_WAITS_RESERVED) / 2);
	assert_int_equal(fill(&user, 1), 0);
	assert_int_equal(fill(&other, 2), IPC_AV_WAITS_MAX);
	for (size_t i = 0; i < sizeof(sessions) / sizeof(sessions[0]); i++)
		client_close(&sessions[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, av_open, av_close)
		TEST(av_resolve_reports_local_gid),
		TEST(av_resolve_accepts_known_neighbour_at_once),
		TEST(av_resolve_reports_hop_limit_of_route),
		TEST(av_resolve_accepts_multicast_group_without_neighbour),
		TEST(av_resolve_rejects_address_without_route),
		TEST(av_resolve_of_route_only_does_not_wait),
		TEST(av_resolve_rejects_session_without_segment),
		TEST(av_resolved_follows_reply_of_neighbour),
		TEST(av_resolved_reports_failed_neighbour),
		TEST(av_resolved_reports_timeout),
		TEST(av_waits_of_one_hop_share_solicitation),
		TEST(av_wait_ends_with_its_session),
		TEST(av_session_ends_if_result_cannot_be_sent),
		TEST(av_waits_of_session_are_limited),
		TEST(av_waits_of_user_leave_share_to_other_users),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
