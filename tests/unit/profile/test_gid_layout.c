/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "profile/gid_layout.h"

/* The daemon's table of an interface with one IPv4 address: link-local, IPv4, empty, IPv4 again. */
static struct ipc_device_reply one_address(void)
{
	struct ipc_device_reply info = {.gid_count = 4};

	for (int i = 0; i < 4; i++) {
		info.gids[i].is_valid = i != 2;
		info.gids[i].raw[15] = i ? 9 : 1;
	}
	return info;
}

static void gid_layout_source_usrdma_is_the_daemons_table(void **state)
{
	struct ipc_device_reply info = one_address();

	(void)state;
	assert_int_equal(gid_layout_source(GID_LAYOUT_USRDMA, &info, 0), 0);
	assert_int_equal(gid_layout_source(GID_LAYOUT_USRDMA, &info, 2), -1);
	assert_int_equal(gid_layout_source(GID_LAYOUT_USRDMA, &info, 3), 3);
	assert_int_equal(gid_layout_source(GID_LAYOUT_USRDMA, &info, 4), -1);
	assert_int_equal(gid_layout_source(GID_LAYOUT_USRDMA, &info, UINT32_MAX), -1);
	assert_int_equal(gid_layout_index(GID_LAYOUT_USRDMA, 3), 3);
	assert_int_equal(gid_layout_count(GID_LAYOUT_USRDMA, &info), 4);
}

static void gid_layout_source_single_has_each_gid_once(void **state)
{
	struct ipc_device_reply info = one_address();

	(void)state;
	assert_int_equal(gid_layout_source(GID_LAYOUT_SINGLE, &info, 1), 1);
	assert_int_equal(gid_layout_source(GID_LAYOUT_SINGLE, &info, 3), -1);
	assert_int_equal(gid_layout_type(GID_LAYOUT_SINGLE, 0, IBV_GID_TYPE_ROCE_V2),
			 IBV_GID_TYPE_ROCE_V2);
}

/* Index 0 to 3: link-local v1, link-local v2, IPv4 v1, IPv4 v2. */
static void gid_layout_source_pairs_has_both_types(void **state)
{
	static const int sources[] = {0, 0, 1, 1, -1, -1, -1, -1, -1};
	struct ipc_device_reply info = one_address();

	(void)state;
	for (uint32_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		assert_int_equal(gid_layout_source(GID_LAYOUT_PAIRS, &info, i), sources[i]);
		assert_int_equal(gid_layout_type(GID_LAYOUT_PAIRS, i, IBV_GID_TYPE_ROCE_V2),
				 i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1);
	}
	assert_int_equal(gid_layout_index(GID_LAYOUT_PAIRS, 1), 3);
}

static void gid_layout_source_full_table_stays_in_bounds(void **state)
{
	struct ipc_device_reply info = {.gid_count = UINT32_MAX};

	(void)state;
	for (uint32_t i = 0; i < IPC_GIDS_MAX; i++) {
		info.gids[i].is_valid = 1;
		info.gids[i].raw[14] = 1;
		info.gids[i].raw[15] = (uint8_t)i;
	}
	assert_int_equal(gid_layout_count(GID_LAYOUT_PAIRS, &info), IPC_GIDS_MAX);
	assert_int_equal(gid_layout_count(GID_LAYOUT_SINGLE, &info), IPC_GIDS_MAX);
	assert_int_equal(gid_layout_source(GID_LAYOUT_PAIRS, &info, IPC_GIDS_MAX - 1),
			 IPC_GIDS_MAX / 2 - 1);
	assert_int_equal(gid_layout_source(GID_LAYOUT_PAIRS, &info, IPC_GIDS_MAX), -1);
	assert_int_equal(gid_layout_source(GID_LAYOUT_SINGLE, &info, IPC_GIDS_MAX), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gid_layout_source_usrdma_is_the_daemons_table),
		cmocka_unit_test(gid_layout_source_single_has_each_gid_once),
		cmocka_unit_test(gid_layout_source_pairs_has_both_types),
		cmocka_unit_test(gid_layout_source_full_table_stays_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
