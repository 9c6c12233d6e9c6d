/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "daemon/cma_grace.h"

static const struct cm_ops no_ops;

static void it_ends(void **state)
{
	struct cma_grace grace = {0};
	struct cm *cm = cm_new(&no_ops, NULL, 1);

	(void)state;
	assert_non_null(cm);
	assert_false(cma_grace_covers(&grace, 0, 0));
	assert_false(cma_grace_covers(&grace, 7, 1));
	cma_grace_add(&grace, cm, 7, 1000);
	assert_true(cma_grace_covers(&grace, 7, 1000));
	assert_true(cma_grace_covers(&grace, 7, 999 + CMA_GRACE_NS));
	assert_false(cma_grace_covers(&grace, 7, 1000 + CMA_GRACE_NS));
	assert_false(cma_grace_covers(&grace, 8, 1000));
	cma_grace_add(&grace, cm, 7, 2000);
	assert_true(cma_grace_covers(&grace, 7, 1999 + CMA_GRACE_NS));
	cma_grace_end(&grace, cm, 7);
	assert_false(cma_grace_covers(&grace, 7, 2000));
	cma_grace_end(&grace, cm, 7);
	cm_free(cm);
}

static void the_oldest_makes_room(void **state)
{
	struct cma_grace grace = {0};
	struct cm *cm = cm_new(&no_ops, NULL, 1);

	(void)state;
	assert_non_null(cm);
	for (uint64_t service_id = 1; service_id <= CMA_GRACE_SERVICES + 1; service_id++)
		cma_grace_add(&grace, cm, service_id, 1000);
	assert_false(cma_grace_covers(&grace, 1, 1000));
	for (uint64_t service_id = 2; service_id <= CMA_GRACE_SERVICES + 1; service_id++)
		assert_true(cma_grace_covers(&grace, service_id, 1000));
	cm_free(cm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends),
		cmocka_unit_test(the_oldest_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
