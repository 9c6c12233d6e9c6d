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

#define FIRST_EPHEMERAL_EVER 1024

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

/* Returns the status of binding a new id with both options. */
static int bind_new(const char *addr, uint16_t port, bool is_reuse, bool is_family_only)
{
	uint32_t id;

	assert_int_equal(desk_create(&root, &id, 1), 0);
	assert_int_equal(desk_option(&root, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, is_reuse,
				     sizeof(int)),
			 0);
	assert_int_equal(desk_option(&root, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
				     is_family_only, sizeof(int)),
			 0);
	return desk_bind(&root, id, addr, port, NULL);
}

static void cma_bind_own_address_selects_device(void **state)
{
	struct ipc_cm_route route;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "10.0.0.1", 5000, &route), 0);
	assert_int_equal(route.dev_id, FAKE_ETH);
	assert_int_equal(route.port_num, 1);
	assert_int_equal(route.sgid[15], 1);
	assert_int_equal(route.sgid[12], 10);
	assert_int_equal(port_of(&route.src), 5000);
	/* A second bind fails. */
	assert_int_equal(desk_bind(&user, id, "10.0.0.1", 5001, NULL), -EINVAL);
}

static void cma_bind_wildcard_selects_no_device(void **state)
{
	struct ipc_cm_route route;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "::", 5000, &route), 0);
	assert_int_equal(route.dev_id, 0);
}

static void cma_bind_loopback_selects_loopback_device(void **state)
{
	static const char *const addrs[] = {"127.0.0.1", "127.1.2.3", "::1"};
	struct ipc_cm_route route;
	uint32_t id;

	(void)state;
	for (uint16_t i = 0; i < 3; i++) {
		assert_int_equal(desk_create(&user, &id, 1), 0);
		assert_int_equal(desk_bind(&user, id, addrs[i], (uint16_t)(5000 + i), &route), 0);
		assert_int_equal(route.dev_id, netdev_loopback()->dev_id);
		assert_int_equal(port_of(&route.src), 5000 + i);
	}
}

static void cma_bind_port_0_gets_ephemeral_port(void **state)
{
	struct ipc_cm_route one, two;
	uint32_t a, b;

	(void)state;
	assert_int_equal(desk_create(&user, &a, 1), 0);
	assert_int_equal(desk_create(&user, &b, 2), 0);
	assert_int_equal(desk_bind(&user, a, "127.0.0.1", 0, &one), 0);
	assert_int_equal(desk_bind(&user, b, "127.0.0.1", 0, &two), 0);
	assert_true(port_of(&one.src) >= FIRST_EPHEMERAL_EVER);
	assert_int_not_equal(port_of(&one.src), port_of(&two.src));
}

static void cma_bind_foreign_address_fails(void **state)
{
	struct ipc_cm_bind req = {0};
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "10.0.0.2", 5000, NULL), -EADDRNOTAVAIL);
	assert_int_equal(desk_bind(&user, id, "fe80::1", 5000, NULL), -EINVAL);
	/* The library sends 127.0.0.1 instead. */
	assert_int_equal(desk_bind(&user, id, "::ffff:127.0.0.1", 5000, NULL), -EINVAL);
	req.id = id;
	req.addr.ss_family = AF_UNIX;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_BIND, sizeof(req), NULL), -EAFNOSUPPORT);
	assert_int_equal(desk_bind(&user, id, "127.0.0.9", 5000, NULL), 0);
}

static void cma_bind_privileged_port_needs_root(void **state)
{
	uint32_t mine, roots;

	(void)state;
	assert_int_equal(desk_create(&user, &mine, 1), 0);
	assert_int_equal(desk_create(&root, &roots, 1), 0);
	/*
	 * Port 1 is privileged unless net.ipv4.ip_unprivileged_port_start has been lowered below
	 * it.
	 */
	if (desk_bind(&user, mine, "127.0.0.1", 1, NULL) != -EACCES)
		skip();
	assert_int_equal(desk_bind(&root, roots, "127.0.0.1", 1, NULL), 0);
}

