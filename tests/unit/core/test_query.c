/* SPDX-License-Identifier: BSD-2-Clause */

/* The queries of a device, its port and its tables of GIDs and P_Keys. */

#include "device_kit.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/device/query.h"

static void ibv_query_port_short_struct_is_not_overrun(void **state)
{
	static const size_t sizes[] = {48, 52, 56, 80};
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_port_attr full, compat;
	uint8_t room[96];

	(void)state;
	assert_int_equal(ibv_query_port(ctx, 1, &full), 0);
	assert_int_equal(full.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(full.active_mtu, IBV_MTU_1024);
	assert_int_equal(full.max_msg_sz, 1u << 31);
	assert_int_equal(full.gid_tbl_len, IPC_GIDS_MAX);
	assert_int_equal(full.pkey_tbl_len, 1);
	assert_int_equal(full.flags, IBV_QPF_GRH_REQUIRED);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(room, 0xa5, sizeof(room));
		assert_int_equal(query_port(ctx, 1, (struct ibv_port_attr *)(void *)room, sizes[i]),
				 0);
		assert_memory_equal(room, &full, sizes[i] < sizeof(full) ? sizes[i] : sizeof(full));
		for (size_t at = sizeof(full); at < sizes[i]; at++)
			assert_int_equal(room[at], 0);
		assert_int_equal(room[sizes[i]], 0xa5);
	}
	/* The exported symbol, for programs compiled with a shorter structure. */
	memset(&compat, 0xa5, sizeof(compat));
	assert_int_equal((ibv_query_port)(ctx, 1, (struct _compat_ibv_port_attr *)&compat), 0);
	assert_memory_equal(&compat, &full, offsetof(struct ibv_port_attr, port_cap_flags2));
	assert_int_equal(compat.port_cap_flags2, 0xa5a5);
	assert_int_equal(ibv_query_port(ctx, 0, &full), EINVAL);
	assert_int_equal(ibv_query_port(ctx, 2, &full), EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_device_ex_short_struct_is_not_overrun(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_query_device_ex_input bad = {.comp_mask = 1};
	struct ibv_device_attr_ex attr, part;
	size_t known = offsetof(struct ibv_device_attr_ex, hca_core_clock);

	(void)state;
	assert_int_equal(ibv_query_device_ex(ctx, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_int_equal(attr.orig_attr.max_cqe, MAX_CQE);
	assert_int_equal(be64toh(attr.orig_attr.node_guid), 0x1122334455667702);
	assert_int_equal(query_device_ex(ctx, &bad, &attr, sizeof(attr)), EINVAL);
	assert_int_equal(query_device_ex(ctx, NULL, &attr, sizeof(attr.orig_attr) - 1), EINVAL);
	memset(&part, 0xa5, sizeof(part));
	assert_int_equal(query_device_ex(ctx, NULL, &part, known), 0);
	assert_memory_equal(&part, &attr, known);
	assert_true(part.hca_core_clock == 0xa5a5a5a5a5a5a5a5);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_gid_returns_table_entry(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_gid_entry entries[3];
	union ibv_gid gid;
	union ibv_gid zero = {.raw = {0}};

	(void)state;
	assert_int_equal(ibv_query_gid(ctx, 1, 2, &gid), 0);
	assert_int_equal(gid.raw[15], 3);
	assert_int_equal(ibv_query_gid(ctx, 1, 1, &gid), 0);
	assert_memory_equal(&gid, &zero, sizeof(gid));
	assert_int_equal(ibv_query_gid(ctx, 1, 255, &gid), 0);
	for (int i = 0; i < 3; i++) {
		static const int bad[3][2] = {{1, 256}, {1, -1}, {2, 0}};

		errno = 0;
		assert_int_equal(ibv_query_gid(ctx, (uint8_t)bad[i][0], bad[i][1], &gid), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 2, entries, 0), 0);
	assert_int_equal(entries[0].gid_index, 2);
	assert_int_equal(entries[0].port_num, 1);
	assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(entries[0].ndev_ifindex, 2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 1, entries, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 256, entries, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(ctx, 2, 0, entries, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, entries, 1), EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 3, 0), 2);
	assert_int_equal(entries[1].gid_index, 2);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 2, 0), 2);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 3, 1), -EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_pkey_returns_default_pkey_only(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, pkey), 0);
	errno = 0;
	assert_int_equal(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_pkey(ctx, 1, -1, &pkey), -1);
	assert_int_equal(ibv_query_pkey(ctx, 2, 0, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, htobe16(0x7fff)), -1);
	assert_int_equal(ibv_get_pkey_index(ctx, 2, pkey), -1);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_device_in_forked_child_fails_with_eio(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	struct ibv_gid_entry entry;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	(void)state;
	fake.engine.is_orphan = true;
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_int_equal(ibv_query_port(ctx, 1, &port), EIO);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), EIO);
	assert_int_equal(ibv_query_gid_table(ctx, &entry, 1, 0), -EIO);
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), EIO);
	errno = 0;
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), -1);
	assert_int_equal(errno, EIO);
	errno = 0;
	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), -1);
	assert_int_equal(errno, EIO);
	errno = 0;
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_close_device(ctx), 0);
	fake.engine.is_orphan = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(ibv_query_port_short_struct_is_not_overrun),
		DEVICE_TEST(ibv_query_device_ex_short_struct_is_not_overrun),
		DEVICE_TEST(ibv_query_gid_returns_table_entry),
		DEVICE_TEST(ibv_query_pkey_returns_default_pkey_only),
		DEVICE_TEST(ibv_query_device_in_forked_child_fails_with_eio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
