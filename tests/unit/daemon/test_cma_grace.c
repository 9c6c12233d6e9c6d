/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "daemon/cma_grace.h"

#define THEN_NS 1000u

static const struct cm_ops no_ops;

static struct cm *new_cm(void)
{
	struct cm *cm = cm_new(&no_ops, NULL, 1);

	assert_non_null(cm);
	return cm;
}

static void the_first_req_starts_the_clock(void **state)
{
	struct cma_grace grace = {0};
	uint64_t first_ns = THEN_NS + CMA_GRACE_NS - 2 * CMA_GRACE_HOLD_NS;
	struct cm *cm = new_cm();

	(void)state;
	assert_false(cma_grace_holds(&grace, 0, 0));
	assert_false(cma_grace_holds(&grace, 7, 1));
	cma_grace_add(&grace, cm, 7, THEN_NS);
	assert_false(cma_grace_holds(&grace, 8, THEN_NS));
	assert_true(cma_grace_holds(&grace, 7, first_ns));
	assert_true(cma_grace_holds(&grace, 7, first_ns + CMA_GRACE_HOLD_NS - 1));
	assert_false(cma_grace_holds(&grace, 7, first_ns + CMA_GRACE_HOLD_NS));
	cm_free(cm);
}

static void it_ends(void **state)
{
	struct cma_grace grace = {0};
	struct cm *cm = new_cm();

	(void)state;
	cma_grace_add(&grace, cm, 7, THEN_NS);
	assert_false(cma_grace_holds(&grace, 7, THEN_NS + CMA_GRACE_NS));
	/* Again, and again by somebody who listens. */
	cma_grace_add(&grace, cm, 7, THEN_NS);
	assert_true(cma_grace_holds(&grace, 7, THEN_NS));
	cma_grace_end(&grace, cm, 7);
	assert_false(cma_grace_holds(&grace, 7, THEN_NS));
	cma_grace_end(&grace, cm, 7);
	cm_free(cm);
}

static void the_oldest_makes_room(void **state)
{
	struct cma_grace grace = {0};
	struct cm *cm = new_cm();

	(void)state;
	for (uint64_t service_id = 1; service_id <= CMA_GRACE_SERVICES + 1; service_id++)
		cma_grace_add(&grace, cm, service_id, THEN_NS);
	assert_false(cma_grace_holds(&grace, 1, THEN_NS));
	for (uint64_t service_id = 2; service_id <= CMA_GRACE_SERVICES + 1; service_id++)
		assert_true(cma_grace_holds(&grace, service_id, THEN_NS));
	cm_free(cm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_req_starts_the_clock),
		cmocka_unit_test(it_ends),
		cmocka_unit_test(the_oldest_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
