/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread domains, parent domains and the calls of their allocators; null MRs. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An allocator that counts its calls. */
struct arena {
	struct ibv_pd *pd;
	int allocated;
	int freed;
	bool is_default;
	bool is_empty;
};

static void *arena_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			 uint64_t resource_type)
{
	struct arena *arena = context;
	void *memory = NULL;

	assert_ptr_equal(pd, arena->pd);
	assert_true(resource_type != 0);
	if (arena->is_empty)
		return NULL;
	if (arena->is_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	assert_int_equal(posix_memalign(&memory, alignment, size), 0);
	memset(memory, 0xff, size);
	arena->allocated++;
	return memory;
}

static void arena_free(struct ibv_pd *pd, void *context, void *memory, uint64_t resource_type)
{
	struct arena *arena = context;

	assert_ptr_equal(pd, arena->pd);
	assert_true(resource_type != 0);
	arena->freed++;
	free(memory);
}

static struct ibv_pd *parent_of(struct api *api, struct arena *arena, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = api->pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = arena_alloc,
		.free = arena_free,
		.pd_context = arena,
	};

	arena->pd = ibv_alloc_parent_domain(api->ctx, &attr);
	assert_non_null(arena->pd);
	return arena->pd;
}

/* A message through queues in memory of the application's allocator, with MRs of either domain. */
static void ibv_alloc_parent_domain_queues_use_given_allocator(void **state)
{
	struct api *api = *state;
	struct ibv_pd *plain = api->pd;
	struct arena arena = {0};
	struct ibv_send_wr wr;
	struct ibv_sge from, to;
	struct pair pair;

	api->pd = parent_of(api, &arena, NULL);
	pair_open(&pair, api, NULL);
	assert_int_equal(arena.allocated, 4);
	to = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, &to, 1, 2);
	from = sge_of(&pair.a, 0, 64);
	fill_pattern(pair.a.buf, 64, 3);
	wr = send_wr(IBV_WR_SEND, &from, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf, pair.b.buf, 64);
	pair_close(&pair);
	assert_int_equal(arena.freed, 4);
	assert_int_equal(ibv_dealloc_pd(api->pd), 0);
	api->pd = plain;
}

/* A parent domain is equivalent to its base domain: objects of both can be used together. */
static void ibv_alloc_parent_domain_is_equivalent_to_base(void **state)
{
	struct api *api = *state;
	struct arena arena = {.is_default = true};
	struct ibv_pd *parent = parent_of(api, &arena, NULL);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair pair;

	pair_open(&pair, api, NULL);
	mr = ibv_reg_mr(parent, pair.a.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey = mr->lkey;
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(api->pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void ibv_dealloc_td_in_use_fails_with_ebusy(void **state)
{
	struct ibv_td_init_attr attr = {0};
	struct api *api = *state;
	struct arena arena = {.is_default = true};
	struct ibv_pd *parent;
	struct ibv_td *td = ibv_alloc_td(api->ctx, &attr);

	assert_non_null(td);
	parent = parent_of(api, &arena, td);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	attr.comp_mask = 1;
	assert_null_errno(ibv_alloc_td(api->ctx, &attr), EINVAL);
}

static void ibv_alloc_parent_domain_invalid_attr_fails(void **state)
{
	struct ibv_parent_domain_init_attr attr = {0};
	struct api *api = *state;
	struct arena arena = {.is_empty = true};
	struct ibv_pd *parent = parent_of(api, &arena, NULL);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};

	assert_null_errno(ibv_alloc_parent_domain(api->ctx, &attr), EINVAL);
	attr.pd = parent;
	assert_null_errno(ibv_alloc_parent_domain(api->ctx, &attr), EINVAL);
	attr.pd = api->pd;
	attr.comp_mask = 1u << 10;
	assert_null_errno(ibv_alloc_parent_domain(api->ctx, &attr), EINVAL);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	attr.alloc = arena_alloc;
	assert_null_errno(ibv_alloc_parent_domain(api->ctx, &attr), EINVAL);
	/* The allocator fails. */
	assert_null_errno(ibv_create_srq(parent, &srq), ENOMEM);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void ibv_alloc_null_mr_discards_writes_and_reads_zero(void **state)
{
	struct api *api = *state;
	struct ibv_mr *null = ibv_alloc_null_mr(api->pd);
	struct ibv_sge sges[2], recv[2];
	struct ibv_send_wr wr;
	struct pair pair;

	assert_non_null(null);
	pair_open(&pair, api, NULL);
	memset(pair.b.buf, 0xff, SIDE_BUF_BYTES);
	fill_pattern(pair.a.buf, 64, 4);
	/*
	 * 32 bytes from the null MR, which are zero, then 32 bytes of the buffer; the receiver
	 * discards the first 16.
	 */
	sges[0] = (struct ibv_sge){.addr = 12345, .length = 32, .lkey = null->lkey};
	sges[1] = sge_of(&pair.a, 0, 32);
	recv[0] = (struct ibv_sge){.addr = 0, .length = 16, .lkey = null->lkey};
	recv[1] = sge_of(&pair.b, 0, 64);
	post_recv_ok(&pair.b, recv, 2, 2);
	wr = send_wr(IBV_WR_SEND, sges, &pair.b, 0, 1);
	wr.num_sge = 2;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS).byte_len, 64);
	for (int i = 0; i < 16; i++)
		assert_int_equal(pair.b.buf[i], 0);
	assert_memory_equal(pair.b.buf + 16, pair.a.buf, 32);
	/*
	 * Data that a READ scatters to the null MR is discarded, and a later gather from it is
	 * zero.
	 */
	wr = send_wr(IBV_WR_RDMA_READ, sges, &pair.b, 0, 3);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	wr = send_wr(IBV_WR_RDMA_WRITE, sges, &pair.b, 16, 4);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	for (int i = 16; i < 48; i++)
		assert_int_equal(pair.b.buf[i], 0);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

/*
 * A null region is for local use: ibv_alloc_null_mr(3) says that it is not exposed as an rkey.
 * perftest's --use-null-mr sends the lkey to the peer as an rkey nevertheless.
 */
static void ibv_alloc_null_mr_remote_write_fails(void **state)
{
	struct api *api = *state;
	struct ibv_mr *null = ibv_alloc_null_mr(api->pd);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	assert_non_null(null);
	pair_open(&pair, api, NULL);
	sge = sge_of(&pair.a, 0, 32);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.rkey = null->lkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(null), 0);
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
	api_close(*state);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ibv_alloc_parent_domain_queues_use_given_allocator),
		CASE(ibv_alloc_parent_domain_is_equivalent_to_base),
		CASE(ibv_dealloc_td_in_use_fails_with_ebusy),
		CASE(ibv_alloc_parent_domain_invalid_attr_fails),
		CASE(ibv_alloc_null_mr_discards_writes_and_reads_zero),
		CASE(ibv_alloc_null_mr_remote_write_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
