/* SPDX-License-Identifier: BSD-2-Clause */

/* ibv_query_gid_type() over a GID table of the test's: the linker wraps _ibv_query_gid_ex(). */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/compat.h"

int __wrap__ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

int __wrap__ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	static const uint32_t types[] = {IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1,
					 IBV_GID_TYPE_ROCE_V2};

	assert_null(context);
	assert_int_equal(port_num, 1);
	assert_int_equal(flags, 0);
	assert_int_equal(entry_size, sizeof(*entry));
	if (gid_index == 3)
		return ENODATA;
	if (gid_index > 3)
		return EINVAL;
	entry->gid_index = gid_index;
	entry->gid_type = types[gid_index];
	return 0;
}

static void check_type(unsigned int index, enum ibv_gid_type_sysfs expected)
{
	enum ibv_gid_type_sysfs type = (enum ibv_gid_type_sysfs)99;

	assert_int_equal(ibv_query_gid_type(NULL, 1, index, &type), 0);
	assert_int_equal(type, expected);
}

static void ibv_query_gid_type_matches_sysfs(void **state)
{
	(void)state;
	check_type(0, IBV_GID_TYPE_SYSFS_IB_ROCE_V1);
	check_type(1, IBV_GID_TYPE_SYSFS_IB_ROCE_V1);
	check_type(2, IBV_GID_TYPE_SYSFS_ROCE_V2);
	assert_int_equal(IBV_GID_TYPE_SYSFS_IB_ROCE_V1, 0);
	assert_int_equal(IBV_GID_TYPE_SYSFS_ROCE_V2, 1);
}

static void ibv_query_gid_type_empty_entry_is_ib(void **state)
{
	(void)state;
	check_type(3, IBV_GID_TYPE_SYSFS_IB_ROCE_V1);
}

static void ibv_query_gid_type_invalid_index_fails(void **state)
{
	enum ibv_gid_type_sysfs type = (enum ibv_gid_type_sysfs)99;

	(void)state;
	errno = 0;
	assert_int_equal(ibv_query_gid_type(NULL, 1, 4, &type), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(type, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_query_gid_type_matches_sysfs),
		cmocka_unit_test(ibv_query_gid_type_empty_entry_is_ib),
		cmocka_unit_test(ibv_query_gid_type_invalid_index_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
