/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory, and on-demand memory that may be unmapped and mapped again. */
#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

static struct ibv_dm *dm_of(struct api *api, size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(api->ctx, &attr);

	assert_non_null(dm);
	return dm;
}

static void ibv_memcpy_to_dm_unaligned_length_fails(void **state)
{
	uint32_t words[4] = {1, 2, 3, 4}, back[4] = {0};
	struct ibv_dm *dm = dm_of(*state, 64);
	uint32_t *constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	notice_signal_handlers(*state);
	assert_true(constant != MAP_FAILED);
	assert_int_equal(ibv_memcpy_to_dm(dm, 48, words, sizeof(words)), 0);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 48, sizeof(back)), 0);
	assert_memory_equal(words, back, sizeof(words));
	assert_int_equal(ibv_memcpy_to_dm(dm, 49, words, 4), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 48, words, 5), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 52, words, sizeof(words)), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, UINT64_MAX - 3, 4), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(constant, dm, 48, 4), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, 48, constant, 4), 0);
	assert_int_equal(munmap(constant, PAGE), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 48, constant, 4), EFAULT);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void ibv_alloc_dm_invalid_attr_fails(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_device_attr_ex caps;
	struct api *api = *state;

	assert_int_equal(ibv_query_device_ex(api->ctx, NULL, &caps), 0);
	assert_true(caps.max_dm_size > 0);
	attr.length = caps.max_dm_size + 1;
	assert_null_errno(ibv_alloc_dm(api->ctx, &attr), EINVAL);
	attr.length = 0;
	assert_null_errno(ibv_alloc_dm(api->ctx, &attr), EINVAL);
	attr.length = 64;
	attr.log_align_req = 40;
	assert_null_errno(ibv_alloc_dm(api->ctx, &attr), EINVAL);
	attr.log_align_req = 0;
	attr.comp_mask = 1;
	assert_null_errno(ibv_alloc_dm(api->ctx, &attr), EINVAL);
}

static void ibv_reg_dm_mr_peer_reads_and_writes(void **state)
{
	struct api *api = *state;
	struct ibv_dm *dm = dm_of(api, 256);
	uint32_t word = 0x12345678, back = 0;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;

	assert_null_errno(ibv_reg_dm_mr(api->pd, dm, 0, 64, ALL_ACCESS), EINVAL);
	assert_null_errno(ibv_reg_dm_mr(api->pd, dm, 200, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED),
			  EINVAL);
	mr = ibv_reg_dm_mr(api->pd, dm, 128, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	pair_open(&pair, api, NULL);
	memcpy(pair.a.buf, &word, sizeof(word));
	sge = sge_of(&pair.a, 0, sizeof(word));
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 8;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(&back, dm, 136, sizeof(back)), 0);
	assert_int_equal(back, word);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* One key for all memory that is mapped now or later (implicit ODP). */
static void ibv_reg_mr_implicit_odp_covers_all_memory(void **state)
{
	const unsigned int access = ALL_ACCESS | IBV_ACCESS_ON_DEMAND;
	struct api *api = *state;
	struct ibv_mr *all = ibv_reg_mr(api->pd, NULL, SIZE_MAX, access);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;
	uint8_t *late;

	assert_non_null(all);
	assert_null_errno(ibv_reg_mr(api->pd, NULL, SIZE_MAX, ALL_ACCESS), EINVAL);
	notice_signal_handlers(api);
	pair_open(&pair, api, NULL);
	late = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(late != MAP_FAILED);
	fill_pattern(pair.a.buf, PAGE, 5);
	sge = (struct ibv_sge){.addr = (uintptr_t)pair.a.buf, .length = PAGE, .lkey = all->lkey};
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = all->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)late;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(late, pair.a.buf, PAGE);
	/* Unmapped memory is a failed access with every transport, and no process crashes. */
	assert_int_equal(munmap(late, PAGE), 0);
	wr.wr_id = 2;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 2, IBV_WC_REM_OP_ERR);
	pair_reconnect(&pair);
	sge.addr = (uintptr_t)late;
	wr = send_wr(IBV_WR_SEND, &sge, &pair.b, 0, 3);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(all), 0);
}

static void ibv_advise_mr_odp_region_is_prefetched(void **state)
{
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
	struct api *api = *state;
	uint8_t *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 4 * PAGE, access);
	struct ibv_mr *read_only = ibv_reg_mr(api->pd, memory, PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = ibv_reg_mr(api->pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(api->ctx);
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 4 * PAGE, .lkey = mr->lkey};
	unsigned char there[4];

	assert_int_equal(mincore(memory, 4 * PAGE, there), 0);
	assert_int_equal(there[1] & 1, 0);
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1),
			 0);
	assert_int_equal(ibv_advise_mr(api->pd, (enum ibv_advise_mr_advice)77, 0, &sge, 1),
			 EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
	sge.length++;
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge.length = PAGE;
	sge.lkey = read_only->lkey;
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1),
			 EPERM);
	assert_int_equal(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	sge.lkey = plain->lkey;
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
	sge.lkey ^= 0x4000;
	assert_int_equal(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(read_only), 0);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	munmap(memory, 4 * PAGE);
}

static int set_up(void **state)
{
	static struct api api;

	api_open(&api);
	*state = &api;
	return 0;
}

static int tear_down(void **state)
{
	struct api *api = *state;
	struct ibv_async_event event;

	while (readable_within(api->ctx->async_fd, 0)) {
		assert_int_equal(ibv_get_async_event(api->ctx, &event), 0);
		ibv_ack_async_event(&event);
	}
	api_close(api);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ibv_memcpy_to_dm_unaligned_length_fails),
		CASE(ibv_alloc_dm_invalid_attr_fails),
		CASE(ibv_reg_dm_mr_peer_reads_and_writes),
		CASE(ibv_reg_mr_implicit_odp_covers_all_memory),
		CASE(ibv_advise_mr_odp_region_is_prefetched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
