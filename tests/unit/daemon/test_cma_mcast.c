/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of datagram ids: which groups an id may join, and the event of a join. */
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

#define MULTICAST_QPN 0xffffff
#define TOS	      0x28

static const uint8_t ipv4_group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
static const uint8_t ipv6_group[16] = {0xff, 0x0e, [15] = 7};

static int open_datagram(void **state)
{
	int ret = desk_open(state);

	desk_ps = RDMA_PS_UDP;
	desk_qp_type = IBV_QPT_UD;
	return ret;
}

static int join(uint32_t id, const char *group, uint32_t flags, uint64_t cookie)
{
	struct ipc_cm_join req = {.id = id, .join_flags = flags, .cookie = cookie};

	desk_addr(&req.addr, group, 0);
	return desk_ask(&user, &req, IPC_CM_JOIN, sizeof(req), NULL);
}

static int leave(uint32_t id, uint64_t cookie)
{
	struct ipc_cm_leave req = {.id = id, .cookie = cookie};

	return desk_ask(&user, &req, IPC_CM_LEAVE, sizeof(req), NULL);
}

static uint32_t bound(const char *addr)
{
	uint32_t id;

	assert_int_equal(desk_create(&user, &id, 0x1d), 0);
	assert_int_equal(desk_bind(&user, id, addr, 0, NULL), 0);
	return id;
}

static void cma_mcast_join_event_has_address_attributes(void **state)
{
	struct ipc_cm_event event;
	uint32_t id = bound("10.0.0.1");

	(void)state;
	assert_int_equal(join(id, "239.1.2.3", RDMA_MC_JOIN_FLAG_FULLMEMBER, 5), 0);
	desk_expect_none(user.fd);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(event.id, id);
	assert_int_equal(event.cookie, 0x1d);
	assert_int_equal(event.join_cookie, 5);
	assert_int_equal(event.status, 0);
	assert_int_equal(event.param.qp_num, MULTICAST_QPN);
	assert_int_equal(event.param.qkey, RDMA_UDP_QKEY);
	assert_int_equal(event.param.qp_type, IBV_QPT_UD);
	assert_memory_equal(event.route.dgid, ipv4_group, 16);
	assert_int_equal(event.route.sgid[12], 10);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
	assert_int_equal(event.route.port_num, 1);
	assert_int_equal(event.route.sgid_index, 0);
	assert_int_equal(event.route.hop_limit, 64);
	assert_int_equal(event.route.traffic_class, 0);
	assert_int_equal(event.route.src.ss_family, AF_INET);
	assert_int_equal(leave(id, 5), 0);
	assert_int_equal(leave(id, 5), -EADDRNOTAVAIL);
	desk_run();
	desk_expect_none(user.fd);
}

static void cma_mcast_join_resolved_id_succeeds(void **state)
{
	struct ipc_cm_event event;
	uint32_t id = bound("fd00::1");

	(void)state;
	assert_int_equal(desk_option(&user, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, TOS, 1), 0);
	assert_int_equal(desk_resolve(&user, id, "ff0e::7", 0), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_memory_equal(event.route.dgid, ipv6_group, 16);
	assert_int_equal(event.route.dev_id, FAKE_ETH);
	assert_int_equal(join(id, "ff0e::7", RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, 1), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_memory_equal(event.route.dgid, ipv6_group, 16);
	assert_int_equal(event.route.sgid_index, 1);
	assert_int_equal(event.route.traffic_class, TOS);
}

static void cma_mcast_join_unbound_or_foreign_id_fails(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(join(id, "239.1.2.3", 0, 1), -EINVAL);
	assert_int_equal(desk_bind(&user, id, "0.0.0.0", 0, NULL), 0);
	assert_int_equal(join(id, "239.1.2.3", 0, 1), -EINVAL);
	assert_int_equal(leave(id, 1), -EADDRNOTAVAIL);
	assert_int_equal(join(id + 1000, "239.1.2.3", 0, 1), -EBADF);
	assert_int_equal(leave(id + 1000, 1), -EBADF);

	id = desk_resolved(&user, "10.0.0.1", 7);
	assert_int_equal(join(id, "239.1.2.3", 0, 1), -EINVAL);

	desk_ps = RDMA_PS_TCP;
	desk_qp_type = IBV_QPT_RC;
	id = bound("10.0.0.1");
	assert_int_equal(join(id, "239.1.2.3", 0, 1), -EINVAL);

	desk_ps = RDMA_PS_UDP;
	desk_qp_type = IBV_QPT_UD;
	id = bound("10.0.0.1");
	fake_netdev_remove(FAKE_ETH);
	cma_netdev_changed(desk_cma, FAKE_ETH, IPC_DEVICE_REMOVED);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	while (event.id != id)
		desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_int_equal(join(id, "239.1.2.3", 0, 1), -EINVAL);
}

static void cma_mcast_join_invalid_address_fails(void **state)
{
	struct ipc_cm_join req = {.id = bound("10.0.0.1"), .cookie = 1};
	uint32_t id = req.id;

	(void)state;
	assert_int_equal(join(id, "10.0.0.2", 0, 1), -EINVAL);
	assert_int_equal(join(id, "0.0.0.0", 0, 1), -EINVAL);
	assert_int_equal(join(id, "ff0e::7", 0, 1), -EINVAL);
	assert_int_equal(join(id, "fd00::2", 0, 1), -EINVAL);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_JOIN, sizeof(req), NULL), -EINVAL);
	req.addr.ss_family = AF_UNIX;
	assert_int_equal(desk_ask(&user, &req, IPC_CM_JOIN, sizeof(req), NULL), -EINVAL);
	assert_int_equal(join(id, "239.1.2.3", RDMA_MC_JOIN_FLAG_RESERVED, 1), -EINVAL);
	assert_int_equal(join(id, "239.1.2.3", UINT32_MAX, 1), -EINVAL);
	assert_int_equal(join(id, "239.1.2.3", 0, 0), -EINVAL);
	assert_int_equal(desk_ask(&user, &req, IPC_CM_JOIN, sizeof(req) - 8, NULL), -EINVAL);
	desk_run();
	desk_expect_none(user.fd);
	/* A handle belongs to one membership. */
	assert_int_equal(join(id, "239.1.2.3", 0, 1), 0);
	assert_int_equal(join(id, "239.1.2.4", 0, 1), -EINVAL);
}

