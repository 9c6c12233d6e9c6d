/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static void ibv_get_device_list_returns_list(void **state)
{
	struct ibv_device **list;
	int count = -1;

	(void)state;
	list = ibv_get_device_list(&count);
	assert_non_null(list);
	assert_true(count >= 1);
	assert_null(list[count]);
	ibv_free_device_list(list);
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	ibv_free_device_list(list);
}

static void ibv_get_device_list_loopback_is_last(void **state)
{
	struct ibv_device **list;
	int count;

	(void)state;
	list = ibv_get_device_list(&count);
	for (int i = 0; i < count; i++)
		assert_int_equal(!strcmp(ibv_get_device_name(list[i]), "lo"), i == count - 1);
	ibv_free_device_list(list);
}

static void ibv_get_device_guid_is_stable(void **state)
{
	struct ibv_device **list, **again;
	int count, count_again;

	(void)state;
	list = ibv_get_device_list(&count);
	again = ibv_get_device_list(&count_again);
	assert_int_equal(count, count_again);
	for (int i = 0; i < count; i++) {
		assert_true(ibv_get_device_guid(list[i]) != 0);
		assert_true(ibv_get_device_guid(list[i]) == ibv_get_device_guid(again[i]));
		assert_int_equal(list[i]->node_type, IBV_NODE_CA);
		assert_int_equal(list[i]->transport_type, IBV_TRANSPORT_IB);
	}
	ibv_free_device_list(again);
	ibv_free_device_list(list);
}

