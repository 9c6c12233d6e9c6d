/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * ibv_reg_mr_ex(): the arguments of the registration, and the errors before it. The linker replaces
 * the registration.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct ibv_pd pd;
static struct ibv_mr mr;
static struct {
	int calls;
	void *addr;
	size_t length;
	uint64_t iova;
	unsigned int access;
} seen;

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *of, void *addr, size_t length, uint64_t iova,
				       unsigned int access);

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *of, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	assert_ptr_equal(of, &pd);
	seen.calls++;
	seen.addr = addr;
	seen.length = length;
	seen.iova = iova;
	seen.access = access;
	return &mr;
}

static int forget(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	return 0;
}

static void ibv_reg_mr_ex_without_iova_uses_address(void **state)
{
	char buf[64];
	struct ibv_mr_init_attr attr = {
		.length = sizeof(buf),
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING,
		.comp_mask = IBV_REG_MR_MASK_ADDR,
		.iova = 4711,
		.addr = buf,
	};

	(void)state;
	assert_ptr_equal(ibv_reg_mr_ex(&pd, &attr), &mr);
	assert_int_equal(seen.calls, 1);
	assert_ptr_equal(seen.addr, buf);
	assert_int_equal(seen.length, sizeof(buf));
	assert_true(seen.iova == (uintptr_t)buf);
	assert_int_equal(seen.access, attr.access);
}

static void ibv_reg_mr_ex_with_iova_uses_it(void **state)
{
	char buf[64];
	struct ibv_mr_init_attr attr = {
		.length = sizeof(buf),
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA,
		.iova = 0x100000,
		.addr = buf,
	};

	(void)state;
	assert_ptr_equal(ibv_reg_mr_ex(&pd, &attr), &mr);
	assert_true(seen.iova == 0x100000);
}

static void check_refused(uint64_t comp_mask, int err)
{
	struct ibv_mr_init_attr attr = {.length = 1, .comp_mask = comp_mask, .addr = &attr};

	errno = 0;
	assert_null(ibv_reg_mr_ex(&pd, &attr));
	assert_int_equal(errno, err);
	assert_int_equal(seen.calls, 0);
}

static void ibv_reg_mr_ex_unsupported_feature_fails(void **state)
{
	(void)state;
	check_refused(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH, EOPNOTSUPP);
}

static void ibv_reg_mr_ex_invalid_mask_fails(void **state)
{
	(void)state;
	check_refused(0, EINVAL);
	check_refused(IBV_REG_MR_MASK_IOVA, EINVAL);
	check_refused(IBV_REG_MR_MASK_ADDR | 1 << 6, EINVAL);
	check_refused(IBV_REG_MR_MASK_ADDR | UINT64_C(1) << 63, EINVAL);
	check_refused(IBV_REG_MR_MASK_FD | UINT64_C(1) << 40, EINVAL);
	check_refused(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_ADDR, EINVAL);
	check_refused(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_BUF, EINVAL);
	check_refused(IBV_REG_MR_MASK_BUF, EINVAL);
	/* Neither an address nor a buffer is given. */
	check_refused(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF, EINVAL);
	check_refused(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ibv_reg_mr_ex_without_iova_uses_address, forget),
		cmocka_unit_test_setup(ibv_reg_mr_ex_with_iova_uses_it, forget),
		cmocka_unit_test_setup(ibv_reg_mr_ex_unsupported_feature_fails, forget),
		cmocka_unit_test_setup(ibv_reg_mr_ex_invalid_mask_fails, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
