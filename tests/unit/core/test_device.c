/* SPDX-License-Identifier: BSD-2-Clause */

/* The device list, notices of the daemon about devices, and contexts. */

#include "device_kit.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "core/device/device.h"

static void ibv_get_device_list_repeated_returns_same_pointers(void **state)
{
	int count;
	struct ibv_device **first = ibv_get_device_list(&count);
	struct ibv_device **second = ibv_get_device_list(NULL);
	static const uint8_t zero[128];

	(void)state;
	assert_int_equal(count, 2);
	assert_string_equal(ibv_get_device_name(first[0]), "eth0");
	assert_string_equal(ibv_get_device_name(first[1]), "lo");
	assert_null(first[2]);
	assert_ptr_equal(first[0], second[0]);
	assert_ptr_equal(first[1], second[1]);
	assert_int_equal(be64toh(ibv_get_device_guid(first[0])), 0x1122334455667702);
	assert_int_equal(usrdma_device_id(first[1]), 1);
	/* The kernel does not have the device. */
	assert_int_equal(ibv_get_device_index(first[1]), -1);
	assert_int_equal(first[0]->node_type, IBV_NODE_CA);
	assert_int_equal(first[0]->transport_type, IBV_TRANSPORT_IB);
	/* Offset at which provider libraries expect their own ops. */
	assert_int_equal(sizeof(*first[0]), 664);
	assert_memory_equal((const uint8_t *)first[0] + 664, zero, 48);
	ibv_free_device_list(first);
	ibv_free_device_list(second);
}

static void ibv_get_device_list_follows_interfaces(void **state)
{
	struct ibv_device *eth = device_named("eth0");
	struct ibv_device *renamed;

	(void)state;
	daemon_count = 1;
	daemon_has(0, "lo", 1, 65536);
	assert_null(device_named("eth0"));
	errno = 0;
	assert_null(ibv_open_device(eth));
	assert_int_equal(errno, ENODEV);
	/*
	 * A device that returns with its name is the same device; with another name it is a
	 * different one.
	 */
	daemon_has(0, "eth0", 2, 1500);
	assert_ptr_equal(device_named("eth0"), eth);
	daemon_has(0, "wan0", 2, 1500);
	renamed = device_named("wan0");
	assert_non_null(renamed);
	assert_ptr_not_equal(renamed, eth);
	assert_string_equal(eth->name, "eth0");
}

static void ibv_get_device_list_without_daemon_fails(void **state)
{
	static const struct {
		int error;
		int reported;
	} rows[] = {{ENODEV, ENOSYS}, {ENOENT, ENOSYS}, {ENOMEM, ENOMEM},
		    {EACCES, EACCES}, {EMFILE, EMFILE}, {EPROTO, EPROTO}};
	struct ibv_device **list;
	int count;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		engine_error = rows[i].error;
		errno = 0;
		count = 77;
		assert_null(ibv_get_device_list(&count));
		assert_int_equal(count, 0);
		assert_int_equal(errno, rows[i].reported);
	}
	engine_error = 0;
	daemon_error = -ENODEV;
	count = 77;
	assert_null(ibv_get_device_list(&count));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(count, 0);
	/* The request has found that the daemon has ended. */
	fake_expect_event(&fake, IBV_EVENT_DEVICE_FATAL, NULL);
	/* A daemon without devices. */
	daemon_error = 0;
	daemon_count = 0;
	list = ibv_get_device_list(&count);
	assert_non_null(list);
	assert_null(list[0]);
	assert_int_equal(count, 0);
	ibv_free_device_list(list);
}

static void ibv_get_device_list_invalid_reply_fails(void **state)
{
	(void)state;
#define REFUSES(change)                                 \
	do {                                            \
		daemon_has(0, "eth0", 2, 1500);         \
		change;                                 \
		errno = 0;                              \
		assert_null(ibv_get_device_list(NULL)); \
		assert_int_equal(errno, EPROTO);        \
	} while (0)
	REFUSES(memset(daemon_devices[0].name, 'a', sizeof(daemon_devices[0].name)));
	REFUSES(daemon_devices[0].name[0] = '\0');
	REFUSES(daemon_devices[0].gid_count = IPC_GIDS_MAX + 1);
	REFUSES(daemon_devices[0].node_guid = 0);
#undef REFUSES
}

/* The thresholds are those of Linux's rxe. */
static void device_active_mtu_fits_interface_mtu(void **state)
{
	static const struct {
		uint32_t netdev_bytes;
		enum ibv_mtu mtu;
	} rows[] = {{65536, IBV_MTU_4096}, {9000, IBV_MTU_4096}, {4176, IBV_MTU_4096},
		    {4175, IBV_MTU_2048},  {2128, IBV_MTU_2048}, {2127, IBV_MTU_1024},
		    {1500, IBV_MTU_1024},  {1104, IBV_MTU_1024}, {1103, IBV_MTU_512},
		    {592, IBV_MTU_512},	   {591, IBV_MTU_256},	 {68, IBV_MTU_256},
		    {0, IBV_MTU_256}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fake.device.info.netdev_mtu_bytes = rows[i].netdev_bytes;
		assert_int_equal(device_active_mtu(&fake.device), rows[i].mtu);
		assert_int_equal(device_path_mtu(&fake.device), rows[i].mtu);
	}
}

/*
 * The loopback device reports no larger MTU than the other devices, but accepts the MTU of its
 * interface for a path.
 */
static void device_active_mtu_is_limited_path_mtu_is_not(void **state)
{
	(void)state;
	fake.device.info.netdev_mtu_bytes = 65536;
	fake.device.info.mtu_limit_bytes = 1500;
	assert_int_equal(device_active_mtu(&fake.device), IBV_MTU_1024);
	assert_int_equal(device_path_mtu(&fake.device), IBV_MTU_4096);
	fake.device.info.netdev_mtu_bytes = 591;
	assert_int_equal(device_active_mtu(&fake.device), IBV_MTU_256);
}

