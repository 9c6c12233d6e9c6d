/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cma_desk.h"

/* Address resolution waits for the kernel's neighbour entry of the next hop. */

#define NEIGHBOUR "10.0.0.77"
#define LONG_MS	  60000

static int resolve(uint32_t id, uint32_t timeout_ms)
{
	struct ipc_cm_resolve_addr req = {.id = id, .timeout_ms = timeout_ms};

	desk_addr(&req.dst, NEIGHBOUR, 99);
	return desk_ask(&user, &req, IPC_CM_RESOLVE_ADDR, sizeof(req), NULL);
}

static uint32_t resolving(uint32_t timeout_ms)
{
	uint32_t id;

	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(resolve(id, timeout_ms), 0);
	return id;
}

static void cma_neigh_known_neighbour_resolves_at_once(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	resolving(LONG_MS);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(fake_neigh_solicited(), 0);
}

static void cma_neigh_local_address_resolves_at_once(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_resolve(&user, id, "10.0.0.1", 99), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(fake_neigh_solicited(), 0);
}

static void cma_neigh_unknown_neighbour_is_solicited(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	id = resolving(LONG_MS);
	desk_run();
	desk_expect_none(user.fd);
	/* In this state an id accepts only its destruction and options. */
	assert_int_equal(resolve(id, LONG_MS), -EINVAL);
	assert_int_equal(desk_resolve_route(&user, id), -EINVAL);
	assert_int_equal(desk_listen(&user, id, 1), -EINVAL);
	fake_neigh_set(NEIGH_VALID);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(event.id, id);
	assert_false(fake_neigh_is_watched());
	assert_int_equal(fake_neigh_solicited(), 1);
}

static void cma_neigh_ids_of_one_hop_share_solicitation(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	resolving(LONG_MS);
	resolving(LONG_MS);
	assert_int_equal(fake_neigh_solicited(), 1);
	fake_neigh_set(NEIGH_VALID);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void cma_neigh_failed_neighbour_reports_addr_error(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	id = resolving(LONG_MS);
	fake_neigh_set(NEIGH_FAILED);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(event.status, -EHOSTUNREACH);
	assert_int_equal(event.route.dev_id, 0);
	fake_neigh_set(NEIGH_UNKNOWN);
	assert_int_equal(resolve(id, LONG_MS), 0);
	fake_neigh_set(NEIGH_VALID);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
}

static void cma_neigh_no_response_times_out(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	id = resolving(1);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(event.id, id);
	assert_int_equal(event.status, -ETIMEDOUT);
	assert_false(fake_neigh_is_watched());
}

static void cma_neigh_destroyed_id_gets_no_event(void **state)
{
	uint32_t id;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	id = resolving(LONG_MS);
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
	assert_false(fake_neigh_is_watched());
	fake_neigh_set(NEIGH_VALID);
	desk_run();
	desk_expect_none(user.fd);
}

static void cma_neigh_removed_device_ends_resolution(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	resolving(LONG_MS);
	fake_netdev_remove(FAKE_ETH);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_false(fake_neigh_is_watched());
}

/*
 * Without a carrier the kernel removes the neighbour entries of the interface, and reports no
 * failure of their resolution.
 */
static void cma_neigh_port_down_reports_addr_error(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	fake_neigh_set(NEIGH_UNKNOWN);
	resolving(LONG_MS);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_PORT_DOWN);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(event.status, -ENETDOWN);
	assert_int_equal(event.route.dev_id, 0);
	assert_false(fake_neigh_is_watched());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)
		TEST(cma_neigh_known_neighbour_resolves_at_once),
		TEST(cma_neigh_local_address_resolves_at_once),
		TEST(cma_neigh_unknown_neighbour_is_solicited),
		TEST(cma_neigh_ids_of_one_hop_share_solicitation),
		TEST(cma_neigh_failed_neighbour_reports_addr_error),
		TEST(cma_neigh_no_response_times_out),
		TEST(cma_neigh_destroyed_id_gets_no_event),
		TEST(cma_neigh_removed_device_ends_resolution),
		TEST(cma_neigh_port_down_reports_addr_error),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
