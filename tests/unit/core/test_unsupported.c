/* SPDX-License-Identifier: BSD-2-Clause */

/* Calls for unsupported features return the error for any arguments. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define REFUSES_BY_NULL(call)                        \
	do {                                         \
		errno = 0;                           \
		assert_null(call);                   \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)

static void ibv_alloc_dmah_unsupported_fails_with_eopnotsupp(void **state)
{
	(void)state;
	REFUSES_BY_NULL(ibv_alloc_dmah(NULL, NULL));
}

static void ibv_set_ece_unsupported_fails_with_eopnotsupp(void **state)
{
	struct ibv_ece ece = {0};

	(void)state;
	assert_int_equal(ibv_dealloc_dmah(NULL), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(NULL, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_query_ece(NULL, &ece), EOPNOTSUPP);
	errno = 0;
	assert_int_equal(ibv_dm_export_dmabuf_fd(NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
}

static void ibv_free_buf_null_is_harmless(void **state)
{
	(void)state;
	ibv_free_buf(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_alloc_dmah_unsupported_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_set_ece_unsupported_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_free_buf_null_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