static void device_notice_updates_port_and_reports_event(void **state)
{
	struct ipc_device_notice notice = {.dev_id = 2, .what = IPC_DEVICE_PORT_DOWN};
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_context *other = open_named("lo");
	struct ibv_async_event event;
	struct ibv_port_attr port;
	unsigned int calls;

	(void)state;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	calls = daemon_calls;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(daemon_calls, calls);
	daemon_devices[0].flags = 0;
	engine_lock(&fake.engine);
	device_notice(&fake.engine, &notice);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_true(daemon_calls > calls);
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.element.port_num, 1);
	assert_true(list_is_empty(&to_context(other)->events));
	/*
	 * If the daemon does not reply, the last known list is kept, and the daemon is asked again.
	 */
	engine_lock(&fake.engine);
	notice.what = IPC_DEVICE_GID_CHANGE;
	device_notice(&fake.engine, &notice);
	engine_unlock(&fake.engine);
	daemon_error = -ENODEV;
	daemon_devices[0].flags = IPC_DEVICE_UP;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	daemon_error = 0;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void device_notice_every_type_reports_its_event(void **state)
{
	static const struct {
		enum ipc_device_what what;
		int event;
	} rows[] = {{IPC_DEVICE_ADDED, -1},
		    {IPC_DEVICE_REMOVED, IBV_EVENT_DEVICE_FATAL},
		    {IPC_DEVICE_GID_CHANGE, IBV_EVENT_GID_CHANGE},
		    {IPC_DEVICE_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE},
		    {IPC_DEVICE_PORT_DOWN, IBV_EVENT_PORT_ERR},
		    {IPC_DEVICE_LID_CHANGE, IBV_EVENT_LID_CHANGE},
		    {IPC_DEVICE_SM_CHANGE, IBV_EVENT_SM_CHANGE},
		    {IPC_DEVICE_CLIENT_REREGISTER, IBV_EVENT_CLIENT_REREGISTER},
		    {IPC_DEVICE_MTU_CHANGE, -1},
		    {(enum ipc_device_what)99, -1}};
	struct ibv_context *ctx = open_named("lo");
	struct ibv_async_event event;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ipc_device_notice notice = {.dev_id = 1, .what = rows[i].what};

		engine_lock(&fake.engine);
		device_notice(&fake.engine, &notice);
		engine_unlock(&fake.engine);
		if (rows[i].event < 0) {
			assert_true(list_is_empty(&to_context(ctx)->events));
			continue;
		}
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		assert_int_equal(event.event_type, rows[i].event);
	}
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_get_device_list_types_are_those_of_the_daemon(void **state)
{
	struct ipc_device_reply *info = &daemon_devices[1];
	struct ibv_context *ctx;
	struct ibv_gid_entry entries[2];
	struct ibv_port_attr attr;

	(void)state;
	daemon_has(1, "iw0", 9, 1500);
	info->node_type = IBV_NODE_RNIC;
	info->transport_type = IBV_TRANSPORT_IWARP;
	info->link_layer = IBV_LINK_LAYER_INFINIBAND;
	info->gid_type = IBV_GID_TYPE_IB;
	ctx = open_named("iw0");
	assert_int_equal(ctx->device->node_type, IBV_NODE_RNIC);
	assert_int_equal(ctx->device->transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(ibv_query_port(ctx, 1, &attr), 0);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, entries, 0), 0);
	assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 2, 0), 2);
	assert_int_equal(entries[1].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_open_device_context_has_abi_layout(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	const struct verbs_context *verbs = verbs_get_ctx(ctx);
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr attr;

	(void)state;
	assert_non_null(verbs);
	assert_int_equal(verbs->sz, 696);
	assert_ptr_equal(ctx->device, device_named("lo"));
	assert_true(ctx->cmd_fd >= 0 && ctx->async_fd >= 0 && ctx->num_comp_vectors > 0);
	assert_true(ctx->ops.alloc_mw && ctx->ops.bind_mw && ctx->ops.dealloc_mw &&
		    ctx->ops.poll_cq);
	assert_true(ctx->ops.req_notify_cq && ctx->ops.post_srq_recv && ctx->ops.post_send &&
		    ctx->ops.post_recv);
	assert_int_equal(ctx->ops._compat_query_device(ctx, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(values.raw_clock.tv_nsec > 0);
	values.comp_mask = 1u << 5;
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_close_device_with_objects_stops_them(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	static uint8_t buf[8];
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), 0);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(fake_calls.halt, 1);
	assert_int_equal(fake_calls.revoke_mr, 1);
	/* Remaining objects can still be destroyed; the last one frees the context. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(fake_calls.revoke_mr, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(ibv_get_device_list_repeated_returns_same_pointers),
		DEVICE_TEST(ibv_get_device_list_follows_interfaces),
		DEVICE_TEST(ibv_get_device_list_without_daemon_fails),
		DEVICE_TEST(ibv_get_device_list_invalid_reply_fails),
		DEVICE_TEST(device_active_mtu_fits_interface_mtu),
		DEVICE_TEST(device_active_mtu_is_limited_path_mtu_is_not),
		DEVICE_TEST(device_notice_updates_port_and_reports_event),
		DEVICE_TEST(device_notice_every_type_reports_its_event),
		DEVICE_TEST(ibv_get_device_list_types_are_those_of_the_daemon),
		DEVICE_TEST(ibv_open_device_context_has_abi_layout),
		DEVICE_TEST(ibv_close_device_with_objects_stops_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
