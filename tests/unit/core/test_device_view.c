/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The devices of a process that has a view: names, rails, profiles. The daemon is replaced by two
 * interfaces (engine_get and ipc_call are replaced, meson.build). main() sets the environment,
 * which the library reads once.
 */

#include "fake.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "core/device/device.h"
#include "core/device/query.h"

static struct fake fake;

struct engine *__wrap_engine_get(void);
int __wrap_engine_start(struct engine *engine);
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);

struct engine *__wrap_engine_get(void)
{
	return &fake.engine;
}

int __wrap_engine_start(struct engine *engine)
{
	(void)engine;
	return 0;
}

/*
 * Interface eth0 with number 2, then lo with number 1. Each has a link-local GID and one IPv4 GID.
 */
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	const struct ipc_device_get *get = req;
	struct ipc_device_reply *info = reply;

	(void)client;
	(void)req_len;
	(void)fds;
	(void)nfds;
	if (get->cursor >= 2)
		return -ENOENT;
	memset(info, 0, reply_len);
	info->next_cursor = get->cursor + 1;
	info->dev_id = 2 - get->cursor;
	info->node_guid = 0x021122fffe334400 + info->dev_id;
	info->netdev_mtu_bytes = 1500;
	info->flags = IPC_DEVICE_UP;
	info->gid_count = 2;
	info->node_type = IBV_NODE_CA;
	info->transport_type = IBV_TRANSPORT_IB;
	info->link_layer = IBV_LINK_LAYER_ETHERNET;
	info->gid_type = IBV_GID_TYPE_ROCE_V2;
	snprintf(info->name, sizeof(info->name), "%s", get->cursor ? "lo" : "eth0");
	for (int i = 0; i < 2; i++) {
		info->gids[i].is_valid = 1;
		info->gids[i].ifindex = info->dev_id;
		info->gids[i].raw[0] = (uint8_t)info->dev_id;
		info->gids[i].raw[15] = (uint8_t)(i + 1);
	}
	return 0;
}

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_device *device_at(int index)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *device;

	assert_non_null(list);
	assert_int_equal(count, 4);
	device = list[index];
	ibv_free_device_list(list);
	return device;
}

static void ibv_get_device_list_has_named_devices_first(void **state)
{
	static const char *const names[] = {"mlx5_1", "mlx5_0", "mlx5_2", "lo"};

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_string_equal(ibv_get_device_name(device_at(i)), names[i]);
		assert_ptr_equal(device_at(i), device_at(i));
	}
}

static void usrdma_device_id_differs_for_each_rail(void **state)
{
	(void)state;
	assert_int_equal(usrdma_device_id(device_at(0)), 2);
	assert_int_equal(usrdma_device_id(device_at(3)), 1);
	assert_int_equal(be64toh(ibv_get_device_guid(device_at(0))), 0x021122fffe334402);
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < i; j++) {
			assert_true(usrdma_device_id(device_at(i)) !=
				    usrdma_device_id(device_at(j)));
			assert_true(ibv_get_device_guid(device_at(i)) !=
				    ibv_get_device_guid(device_at(j)));
		}
	}
}

static void ibv_query_device_reports_the_profile(void **state)
{
	struct ibv_context *ctx = ibv_open_device(device_at(1));
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	(void)state;
	assert_non_null(ctx);
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_int_equal(attr.vendor_part_id, 4123);
	assert_int_equal(attr.max_qp, 5);
	assert_int_equal(attr.max_qp_wr, 32768);
	/* The profile's is larger than this implementation's. */
	assert_int_equal(attr.max_mr, MAX_MRS);
	assert_int_equal(attr.node_guid, ibv_get_device_guid(device_at(1)));
	assert_int_equal(attr.sys_image_guid, attr.node_guid);
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.active_width, 2);
	assert_int_equal(port.active_speed, 64);
	assert_int_equal(port.gid_tbl_len, 255);
	assert_int_equal(ibv_close_device(ctx), 0);
	ctx = ibv_open_device(device_at(2));
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_int_equal(attr.vendor_id, 0x8086);
	assert_int_equal(attr.max_srq, 0);
	assert_false(attr.device_cap_flags & IBV_DEVICE_XRC);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_gid_table_has_pairs(void **state)
{
	struct ibv_context *ctx = ibv_open_device(device_at(0));
	struct device *device = to_device(device_at(0));
	struct ibv_gid_entry entries[4];
	struct ipc_gid gid;

	(void)state;
	assert_int_equal(ibv_query_gid_table(ctx, entries, 4, 0), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(entries[i].gid_index, i);
		assert_int_equal(entries[i].gid.raw[15], i / 2 + 1);
		assert_int_equal(entries[i].gid_type,
				 i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	}
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 3, entries, 0), 0);
	assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 254, entries, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 255, entries, 0), EINVAL);
	assert_int_equal(device_gid(device, 2, &gid), 0);
	assert_int_equal(device_gid_index(device, gid.raw), 3);
	gid.raw[14] = 1;
	assert_int_equal(device_gid_index(device, gid.raw), -1);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void device_known_as_prefers_the_rail(void **state)
{
	(void)state;
	for (unsigned int rail = 0; rail < 2; rail++) {
		const struct device *device = device_known_as(&fake.engine, "eth0", 2,
							      0x021122fffe334402, rail);

		assert_non_null(device);
		assert_int_equal(device->rail, rail);
	}
	assert_non_null(device_known_as(&fake.engine, "eth0", 2, 0x021122fffe334402, 9));
	assert_null(device_known_as(&fake.engine, "mlx5_0", 2, 0x021122fffe334402, 0));
	assert_null(device_known_as(&fake.engine, "eth0", 1, 0x021122fffe334402, 0));
}

static void device_notice_reaches_each_rail(void **state)
{
	const struct ipc_device_notice notice = {.dev_id = 2, .what = IPC_DEVICE_GID_CHANGE};
	struct ibv_context *contexts[3];
	struct ibv_async_event event;

	(void)state;
	for (int i = 0; i < 3; i++) {
		contexts[i] = ibv_open_device(device_at(i == 2 ? 3 : i));
		assert_non_null(contexts[i]);
	}
	engine_lock(&fake.engine);
	device_notice(&fake.engine, &notice);
	engine_unlock(&fake.engine);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_async_event(contexts[i], &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
		ibv_ack_async_event(&event);
	}
	assert_true(list_is_empty(&to_context(contexts[2])->events));
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_close_device(contexts[i]), 0);
}

#define VIEW_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VIEW_TEST(ibv_get_device_list_has_named_devices_first),
		VIEW_TEST(usrdma_device_id_differs_for_each_rail),
		VIEW_TEST(ibv_query_device_reports_the_profile),
		VIEW_TEST(ibv_query_gid_table_has_pairs),
		VIEW_TEST(device_known_as_prefers_the_rail),
		VIEW_TEST(device_notice_reaches_each_rail),
	};

	setenv("USRDMA_DEVICES", "mlx5_1=eth0,mlx5_0=eth0,mlx5_2=eth0:e810", 1);
	setenv("USRDMA_PROFILE", "connectx-6,max_qp=5", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
