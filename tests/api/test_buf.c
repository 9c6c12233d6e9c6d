/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the library allocates: ibv_alloc_buf(), and its registration. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

#define BUF_BYTES 10000

static struct ibv_mr *register_ex(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length)
{
	struct ibv_mr_init_attr attr = {
		.length = length,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF,
		.addr = addr,
		.buf = buf,
	};

	return ibv_reg_mr_ex(pd, &attr);
}

static void ibv_alloc_buf_memory_can_be_registered(void **state)
{
	struct ibv_mr *whole, *part;
	struct api *api = *state;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_buf *buf = NULL;
	struct pair pair;
	uint8_t *memory = ibv_alloc_buf(api->pd, BUF_BYTES, &buf);

	assert_non_null(memory);
	assert_non_null(buf);
	for (size_t i = 0; i < BUF_BYTES; i++)
		assert_int_equal(memory[i], 0);
	whole = ibv_reg_buf_mr(api->pd, buf, memory, BUF_BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(whole);
	assert_ptr_equal(whole->addr, memory);
	part = register_ex(api->pd, buf, memory + 5000, 5000);
	assert_non_null(part);
	pair_open(&pair, api, NULL);
	fill_pattern(memory, BUF_BYTES, 3);
	sge = (struct ibv_sge){(uintptr_t)memory, BUF_BYTES, whole->lkey};
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.b.buf, memory, BUF_BYTES);
	sge = (struct ibv_sge){(uintptr_t)memory + 5000, 5000, part->lkey};
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair.b, 0, 2);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(memory + 5000, pair.b.buf, 5000);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(part), 0);
	assert_int_equal(ibv_dereg_mr(whole), 0);
	ibv_free_buf(buf);
	ibv_free_buf(NULL);
}

static void ibv_alloc_buf_invalid_size_fails(void **state)
{
	struct ibv_device_attr attr;
	struct api *api = *state;
	struct ibv_buf *buf = NULL;

	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_null_errno(ibv_alloc_buf(api->pd, 0, &buf), EINVAL);
	assert_null_errno(ibv_alloc_buf(api->pd, attr.max_mr_size + 1, &buf), EINVAL);
	assert_null_errno(ibv_alloc_buf(api->pd, SIZE_MAX, &buf), EINVAL);
	/* More than the address space. */
	assert_null_errno(ibv_alloc_buf(api->pd, attr.max_mr_size, &buf), ENOMEM);
	assert_null(buf);
}

/*
 * A parent domain and its PD are different protection domains for this purpose (ibv_alloc_buf(3)).
 */
static void ibv_reg_buf_mr_parent_domain_and_its_pd_differ(void **state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE;
	struct api *api = *state;
	struct ibv_parent_domain_init_attr attr = {.pd = api->pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(api->ctx, &attr);
	struct ibv_buf *of_parent = NULL;
	struct ibv_buf *of_pd = NULL;
	uint8_t *parent_memory = ibv_alloc_buf(parent, BUF_BYTES, &of_parent);
	uint8_t *pd_memory = ibv_alloc_buf(api->pd, BUF_BYTES, &of_pd);
	struct ibv_mr *mr;

	assert_non_null(parent_memory);
	assert_non_null(pd_memory);
	assert_null_errno(ibv_reg_buf_mr(api->pd, of_parent, parent_memory, 1, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(parent, of_pd, pd_memory, 1, access), EINVAL);
	assert_null_errno(register_ex(api->pd, of_parent, parent_memory, 1), EINVAL);
	mr = ibv_reg_buf_mr(parent, of_parent, parent_memory, 1, access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(of_pd);
	ibv_free_buf(of_parent);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void ibv_reg_buf_mr_range_outside_buffer_fails(void **state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE;
	struct api *api = *state;
	struct ibv_buf *buf = NULL;
	struct ibv_pd *other = ibv_alloc_pd(api->ctx);
	uint8_t *memory = ibv_alloc_buf(api->pd, BUF_BYTES, &buf);

	assert_non_null(other);
	assert_non_null(memory);
	assert_null_errno(ibv_reg_buf_mr(other, buf, memory, 1, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, NULL, memory, 1, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory - 1, 2, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory, BUF_BYTES + 1, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory + BUF_BYTES, 1, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory + 1, SIZE_MAX, access), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory, 1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	assert_null_errno(ibv_reg_buf_mr(api->pd, buf, memory, 1, IBV_ACCESS_FLUSH_PERSISTENT),
			  EOPNOTSUPP);
	assert_null_errno(register_ex(other, buf, memory, 1), EINVAL);
	assert_null_errno(register_ex(api->pd, NULL, memory, 1), EINVAL);
	assert_null_errno(register_ex(api->pd, buf, memory, BUF_BYTES + 1), EINVAL);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	ibv_free_buf(buf);
}

static void ibv_dealloc_pd_with_buffer_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_buf *buf = NULL;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);

	assert_non_null(pd);
	assert_non_null(ibv_alloc_buf(pd, 1, &buf));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_export_buf_dmabuf_fd_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_buf *buf;

	assert_non_null(ibv_alloc_buf(api->pd, 4096, &buf));
	assert_minus1_errno(ibv_export_buf_dmabuf_fd(buf), ENODATA);
	assert_minus1_errno(ibv_export_buf_dmabuf_fd(NULL), EINVAL);
	ibv_free_buf(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_alloc_buf_memory_can_be_registered),
		cmocka_unit_test(ibv_alloc_buf_invalid_size_fails),
		cmocka_unit_test(ibv_reg_buf_mr_parent_domain_and_its_pd_differ),
		cmocka_unit_test(ibv_reg_buf_mr_range_outside_buffer_fails),
		cmocka_unit_test(ibv_dealloc_pd_with_buffer_fails_with_ebusy),
		cmocka_unit_test(ibv_export_buf_dmabuf_fd_fails_with_eopnotsupp),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