static void cma_bind_used_port_fails_with_eaddrinuse(void **state)
{
	(void)state;
	assert_int_equal(bind_new("10.0.0.1", 5000, false, false), 0);
	assert_int_equal(bind_new("10.0.0.1", 5000, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("127.0.0.1", 5000, false, false), 0);
	assert_int_equal(bind_new("0.0.0.0", 5000, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("::", 5000, false, false), -EADDRINUSE);
	/* An IPv6-only wildcard does not conflict with the IPv4 wildcard. */
	assert_int_equal(bind_new("::", 5000, false, true), 0);
	assert_int_equal(bind_new("::1", 5000, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("0.0.0.0", 5001, false, false), 0);
	assert_int_equal(bind_new("10.0.0.1", 5001, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("fd00::1", 5001, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("0.0.0.0", 5002, false, true), 0);
	assert_int_equal(bind_new("fd00::1", 5002, false, false), 0);
}

static void cma_bind_reuseaddr_needs_both_and_ends_at_listen(void **state)
{
	uint32_t first, second, third;

	(void)state;
	assert_int_equal(bind_new("10.0.0.1", 5000, true, false), 0);
	assert_int_equal(bind_new("10.0.0.1", 5000, false, false), -EADDRINUSE);
	assert_int_equal(bind_new("10.0.0.1", 5000, true, false), 0);

	assert_int_equal(desk_create(&root, &first, 1), 0);
	assert_int_equal(desk_create(&root, &second, 1), 0);
	assert_int_equal(desk_create(&root, &third, 1), 0);
	desk_option(&root, first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, sizeof(int));
	desk_option(&root, second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, sizeof(int));
	desk_option(&root, third, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, sizeof(int));
	assert_int_equal(desk_bind(&root, first, "10.0.0.1", 5001, NULL), 0);
	assert_int_equal(desk_bind(&root, second, "10.0.0.1", 5001, NULL), 0);
	assert_int_equal(desk_listen(&root, first, 1), 0);
	assert_int_equal(desk_listen(&root, second, 1), -EADDRINUSE);
	assert_int_equal(desk_bind(&root, third, "10.0.0.1", 5001, NULL), -EADDRINUSE);
	assert_int_equal(desk_destroy(&root, first, NULL), 0);
	assert_int_equal(desk_listen(&root, second, 1), 0);
}

static void cma_destroy_releases_port(void **state)
{
	uint32_t id;

	(void)state;
	id = desk_listener(&user, "10.0.0.1");
	assert_int_equal(bind_new("10.0.0.1", DESK_PORT, false, false), -EADDRINUSE);
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	assert_int_equal(bind_new("10.0.0.1", DESK_PORT, false, false), 0);
}

static void cma_listen_unbound_id_binds_wildcard(void **state)
{
	struct ipc_cm_listen req = {.backlog = 3};
	struct ipc_cm_route_reply reply;

	(void)state;
	assert_int_equal(desk_create(&user, &req.id, 1), 0);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_LISTEN, sizeof(req), &reply), 0);
	assert_int_equal(reply.route.src.ss_family, AF_INET);
	assert_true(port_of(&reply.route.src) >= FIRST_EPHEMERAL_EVER);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_LISTEN, sizeof(req), NULL), -EINVAL);
}

static void cma_resolve_addr_finds_source_and_device(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 0x77), 0);
	assert_int_equal(desk_resolve_route(&user, id), -EINVAL);
	assert_int_equal(desk_resolve(&user, id, "10.0.0.1", 99), 0);
	/* The reply precedes the event. */
	desk_expect_none(user.fd);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(event.cookie, 0x77);
	assert_int_equal(event.id, id);
	assert_int_equal(event.events_sent, 1);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
	assert_int_equal(event.route.has_path, 0);
	assert_int_equal(event.route.dgid[12], 10);
	assert_true(port_of(&event.route.src) >= FIRST_EPHEMERAL_EVER);
	assert_int_equal(port_of(&event.route.dst), 99);
	assert_int_equal(desk_resolve_route(&user, id), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(event.events_sent, 2);
	assert_int_equal(event.route.has_path, 1);
	assert_int_equal(event.route.mtu, IBV_MTU_1024);
	assert_int_equal(event.route.pkey, 0xffff);
	assert_int_equal(event.route.rate, IBV_RATE_10_GBPS);
}

