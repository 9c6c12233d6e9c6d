/* SPDX-License-Identifier: BSD-2-Clause */

/* A device without vendor options neither sets, learns nor refuses any. */

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define REFUSES(call)                                \
	do {                                         \
		errno = 0;                           \
		assert_int_equal(call, -1);          \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)

static void options_are_refused(void **state)
{
	struct ibv_ece ece = {.vendor_id = 1, .options = 2, .comp_mask = 3};
	struct rdma_cm_id id = {.ps = RDMA_PS_TCP};

	(void)state;
	REFUSES(rdma_set_local_ece(&id, &ece));
	REFUSES(rdma_get_remote_ece(&id, &ece));
	REFUSES(rdma_reject_ece(&id, NULL, 0));
	assert_int_equal(ece.vendor_id, 1);
	assert_int_equal(ece.options, 2);
	assert_int_equal(ece.comp_mask, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