/* As a client that joins repeatedly and never leaves. */
static void cma_mcast_join_above_limit_fails(void **state)
{
	uint32_t id = bound("10.0.0.1");
	uint64_t cookie = 1;
	int ret;

	(void)state;
	while (!(ret = join(id, "239.1.2.3", 0, cookie)))
		cookie++;
	assert_int_equal(ret, -EDQUOT);
	assert_true(cookie > 1000);
	assert_int_equal(leave(id, 7), 0);
	assert_int_equal(join(id, "239.1.2.3", 0, 7), 0);
	assert_int_equal(desk_destroy(&user, id, NULL), 0);
}

/* An event that was not pushed yet is discarded and not counted as sent. */
static void cma_mcast_leave_discards_queued_event(void **state)
{
	struct ipc_cm_event event;
	uint32_t id = bound("10.0.0.1");
	uint64_t events;

	(void)state;
	assert_int_equal(join(id, "239.1.2.3", 0, 1), 0);
	assert_int_equal(join(id, "239.1.2.4", 0, 2), 0);
	assert_int_equal(leave(id, 1), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(event.join_cookie, 2);
	desk_expect_none(user.fd);
	assert_int_equal(desk_destroy(&user, id, &events), 0);
	assert_int_equal(events, 1);
}

static void cma_mcast_join_device_down_fails(void **state)
{
	struct ipc_cm_event event;
	uint32_t id = bound("10.0.0.1");

	(void)state;
	fake_netdev_set_up(FAKE_ETH, false);
	assert_int_equal(join(id, "239.1.2.3", 0, 3), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(event.join_cookie, 3);
	assert_int_equal(event.status, -ENETDOWN);
	assert_int_equal(leave(id, 3), 0);
}

static const char *text_at(json_object *list, size_t at, const char *name)
{
	return json_object_get_string(
		json_object_object_get(json_object_array_get_idx(list, at), name));
}

static void cma_report_contains_memberships(void **state)
{
	json_object *report = json_object_new_object(), *counters = json_object_new_object();
	uint32_t id = bound("10.0.0.1"), other = bound("fd00::1");
	json_object *list;

	(void)state;
	assert_int_equal(join(id, "239.1.2.3", RDMA_MC_JOIN_FLAG_FULLMEMBER, 1), 0);
	assert_int_equal(join(other, "ff0e::7", RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, 1), 0);
	desk_report(report, counters);
	list = json_object_object_get(report, "multicast_joins");
	assert_int_equal(json_object_array_length(list), 2);
	assert_string_equal(text_at(list, 0, "group"), "239.1.2.3");
	assert_string_equal(text_at(list, 0, "role"), "member");
	assert_string_equal(text_at(list, 0, "device"), "eth0");
	assert_string_equal(text_at(list, 1, "group"), "ff0e::7");
	assert_string_equal(text_at(list, 1, "role"), "sender");
	json_object_put(report);
	json_object_put(counters);
}

#define MCAST_TEST(function) cmocka_unit_test_setup_teardown(function, open_datagram, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MCAST_TEST(cma_mcast_join_event_has_address_attributes),
		MCAST_TEST(cma_mcast_join_resolved_id_succeeds),
		MCAST_TEST(cma_mcast_join_unbound_or_foreign_id_fails),
		MCAST_TEST(cma_mcast_join_invalid_address_fails),
		MCAST_TEST(cma_mcast_join_above_limit_fails),
		MCAST_TEST(cma_mcast_leave_discards_queued_event),
		MCAST_TEST(cma_mcast_join_device_down_fails),
		MCAST_TEST(cma_report_contains_memberships),
	};

	return cmocka_run_group_tests_name("cma_mcast", tests, NULL, NULL);
}
