/* SPDX-License-Identifier: BSD-2-Clause */

/* What the device has no feature for says so, whatever it is given. */

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

static void no_objects(void **state)
{
	(void)state;
	REFUSES_BY_NULL(ibv_alloc_dmah(NULL, NULL));
}

static void no_operations(void **state)
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

static void releasing_nothing_is_harmless(void **state)
{
	(void)state;
	ibv_free_buf(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_objects),
		cmocka_unit_test(no_operations),
		cmocka_unit_test(releasing_nothing_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
