/* SPDX-License-Identifier: BSD-2-Clause */

/* Ids of the rdma_cm whose interface is removed or changes. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cma_desk.h"

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cma_netdev_changed_removed_device_reports_device_removal),
		TEST(cma_connect_removed_address_reports_unreachable),
		TEST(cma_netdev_changed_device_of_listener_reports_device_removal),
		TEST(cma_netdev_changed_removed_address_has_no_event),
		TEST(cma_netdev_changed_bond_failover_reports_addr_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
