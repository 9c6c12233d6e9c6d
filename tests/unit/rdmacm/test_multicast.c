/* SPDX-License-Identifier: BSD-2-Clause */

/* Without datagram QPs nothing joins a group, and the call says why. */

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

static void joins_and_leaves_are_refused(void **state)
{
	struct sockaddr_in group = {.sin_family = AF_INET};
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_id id = {.ps = RDMA_PS_TCP};

	(void)state;
	REFUSES(rdma_join_multicast(&id, (struct sockaddr *)&group, NULL));
	REFUSES(rdma_join_multicast_ex(&id, &attr, NULL));
	REFUSES(rdma_leave_multicast(&id, (struct sockaddr *)&group));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joins_and_leaves_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