static void cma_resolve_route_uses_smaller_mtu(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "127.0.0.1", 0, NULL), 0);
	assert_int_equal(desk_resolve(&user, id, "10.0.0.1", 99), 0);
	assert_int_equal(desk_resolve_route(&user, id), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	/* The id stays bound to its device. */
	assert_int_equal(event.route.dev_id, FAKE_LO);
	assert_int_equal(event.route.sgid[12], 127);
	desk_take(user.fd, &event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(event.route.mtu, IBV_MTU_1024);
}

static void cma_resolve_addr_wildcard_and_127_8_are_local(void **state)
{
	static const char *const names[] = {"0.0.0.0", "::", "127.1.2.3", "::1"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct ipc_cm_event event;
		uint32_t id;

		assert_int_equal(desk_create(&user, &id, 1), 0);
		assert_int_equal(desk_resolve(&user, id, names[i], 99), 0);
		assert_int_equal(desk_resolve_route(&user, id), 0);
		desk_run();
		desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(event.route.dev_id, FAKE_LO);
		desk_take(user.fd, &event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	}
}

static void cma_resolve_addr_unreachable_reports_addr_error(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_resolve(&user, id, "192.0.2.1", 99), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(event.status, -ENETUNREACH);
	/* The id may resolve another address. */
	assert_int_equal(desk_resolve(&user, id, "10.0.0.77", 99), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(desk_resolve_route(&user, id), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ROUTE_ERROR);
	assert_int_equal(event.status, -EHOSTUNREACH);
}

static void cma_resolve_addr_removed_device_fails(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "127.0.0.1", 0, NULL), 0);
	fake_netdev_remove(FAKE_LO);
	assert_int_equal(desk_resolve(&user, id, "10.0.0.1", 99), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(event.status, -ENODEV);
}

static void cma_resolve_addr_mixed_families_fail(void **state)
{
	struct ipc_cm_resolve_addr req = {0};
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_bind(&user, id, "10.0.0.1", 0, NULL), 0);
	assert_int_equal(desk_resolve(&user, id, "::1", 99), -EINVAL);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	req.id = id;
	desk_addr(&req.src, "10.0.0.1", 0);
	desk_addr(&req.dst, "::1", 99);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_RESOLVE_ADDR, sizeof(req), NULL), -EINVAL);
	req.dst.ss_family = 99;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_RESOLVE_ADDR, sizeof(req), NULL),
			 -EAFNOSUPPORT);
}

static void cma_set_option_invalid_option_fails(void **state)
{
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 8, 1), 0);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 8, 4), -EINVAL);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 32, 1),
			 -EINVAL);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 31, 1),
			 0);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, 77, 1, 4), -ENOSYS);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 1, 4),
			 -EINVAL);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_IB, 2, 1, 4), -ENOSYS);
	assert_int_equal(desk_option(&user, id, 5, 1, 1, 4), -ENOSYS);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 65),
			 -EINVAL);
	assert_int_equal(desk_bind(&user, id, "0.0.0.0", 0, NULL), 0);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 0, 4),
			 -EINVAL);
	assert_int_equal(desk_listen(&user, id, 0), 0);
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1, 4),
			 -EINVAL);
}

/* As in Linux: the QPs of other types have no ACK timer. */
static void cma_set_option_ack_timeout_depends_on_qp_type(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		int status;
	} types[] = {
		{IBV_QPT_RC, 0},       {IBV_QPT_XRC_SEND, 0},	    {IBV_QPT_UC, -EINVAL},
		{IBV_QPT_UD, -EINVAL}, {IBV_QPT_XRC_RECV, -EINVAL},
	};
	uint32_t id;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		desk_ps = types[i].type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_IB;
		desk_qp_type = (uint8_t)types[i].type;
		assert_int_equal(desk_create(&user, &id, 1), 0);
		assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					     0, 1),
				 types[i].status);
	}
	desk_ps = RDMA_PS_TCP;
	desk_qp_type = IBV_QPT_RC;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_bind_own_address_selects_device),
		TEST(cma_bind_wildcard_selects_no_device),
		TEST(cma_bind_loopback_selects_loopback_device),
		TEST(cma_bind_port_0_gets_ephemeral_port),
		TEST(cma_bind_foreign_address_fails),
		TEST(cma_bind_privileged_port_needs_root),
		TEST(cma_bind_used_port_fails_with_eaddrinuse),
		TEST(cma_bind_reuseaddr_needs_both_and_ends_at_listen),
		TEST(cma_destroy_releases_port),
		TEST(cma_listen_unbound_id_binds_wildcard),
		TEST(cma_resolve_addr_finds_source_and_device),
		TEST(cma_resolve_route_uses_smaller_mtu),
		TEST(cma_resolve_addr_wildcard_and_127_8_are_local),
		TEST(cma_resolve_addr_unreachable_reports_addr_error),
		TEST(cma_resolve_addr_removed_device_fails),
		TEST(cma_resolve_addr_mixed_families_fail),
		TEST(cma_set_option_invalid_option_fails),
		TEST(cma_set_option_ack_timeout_depends_on_qp_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
