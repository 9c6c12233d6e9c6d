/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static uint8_t page[8192] __attribute__((aligned(4096)));

static void ibv_dealloc_pd_with_mr_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_mr *mr;

	assert_non_null(pd);
	assert_ptr_equal(pd->context, api->ctx);
	mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_reg_mr_sets_members(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr(api->pd, page + 3, 100, ALL_ACCESS);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, page + 3);
	assert_int_equal(mr->length, 100);
	assert_ptr_equal(mr->pd, api->pd);
	assert_ptr_equal(mr->context, api->ctx);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_reg_mr_zero_length_succeeds(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr(api->pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_reg_mr_remote_write_without_local_write_fails(void **state)
{
	struct api *api = *state;

	assert_null_errno(ibv_reg_mr(api->pd, page, 16, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	assert_null_errno(ibv_reg_mr(api->pd, page, 16, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
}

static void ibv_reg_mr_wrapping_range_fails(void **state)
{
	struct api *api = *state;

	assert_null(ibv_reg_mr(api->pd, page, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
}

static void ibv_reg_mr_optional_access_flags_are_accepted(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr(api->pd, page, 16,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_reg_mr_iova_other_than_address_succeeds(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr_iova(api->pd, page, 4096, 0x1000, ALL_ACCESS);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_reg_mr_keys_are_not_reused_at_once(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr(api->pd, page, 16, ALL_ACCESS);
	uint32_t key = mr->rkey;

	for (int i = 0; i < 100; i++) {
		assert_int_equal(ibv_dereg_mr(mr), 0);
		mr = ibv_reg_mr(api->pd, page, 16, ALL_ACCESS);
		assert_non_null(mr);
		assert_int_not_equal(mr->rkey, key);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_reg_mr_many_regions_succeed(void **state)
{
	enum { COUNT = 20000 };
	static struct ibv_mr *mrs[COUNT];
	struct api *api = *state;

	for (int i = 0; i < COUNT; i++) {
		mrs[i] = ibv_reg_mr(api->pd, page, sizeof(page), ALL_ACCESS);
		assert_non_null(mrs[i]);
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
}

static void ibv_reg_mr_pins_no_memory(void **state)
{
	struct rlimit limit = {0, 0};
	struct api *api = *state;
	size_t bytes = (size_t)1 << 34;
	struct ibv_mr *mr;
	void *huge;

	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	huge = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(huge != MAP_FAILED);
	mr = ibv_reg_mr(api->pd, huge, bytes, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(huge, bytes), 0);
}

static void ibv_rereg_mr_changes_range_access_and_pd(void **state)
{
	struct api *api = *state;
	struct ibv_pd *other = ibv_alloc_pd(api->ctx);
	struct ibv_mr *mr = ibv_reg_mr(api->pd, page, 16, IBV_ACCESS_LOCAL_WRITE);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, page + 64, 32, 0),
			 0);
	assert_ptr_equal(mr->addr, page + 64);
	assert_int_equal(mr->length, 32);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS),
			 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void ibv_rereg_mr_invalid_argument_fails(void **state)
{
	struct api *api = *state;
	struct ibv_mr *mr = ibv_reg_mr(api->pd, page, 16, IBV_ACCESS_LOCAL_WRITE);

	assert_int_equal(ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_dealloc_pd_with_mr_fails_with_ebusy),
		cmocka_unit_test(ibv_reg_mr_sets_members),
		cmocka_unit_test(ibv_reg_mr_zero_length_succeeds),
		cmocka_unit_test(ibv_reg_mr_remote_write_without_local_write_fails),
		cmocka_unit_test(ibv_reg_mr_wrapping_range_fails),
		cmocka_unit_test(ibv_reg_mr_optional_access_flags_are_accepted),
		cmocka_unit_test(ibv_reg_mr_iova_other_than_address_succeeds),
		cmocka_unit_test(ibv_reg_mr_keys_are_not_reused_at_once),
		cmocka_unit_test(ibv_reg_mr_many_regions_succeed),
		cmocka_unit_test(ibv_reg_mr_pins_no_memory),
		cmocka_unit_test(ibv_rereg_mr_changes_range_access_and_pd),
		cmocka_unit_test(ibv_rereg_mr_invalid_argument_fails),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