static void ibv_free_device_list_keeps_open_device(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	char name[IBV_SYSFS_NAME_MAX];

	(void)state;
	strcpy(name, ibv_get_device_name(list[0]));
	ctx = ibv_open_device(list[0]);
	assert_non_null(ctx);
	ibv_free_device_list(list);
	assert_string_equal(ibv_get_device_name(ctx->device), name);
	assert_true(ctx->num_comp_vectors >= 1);
	assert_true(ctx->async_fd >= 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_open_device_many_times_succeeds(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *contexts[16];

	(void)state;
	for (int i = 0; i < 16; i++) {
		contexts[i] = ibv_open_device(list[0]);
		assert_non_null(contexts[i]);
	}
	for (int i = 0; i < 16; i++)
		assert_int_equal(ibv_close_device(contexts[i]), 0);
	ibv_free_device_list(list);
}

static void ibv_query_device_returns_limits(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;

	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_true(attr.max_qp >= 10000);
	assert_true(attr.max_qp_wr >= 16384);
	assert_true(attr.max_cqe > 32767);
	assert_true(attr.max_sge >= 16);
	assert_true(attr.max_mr >= 65536);
	assert_true(attr.max_mr_size >= UINT64_C(1) << 40);
	assert_true(attr.max_qp_rd_atom >= 16);
	assert_true(attr.max_pkeys >= 1);
	assert_true(attr.node_guid != 0);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
}

static void ibv_query_device_ex_agrees_with_query_device(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;

	memset(&ex, 0xff, sizeof(ex));
	assert_int_equal(ibv_query_device_ex(api->ctx, NULL, &ex), 0);
	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_int_equal(ex.orig_attr.max_qp, attr.max_qp);
	assert_int_equal(ex.orig_attr.max_cqe, attr.max_cqe);
	assert_true(ex.orig_attr.node_guid == attr.node_guid);
}

static void ibv_query_port_returns_attributes(void **state)
{
	struct api *api = *state;
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	assert_int_equal(ibv_query_port(api->ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_true(attr.gid_tbl_len >= 1);
	assert_true(attr.pkey_tbl_len >= 1);
	assert_true(attr.max_msg_sz >= UINT32_C(1) << 30);
	assert_true(attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= attr.max_mtu);
	assert_true(attr.max_mtu <= IBV_MTU_4096);
}

/* 2.5 Gb/s, on one lane: programs that use the fastest devices leave it out. */
static void ibv_query_port_of_loopback_returns_lowest_speed(void **state)
{
	struct ibv_device **list;
	struct ibv_port_attr attr;
	struct ibv_context *ctx;
	int count;

	(void)state;
	list = ibv_get_device_list(&count);
	ctx = ibv_open_device(list[count - 1]);
	assert_non_null(ctx);
	assert_int_equal(ibv_query_port(ctx, 1, &attr), 0);
	assert_int_equal(attr.active_speed, 1);
	assert_int_equal(attr.active_width, 1);
	assert_int_equal(ibv_close_device(ctx), 0);
	ibv_free_device_list(list);
}

static void ibv_query_port_other_port_fails(void **state)
{
	struct api *api = *state;
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(api->ctx, 0, &attr), EINVAL);
	assert_int_equal(ibv_query_port(api->ctx, 2, &attr), EINVAL);
	assert_int_equal(ibv_query_port(api->ctx, 255, &attr), EINVAL);
}

static void ibv_query_gid_ex_index_0_is_valid(void **state)
{
	static const union ibv_gid none;
	struct api *api = *state;
	struct ibv_gid_entry entry;

	assert_true(memcmp(&api->gid, &none, sizeof(none)) != 0);
	assert_int_equal(ibv_query_gid_ex(api->ctx, 1, 0, &entry, 0), 0);
	assert_int_equal(entry.gid_index, 0);
	assert_int_equal(entry.port_num, 1);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_true(entry.ndev_ifindex != 0);
	assert_memory_equal(&entry.gid, &api->gid, sizeof(api->gid));
}

static void ibv_query_gid_invalid_index_fails(void **state)
{
	struct api *api = *state;
	struct ibv_gid_entry entry;
	struct ibv_port_attr attr;
	union ibv_gid gid;

	assert_int_equal(ibv_query_port(api->ctx, 1, &attr), 0);
	assert_minus1_errno(ibv_query_gid(api->ctx, 1, -1, &gid), EINVAL);
	assert_minus1_errno(ibv_query_gid(api->ctx, 1, attr.gid_tbl_len, &gid), EINVAL);
	assert_minus1_errno(ibv_query_gid(api->ctx, 2, 0, &gid), EINVAL);
	assert_int_equal(ibv_query_gid_ex(api->ctx, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(api->ctx, 1, 0, &entry, 1), EINVAL);
}

static void ibv_query_gid_table_lists_valid_entries(void **state)
{
	struct api *api = *state;
	struct ibv_gid_entry entries[256], one;
	ssize_t count = ibv_query_gid_table(api->ctx, entries, 256, 0);

	assert_true(count >= 1);
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(ibv_query_gid_ex(api->ctx, 1, entries[i].gid_index, &one, 0), 0);
		assert_memory_equal(&one.gid, &entries[i].gid, sizeof(one.gid));
	}
	assert_int_equal(ibv_query_gid_table(api->ctx, entries, 256, 1), -EINVAL);
}

static void ibv_query_pkey_returns_default_pkey(void **state)
{
	struct api *api = *state;
	__be16 pkey = 0;

	assert_int_equal(ibv_query_pkey(api->ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(api->ctx, 1, pkey), 0);
	assert_minus1_errno(ibv_query_pkey(api->ctx, 1, 30000, &pkey), EINVAL);
	assert_minus1_errno(ibv_query_pkey(api->ctx, 2, 0, &pkey), EINVAL);
	assert_int_equal(ibv_get_pkey_index(api->ctx, 1, 0x1234), -1);
}

static void ibv_get_async_event_nonblocking_fails_with_eagain(void **state)
{
	struct api *api = *state;
	struct ibv_async_event event;

	async_none(api->ctx);
	make_nonblocking(api->ctx->async_fd);
	assert_minus1_errno(ibv_get_async_event(api->ctx, &event), EAGAIN);
}

static void ibv_query_rt_values_ex_returns_clock(void **state)
{
	struct api *api = *state;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(api->ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(values.raw_clock.tv_sec != 0 || values.raw_clock.tv_nsec != 0);
}

static void ibv_fork_init_returns_success(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_get_device_list_returns_list),
		cmocka_unit_test(ibv_get_device_list_loopback_is_last),
		cmocka_unit_test(ibv_get_device_guid_is_stable),
		cmocka_unit_test(ibv_free_device_list_keeps_open_device),
		cmocka_unit_test(ibv_open_device_many_times_succeeds),
		cmocka_unit_test(ibv_query_device_returns_limits),
		cmocka_unit_test(ibv_query_device_ex_agrees_with_query_device),
		cmocka_unit_test(ibv_query_port_returns_attributes),
		cmocka_unit_test(ibv_query_port_of_loopback_returns_lowest_speed),
		cmocka_unit_test(ibv_query_port_other_port_fails),
		cmocka_unit_test(ibv_query_gid_ex_index_0_is_valid),
		cmocka_unit_test(ibv_query_gid_invalid_index_fails),
		cmocka_unit_test(ibv_query_gid_table_lists_valid_entries),
		cmocka_unit_test(ibv_query_pkey_returns_default_pkey),
		cmocka_unit_test(ibv_get_async_event_nonblocking_fails_with_eagain),
		cmocka_unit_test(ibv_query_rt_values_ex_returns_clock),
		cmocka_unit_test(ibv_fork_init_returns_success),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
